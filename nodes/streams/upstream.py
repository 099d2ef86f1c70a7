"""Which incarnation of the jobs that may write a job's input counts: learned once, when an incarnation starts.

All nodes take it from the record that starts the incarnation: what they looked up themselves would differ by the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from holon.job import incarnation_of
from holon.outputs.identity import newest_incarnations
from nodes.errors import RunFailed
from nodes.log.contract import Log
from nodes.machine.config import JobRun, origin_of
from nodes.streams.control_history import JobControlHistory

TAIL_RECORDS = 1000
"""So many of the last records of each input partition are looked at: of jobs of another log nothing else is known."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A job of which only the name is known."""

    name: str

    @property
    def control_topic(self) -> str:
        return f"_holon.{self.name}.control"


def started_incarnations(log: Log) -> dict[str, int]:
    """Job -> the incarnation that its newest outputs name, of all jobs on this log.

    Its topics are there before the incarnation starts, and stay if it never does: so the control topic has the word.
    """
    topics = log.topics()
    found = _named_incarnations(topics)
    for job, incarnation in found.items():
        named = _Named(job)
        if incarnation and named.control_topic in topics:
            with suppress(RunFailed):  # that job cannot go on itself; its topics are all that is known
                started = JobControlHistory(log, named).ownership.started
                found[job] = 0 if started is None else origin_of(started)
    return found


def upstream_incarnations(log: Log, *topics: str) -> dict[str, int]:
    """Job -> the incarnation whose outputs count in this input, by the log's present content."""
    found = started_incarnations(log)
    for topic, partition in [(name, number) for name in topics for number in range(log.partitions(name))]:
        end = log.end_offset(topic, partition)
        offset = max(log.start_offset(topic, partition), end - TAIL_RECORDS)
        while offset < end:
            chunk = log.read(topic, partition, offset)
            if chunk.next_offset == offset:
                break
            offset = chunk.next_offset
            for name, incarnation in newest_incarnations(chunk.found_headers or ()).items():
                found[name] = max(incarnation, found.get(name, 0))
    return dict(sorted(found.items()))


def _named_incarnations(topics: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for job, incarnation in filter(None, map(incarnation_of, topics)):
        found[job] = max(incarnation, found.get(job, 0))
    return found


class UpstreamWatch:
    """Warns where a job whose outputs a run has counted begins again: it may never write to the run's input.

    A record of the new incarnation ends the run by name. Until one comes, nothing else would report that the counted
    outputs are out of date. ``counted``: the jobs whose outputs this node has seen in the input.
    """

    def __init__(
        self, log: Log, run: JobRun, counted: Callable[[], Collection[str]], report: Callable[[str], None]
    ) -> None:
        self._log, self._run = log, run
        self._counted, self._report = counted, report
        self._seen: dict[str, int] = {}
        self._warned: dict[str, int] = {}

    def poll(self, topics: Iterable[str]) -> None:
        """``topics``: those on the log now. Only where their names show something new, control topics are read."""
        upstream = self._run.upstream or {}
        named = {job: n for job, n in _named_incarnations(topics).items() if n > upstream.get(job, n)}
        new = {job: n for job, n in named.items() if n > self._seen.get(job, 0)}
        new = {job: new[job] for job in sorted(set(self._counted()).intersection(new))}
        if not new:
            return
        self._seen |= new
        started = started_incarnations(self._log)  # one that goes on behind an end has a name of its own, and no origin
        for job in new:
            incarnation = started.get(job, 0)
            if incarnation > max(upstream[job], self._warned.get(job, 0)):
                self._warned[job] = incarnation
                self._report(
                    f"job {job!r} has begun again (incarnation {incarnation}), and results of incarnation "
                    f"{upstream[job]} are counted here: job {self._run.job.name!r} will fail at the first new one in "
                    f"its input; start it again with --reset, so that each result counts once"
                )
