"""A run of `holon sink`: all sinks of a job, until the job has come to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holon.job import Job
from nodes.errors import RunFailed
from nodes.file_sinks.sink import FileSink
from nodes.log.contract import Log
from nodes.machine.config import origin_of
from nodes.streams.control_history import JobControlHistory

_LONGEST_WAIT_S, _SHORTEST_WAIT_S = 0.5, 0.02


class JobEnd:
    """Whether a job has come to the end of a bounded input: then no row is written any more."""

    def __init__(self, log: Log, job: Job) -> None:
        self._log = log
        self._job = job
        self._history: JobControlHistory | None = None

    def reached(self, sinks: Sequence[FileSink]) -> bool:
        """Raises ``RunFailed`` where the job began anew, behind what the sinks write."""
        if self._history is None:
            if self._job.control_topic not in self._log.topics():
                return False
            self._history = JobControlHistory(self._log, self._job)
        ownership = self._history.read()
        if ownership.started is None:
            return False
        origin = origin_of(ownership.started)
        for sink in sinks:
            if origin > sink.incarnations.get(self._job.name, origin):
                raise RunFailed(
                    f"job {self._job.name!r} began anew (incarnation {origin}), and {sink.files.root} has the rows of "
                    f"incarnation {sink.incarnations[self._job.name]}: write to a new folder, or empty this one first"
                )
        return ownership.all_done()


def run_sinks(
    sinks: Sequence[FileSink],
    end: JobEnd,
    *,
    bounded: bool,
    stop: Callable[[], bool],
    wait: Callable[[float], object],
    clock_s: Callable[[], float],
    show: Callable[[], None] = lambda: None,
) -> bool:
    """Write files until ``stop()``, until the job has ended, or, ``bounded``, until they hold what is there now.

    True if the job has ended: each folder is complete then, and marked so.
    """
    pause_s = min([_LONGEST_WAIT_S, *(sink.files.commit_after_ms / 4000 for sink in sinks)])
    while not stop():
        has_ended = end.reached(sinks)  # before the ends of the topics are looked up
        for sink in sinks:
            sink.turn(clock_s(), flush=bounded or has_ended)
        show()
        if has_ended and all(sink.caught_up() for sink in sinks):
            for sink in sinks:
                sink.succeed()
            return True
        if bounded and not has_ended:
            return False
        wait(max(pause_s, _SHORTEST_WAIT_S))
    return False
