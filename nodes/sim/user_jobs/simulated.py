"""A user's job as a case of the simulation, by itself or by its name on the command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from holon.job import Job
from holon.source import Source
from nodes.sim.case import Case
from nodes.sim.options import Options
from nodes.sim.run import MAX_NODES, Verdict, run
from nodes.sim.user_jobs.drawing import UserRecords, draw, feeds_of
from nodes.sim.user_jobs.plain_pass import LOG_BEGINS_MS, DataFacts, check_plain_pass
from nodes.sim.user_jobs.records import Lines, files_by_topic, read_files
from nodes.streams.jobs import load_job

DEFAULT_RECORDS = 1000
"""Lines of each file; more make a seed take longer, and show little more."""

Sink = Callable[[str], None]


@dataclass(frozen=True)
class Drawn:
    """Limits and numbers that are given with the seeds; None: drawn."""

    max_nodes: int = MAX_NODES
    partitions: int | None = None
    replicas: int | None = None


class UserJob:
    """A job and the records of each of its topics. ``replay`` gives the command that runs a seed again."""

    def __init__(self, job: Job, lines: Lines, drawn: Drawn, facts: DataFacts, replay: Callable[[int], str]) -> None:
        self._job = job
        self._drawn = drawn
        self._records = UserRecords(facts.records, job.allows_idleness, facts.span_ms, len(job.topics))
        self._replay = replay
        first, *further = job.topics
        self._case = Case(
            self._made,
            idle=self._records.idle,
            backlog=self._records.idle,
            topic=first,
            further_topics=tuple(further),
            feeds=lambda options, rng: feeds_of(lines, self._case.topics(options.partitions), options, rng),
            check=check_plain_pass,
            log_begins_ms=LOG_BEGINS_MS,
            bounded=True,
        )

    def _made(self, options: Options) -> Job:
        sources = [self._source(source, options) for source in self._job.sources]
        return replace(self._job, source=sources[0] if len(sources) == 1 else sources)

    def _source(self, source: Source[Any], options: Options) -> Source[Any]:
        idle = None if source.idle_timeout_ms is None else options.idle_timeout_ms
        return replace(source, start="earliest", idle_timeout_ms=idle)  # a reset must not pass over what is there

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
    """A job by its reference, and the first ``records`` lines of each file; each process loads it once.

    ``facts`` are those of ``data_facts``.
    """

    reference: str
    data: tuple[str, ...]
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
        files = [word for file in self.data for word in ("--data", file)]
        words = ["holon", "sim", self.reference, *files, "--seed", str(seed)]
        return shlex.join([*words, *(f"{name}={value}" for name, value in given.items() if value is not None)])


@cache
def _loaded(named: NamedUserJob) -> UserJob:
    job = load_job(named.reference)
    lines = read_files(job, files_by_topic(job, named.data), named.records)
    return UserJob(job, lines, named.drawn, named.facts, named.replay)
