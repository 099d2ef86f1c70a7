"""``JobTestDriver``: virtual time, failures, and what it shows of a job."""

from __future__ import annotations

import pytest

from holon import Context, Job, Json, Local, ProcessingFunction, Source
from holon.testing import JobTestDriver, run_job
from tests.unit.holon_jobs import Base, Event, job


class Sums(ProcessingFunction[Event]):
    so_far = Local(0)

    def __init__(self, remembers: bool = True) -> None:
        self.remembers = remembers
        self.forgotten = [0]  # not declared, so no checkpoint knows of it

    def process(self, event: Event, ctx: Context) -> None:
        self.so_far.value += event["ts"]
        self.forgotten[0] += event["ts"]
        ctx.emit(self.so_far.value if self.remembers else self.forgotten[0])


def test_a_failure_replays_from_the_last_checkpoint_and_shows_nothing_twice() -> None:
    test = JobTestDriver(job(Sums))
    test.feed(0, {"ts": 1}, {"ts": 2})
    test.checkpoint(0)
    test.feed(0, {"ts": 3})
    test.fail(0)
    test.feed(0, {"ts": 4})
    assert test.outputs() == [1, 3, 6, 10]
    assert test.counts.accepted == 4


def test_a_failure_reveals_what_is_no_declared_state() -> None:
    def results(fails: bool) -> list[int]:
        test = JobTestDriver(job(Sums(remembers=False)))
        test.feed(0, {"ts": 1})
        test.checkpoint(0)
        if fails:
            test.fail(0)
        test.feed(0, {"ts": 2})
        return test.outputs()

    assert results(fails=False) == [1, 3]
    assert results(fails=True) == [1, 2]


@pytest.mark.parametrize("checkpoints", ["never", "before", "after"])
def test_a_failure_keeps_punctuations_where_they_were(checkpoints: str) -> None:
    test = JobTestDriver(job(Base), partitions=2)
    test.feed(0, {"ts": 1})
    if checkpoints == "before":
        test.checkpoint(0)
    test.advance_watermark(0, 40)
    if checkpoints == "after":
        test.checkpoint(0)
    test.fail(0)
    test.feed(0, {"ts": 2}, {"ts": 41})
    assert [record["offset"] for record in test.late()] == [1]
    assert test.tasks[0].watermark_ms == 41 and test.tasks[0].punctuations == 1


def test_a_partition_without_records_is_ended_like_any_other() -> None:
    assert run_job(job(Sums), [[], [{"ts": 5}]]) == [5]


def test_feeding_after_the_end_is_a_mistake() -> None:
    test = JobTestDriver(job(Sums))
    test.finish()
    with pytest.raises(AssertionError, match="fed after finish"):
        test.feed(0, {"ts": 1})


def test_the_clock_is_the_log_timestamp_of_what_is_fed() -> None:
    test = JobTestDriver(job(Base), clock_ms=5)
    test.clock_ms = 9
    test.feed(0, b"broken")
    assert test.dead()[0]["timestamp_ms"] == 9


def test_an_output_has_the_name_of_the_job_or_of_its_topic_and_another_one_is_a_mistake() -> None:
    job = Job("named", Source("in", Json(dict)), lambda event, ctx: ctx.emit(event["n"]), output="numbers")
    test = JobTestDriver(job)
    test.feed(0, {"n": 5})
    assert test.outputs() == test.outputs("numbers") == [5]
    with pytest.raises(KeyError, match="has no output 'number'; it has "):
        test.outputs("number")
