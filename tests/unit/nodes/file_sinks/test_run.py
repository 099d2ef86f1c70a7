"""A run of sinks, until the job has come to its end (nodes/file_sinks/run.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from holon import Context, Job, Json, Source
from nodes.errors import RunFailed
from nodes.file_sinks.run import JobEnd, run_sinks
from nodes.file_sinks.sink import FileSink
from nodes.log import MemoryLog
from nodes.streams.jobs import open_job
from tests.unit.file_sinks import JOB, TOPIC, HookedStore, emit, expected, output_log, rows_in, sink_of


class HiddenRows(MemoryLog):
    """Rows from an offset on are those of an open transaction."""

    hidden_from: int | None = None

    def end_offset(self, topic: str, partition: int) -> int:
        end = super().end_offset(topic, partition)
        return end if self.hidden_from is None else min(end, self.hidden_from)

    def high_watermark(self, topic: str, partition: int) -> int:
        return super().end_offset(topic, partition)


class EndAt(JobEnd):
    """A job that has ended or not."""

    def __init__(self, log: MemoryLog, has_ended: bool) -> None:
        super().__init__(log, job())
        self.has_ended = has_ended

    def reached(self, sinks: Sequence[FileSink]) -> bool:
        return self.has_ended


def job() -> Job[dict[str, int]]:
    def passing(event: dict[str, int], ctx: Context) -> None:
        ctx.emit(event)

    return Job(JOB, Source("in", Json(dict)), passing, output=TOPIC)


def run(
    sink: FileSink, end: JobEnd, wait: Callable[[float], object], *, bounded: bool = False, turns: int = 100
) -> bool:
    left = iter(range(turns))
    return run_sinks(
        [sink], end, bounded=bounded, stop=lambda: next(left, None) is None, wait=wait, clock_s=lambda: 0.0
    )


def test_a_folder_is_complete_once_its_job_has_ended_and_no_open_transaction_hides_a_row():
    log, store = HiddenRows(), HookedStore()
    log.create_topic(TOPIC, 1)
    emit(log, 0, range(5))
    log.hidden_from = 3

    def commit(wait_s: float) -> None:
        assert "_SUCCESS" not in store.values and rows_in(store) == expected(1, range(3))
        log.hidden_from = None

    assert run(sink_of(log, store), EndAt(log, True), commit)
    assert "_SUCCESS" in store.values and rows_in(store) == expected(1, range(5))


def test_a_job_that_goes_on_is_followed_until_the_stop_and_its_folder_is_not_complete():
    log, store = output_log(1), HookedStore()
    sink = sink_of(log, store, commit_after=0)
    waited: list[float] = []

    def more(wait_s: float) -> None:
        waited.append(wait_s)
        emit(log, 0, range(len(waited) - 1, len(waited)))

    assert not run(sink, EndAt(log, False), more, turns=4)
    assert rows_in(store) == expected(1, range(3)) and "_SUCCESS" not in store.values
    assert len(waited) == 4 and min(waited) > 0


def test_a_bounded_run_writes_what_is_there_and_ends():
    log, store = output_log(1), HookedStore()
    emit(log, 0, range(2))
    sink = sink_of(log, store, commit_after="1h")
    sink.turn(0.0)
    emit(log, 0, range(2, 3))
    assert not run(sink, EndAt(log, False), lambda wait_s: pytest.fail("it waits"), bounded=True)
    assert rows_in(store) == expected(1, range(3))


def test_a_job_that_began_anew_ends_the_run_although_none_of_its_rows_is_there():
    log, store = output_log(1), HookedStore()
    log.create_topic("in", 1)
    end = JobEnd(log, job())
    sink = sink_of(log, store)
    assert not end.reached([sink]), "the job was never started"
    open_job(log, job())
    sink = sink_of(log, HookedStore())
    assert not end.reached([sink]) and sink.incarnations == {JOB: 0}
    open_job(log, job(), reset=True)
    with pytest.raises(RunFailed, match=r"job 'shop' began anew \(incarnation 1\), and out has the rows of"):
        end.reached([sink])
