"""Many seeds: one after the other, or in several processes, with what happened in them added up."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Protocol

from nodes.python_process import deaf_children
from nodes.runtime.process_start import collect_rarely
from nodes.sim.case import EIGHTEENTH_SEED
from nodes.sim.drawing import draw
from nodes.sim.options import Options
from nodes.sim.run import MAX_NODES, Verdict, simulate

SEED_BITS = 40


def fresh_base_seed() -> int:
    """Another one at each call, from the operating system: the one thing here that no seed decides."""
    return EIGHTEENTH_SEED + (int.from_bytes(os.urandom(8), "big") >> (64 - SEED_BITS))


class Simulated(Protocol):
    """A source of runs, one for each seed; processes hand it to each other."""

    def options(self, seed: int) -> Options:
        """The draws of the seed."""
        ...

    def simulate(self, seed: int, sink: Callable[[str], None] | None = None) -> Verdict:
        """One run, with its verdict. ``sink`` gets each line of its trace."""
        ...


@dataclass(frozen=True, slots=True)
class DrawnJobs:
    """Jobs of the simulation itself; None: drawn."""

    max_nodes: int = MAX_NODES
    case: str | None = None
    replicas: int | None = None

    def options(self, seed: int) -> Options:
        """As ``Simulated.options``."""
        return draw(seed, self.max_nodes, self.case, replicas=self.replicas)

    def simulate(self, seed: int, sink: Callable[[str], None] | None = None) -> Verdict:
        """As ``Simulated.simulate``."""
        return simulate(seed, max_nodes=self.max_nodes, case=self.case, replicas=self.replicas, sink=sink)


def simulate_all(seeds: Iterable[int], runs: Simulated, *, processes: int = 1) -> Iterator[Verdict]:
    """The verdict of each seed, in the order of the seeds."""
    jobs = [(runs, seed) for seed in seeds]
    if processes <= 1 or len(jobs) < 4:
        yield from map(_simulate, jobs)
        return
    with ExitStack() as stack:
        # spawn: a fork would copy threads that the caller may have (a progress display, a logger)
        resource_tracker.ensure_running()  # its first start unblocks the signals that are blocked below
        with deaf_children():
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(processes, collect_rarely))
        yield from pool.imap(_simulate, jobs, chunksize=4)


def _simulate(job: tuple[Simulated, int]) -> Verdict:
    runs, seed = job
    return runs.simulate(seed)


def explain(verdict: Verdict, lines: int = 60) -> str:
    """The report of a failed seed: its options, the end of its trace, the problem, and how to see it again."""
    tail = "\n".join(verdict.tail[-lines:])
    return f"options: {verdict.options}\n{tail}\nproblem: {verdict.problem}\nreplay: {verdict.replay}"


def brief(verdict: Verdict) -> str:
    """The report of a failed seed for the author of the job: the problem, and how to see it again."""
    return f"seed {verdict.seed} failed: {verdict.problem}\nreplay: {verdict.replay}"
