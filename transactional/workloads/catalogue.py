"""All workloads by name."""

from __future__ import annotations

from transactional.workloads import append, cart, chain, cycle, movies, travel, ycsb, ycsb_t
from transactional.workloads.contract import BenchWorkload
from transactional.workloads.tpcc import workloads as tpcc

WORKLOADS: dict[str, BenchWorkload] = {
    each.name: each
    for each in (
        ycsb_t.workload,
        *ycsb.workloads,
        movies.workload,
        *travel.workloads,
        cart.workload,
        cycle.workload,
        append.workload,
        *chain.workloads,
        *tpcc.workloads,
    )
}
