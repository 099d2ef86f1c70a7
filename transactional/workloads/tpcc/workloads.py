"""TPC-C as workloads: New-Order with Payment, as Styx measures it, and the whole mix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from transactional.workloads.contract import BenchWorkload
from transactional.workloads.tpcc.consistency import check
from transactional.workloads.tpcc.loading import load
from transactional.workloads.tpcc.mix import FULL, PAIR, requests
from transactional.workloads.tpcc.profiles import program


def _workload(name: str, mix: Sequence[tuple[float, str]]) -> BenchWorkload:
    return BenchWorkload(
        name=name,
        program=program,
        # consistency and loading register functions of their own: nodes need them all
        reference="transactional.workloads.tpcc.workloads:program",
        size=2,
        counts="warehouses",
        load=load,
        requests=partial(requests, mix=mix),
        check=check,
        expected_aborts=("NotFound",),
    )


workloads = [_workload("tpcc", PAIR), _workload("tpcc-full", FULL)]
