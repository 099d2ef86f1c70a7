"""A user's job as a case of the simulation, by itself or by its name on the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from holon.job import Job, encode_json
from nodes.profiling.records import lines_of
from nodes.sim.case import Case
from nodes.sim.options import Options
from nodes.sim.run import MAX_NODES, Verdict, run
from nodes.sim.user_jobs.drawing import UserRecords, draw, feeds_of
from nodes.sim.user_jobs.plain_pass import LOG_BEGINS_MS, DataFacts, check_plain_pass
from nodes.streams.jobs import load_job

DEFAULT_RECORDS = 1000
"""Lines of a file; more make a seed take longer, and show little more."""

Sink = Callable[[str], None]


@dataclass(frozen=True)
class Drawn:
    """Limits and numbers that are given with the seeds; None: drawn."""

    max_nodes: int = MAX_NODES
    partitions: int | None = None
    replicas: int | None = None


class UserJob:
    """A job and its records. ``replay`` gives the command that runs a seed again."""

    def __init__(
        self, job: Job, lines: Sequence[bytes], drawn: Drawn, facts: DataFacts, replay: Callable[[int], str]
    ) -> None:
        self._job = job
        self._drawn = drawn
        self._records = UserRecords(len(lines), job.allows_idleness, facts.span_ms)
        self._replay = replay
        self._case = Case(
            self._made,
            idle=self._records.idle,
            backlog=self._records.idle,
            topic=job.topics[0],
            feeds=partial(feeds_of, lines),
            check=check_plain_pass,
            log_begins_ms=LOG_BEGINS_MS,
            bounded=True,
        )

    def _made(self, options: Options) -> Job:
        (only,) = self._job.sources
        source = replace(only, start="earliest")  # a reset must not pass over what is there
        if self._records.idle:
            source = replace(source, idle_timeout_ms=options.idle_timeout_ms)
        return replace(self._job, source=source)

    def options(self, seed: int, calm: bool = False) -> Options:
        """The draws of the seed."""
        drawn = self._drawn
        return draw(
            seed,
            self._records,
            max_nodes=drawn.max_nodes,
            partitions=drawn.partitions,
            replicas=drawn.replicas,
            calm=calm,
        )

    def simulate(self, seed: int, sink: Sink | None = None, calm: bool = False) -> Verdict:
        """One run, with its verdict; ``calm`` without faults."""
        return run(self.options(seed, calm), sink, self._replay(seed), self._case)


@dataclass(frozen=True)
class NamedUserJob:
    """A job by its reference, and the first ``records`` lines of a file; each process loads it once.

    ``facts`` are those of ``data_facts``.
    """

    reference: str
    data: str
    records: int
    drawn: Drawn
    facts: DataFacts

    def options(self, seed: int) -> Options:
        """As ``UserJob.options``."""
        return _loaded(self).options(seed)

    def simulate(self, seed: int, sink: Sink | None = None) -> Verdict:
        """As ``UserJob.simulate``."""
        return _loaded(self).simulate(seed, sink)

    def replay(self, seed: int) -> str:
        """The command that runs the seed again."""
        given = {"--records": None if self.records == DEFAULT_RECORDS else self.records}
        given |= {"--nodes": None if self.drawn.max_nodes == MAX_NODES else self.drawn.max_nodes}
        given |= {"--partitions": self.drawn.partitions, "--replicas": self.drawn.replicas}
        words = ["holon", "sim", self.reference, "--data", self.data, "--seed", str(seed)]
        return shlex.join([*words, *(f"{name}={value}" for name, value in given.items() if value is not None)])


def as_lines(data: str | Path | Sequence[Any]) -> list[bytes]:
    """The lines of a file, or records: bytes as they are, anything else as JSON. Raises ``RunFailed``."""
    if isinstance(data, str | Path):
        return lines_of(Path(data), sys.maxsize)
    return [encode_json(record) for record in data]


@cache
def _loaded(named: NamedUserJob) -> UserJob:
    lines = lines_of(Path(named.data), named.records)
    return UserJob(load_job(named.reference), lines, named.drawn, named.facts, named.replay)
