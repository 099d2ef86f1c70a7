"""Many seeds: one after the other, or in several processes, with what happened in them added up."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from multiprocessing import resource_tracker

from nodes.python_process import deaf_children
from nodes.sim.faults.stress import FIRST_SEED
from nodes.sim.run import MAX_NODES, Verdict, simulate

SEED_BITS = 40


def fresh_base_seed() -> int:
    """Another one at each call, from the operating system: the one thing here that no seed decides."""
    return FIRST_SEED + (int.from_bytes(os.urandom(8), "big") >> (64 - SEED_BITS))


def simulate_all(
    seeds: Iterable[int],
    *,
    max_nodes: int = MAX_NODES,
    case: str | None = None,
    replicas: int | None = None,
    processes: int = 1,
) -> Iterator[Verdict]:
    """The verdict of each seed, in the order of the seeds."""
    seeds = list(seeds)
    jobs = ((seed, max_nodes, case, replicas) for seed in seeds)
    if processes <= 1 or len(seeds) < 4:
        yield from map(_simulate, jobs)
        return
    with ExitStack() as stack:
        # spawn: a fork would copy threads that the caller may have (a progress display, a logger)
        resource_tracker.ensure_running()  # its first start unblocks the signals that are blocked below
        with deaf_children():
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(processes))
        yield from pool.imap(_simulate, jobs, chunksize=4)


def _simulate(job: tuple[int, int, str | None, int | None]) -> Verdict:
    seed, max_nodes, case, replicas = job
    return simulate(seed, max_nodes=max_nodes, case=case, replicas=replicas)


def explain(verdict: Verdict, lines: int = 60) -> str:
    """The report of a failed seed: its options, the end of its trace, the problem, and how to see it again."""
    tail = "\n".join(verdict.tail[-lines:])
    return f"options: {verdict.options}\n{tail}\nproblem: {verdict.problem}\nreplay: {verdict.replay}"
