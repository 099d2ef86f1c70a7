"""The fate of a record before the processing function gets it: event times, filters, lateness, dead letters."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from holon import (
    WCRDT,
    Batch,
    BoundedOutOfOrderness,
    Context,
    Decoded,
    Job,
    JobError,
    Json,
    JsonColumns,
    ManualWatermarks,
    ProcessingFunction,
    Source,
    Tumbling,
    UserFunctionError,
)
from holon.testing import JobTestDriver
from tests.unit.holon_jobs import Reading
from wcrdt import GCounter

Event = dict[str, Any]


class Times(ProcessingFunction[Any]):
    """Emits the event times of what was accepted."""

    count = WCRDT(GCounter(), Tumbling(10))

    def process(self, event: Any, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)
        ctx.emit(ctx.timestamp_ms)


class ColumnTimes(ProcessingFunction[Reading]):
    count = WCRDT(GCounter(), Tumbling(10))

    def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
        self.count.insert_many(np.ones(len(batch), dtype=np.int64), batch.ts_ms)
        ctx.emit_many(batch.ts_ms)


def by_record(**options: Any) -> Job[Any]:
    options = {"timestamp": lambda event: event["ts"], "format": Json(dict[str, Any]), **options}
    lateness_ms = options.pop("allowed_lateness_ms", 0)
    return Job("times", Source("events", **options), Times, output="out", allowed_lateness_ms=lateness_ms)


def by_column(timestamp: Any, **options: Any) -> Job[Any]:
    return Job("times", Source("events", JsonColumns(Reading), timestamp, **options), ColumnTimes, output="out")


def run(job: Job[Any], *records: Any, clock_ms: int = 0) -> JobTestDriver:
    test = JobTestDriver(job, clock_ms=clock_ms)
    test.feed(0, *records)
    test.finish()
    assert test.counts.taken == len(records)
    return test


def reasons(test: JobTestDriver) -> dict[int, str]:
    return {record["offset"]: record["reason"] for record in test.dead()}


@pytest.mark.parametrize("ts", [None, "12", 1.5, True, [1], 2**53, -(2**53), 2**200])
def test_a_record_without_a_usable_time_is_dead_and_the_others_are_not(ts: Any) -> None:
    test = run(by_record(), {"ts": 1}, {"ts": ts}, {"ts": 3})
    assert test.outputs() == [1, 3]
    assert list(reasons(test)) == [1] and "event time" in reasons(test)[1]


def test_a_dead_record_keeps_payload_origin_and_reason() -> None:
    test = JobTestDriver(by_record(), partitions=2, clock_ms=77)
    test.feed(1, {"ts": 1}, b"\xff\xfe")
    test.finish()
    (dead,) = test.dead()
    assert base64.b64decode(dead.pop("payload")) == b"\xff\xfe"
    assert "malformed" in dead.pop("reason")
    assert dead == {"topic": "events", "partition": 1, "offset": 1, "timestamp_ms": 77}


def test_an_extractor_that_raises_makes_the_record_dead() -> None:
    test = run(by_record(), {"ts": 1}, {"when": 2})
    assert reasons(test) == {1: "no event time: KeyError: 'ts'"}


def test_a_column_with_holes_gives_dead_rows_where_the_holes_are() -> None:
    test = run(by_column("maybe"), {"ts": 1, "maybe": 4}, {"ts": 2}, {"ts": 3, "maybe": 6})
    assert test.outputs() == [4, 6]
    assert list(reasons(test)) == [1] and "got None" in reasons(test)[1]


def test_a_column_of_floats_is_no_time() -> None:
    test = run(by_column("level"), {"ts": 1, "level": 4.0})
    assert "not an int" in reasons(test)[0]


def test_a_function_of_columns_that_raises_costs_only_the_rows_that_it_raises_for() -> None:
    job = by_column(lambda columns: np.array([int(text) for text in columns["at"]]))
    texts = ["1", "2", "x", "4", "", "6", "7"]
    test = run(job, *({"ts": 0, "at": text} for text in texts))
    assert test.outputs() == [1, 2, 4, 6, 7]
    assert list(reasons(test)) == [2, 4]
    assert "ValueError" in reasons(test)[2]


def test_numpy_datetimes_are_times_and_nat_is_none() -> None:
    job = by_column(lambda columns: np.array(columns["at"], dtype="datetime64[s]"))
    test = run(job, {"ts": 0, "at": "1970-01-01T00:00:03"}, {"ts": 0, "at": "NaT"})
    assert test.outputs() == [3_000]
    assert "NaT" in reasons(test)[1]


@pytest.mark.parametrize("times", [lambda c: 5, lambda c: c["ts"][:1], lambda c: np.zeros((len(c["ts"]) + 1,))])
def test_a_function_of_columns_must_give_one_time_a_row(times: Any) -> None:
    with pytest.raises(UserFunctionError, match=r"timestamp must give one time for each of 2 rows.*offset 0"):
        run(by_column(times), {"ts": 1}, {"ts": 2})


def test_a_timestamp_column_that_the_format_lacks_is_refused_when_the_job_is_declared() -> None:
    with pytest.raises(JobError, match="Reading has no column 'time'; it has ts, at, level, maybe"):
        by_column("time")


def test_a_timestamp_column_needs_a_format_with_columns() -> None:
    with pytest.raises(UserFunctionError, match="names the column 'ts'; the format gives no columns"):
        run(by_record(timestamp="ts"), {"ts": 1})


def test_without_an_extractor_the_log_timestamp_is_the_event_time() -> None:
    assert run(by_record(timestamp=None), {}, {}, clock_ms=55).outputs() == [55, 55]


def test_the_skew_guard_refuses_times_far_ahead_of_the_log_and_nothing_else() -> None:
    test = run(by_record(max_future_skew_ms=10), {"ts": 90}, {"ts": 110}, {"ts": 111}, {"ts": 110}, clock_ms=100)
    assert test.outputs() == [90, 110, 110]
    assert reasons(test) == {2: "event time 111 is 11 ms ahead of the log's timestamp; the skew guard allows 10 ms"}


@pytest.mark.parametrize(("ts", "late"), [(10, False), (9, True)])
def test_lateness_begins_exactly_at_the_end_of_the_window(ts: int, late: bool) -> None:
    """|--- [0, 10) ---|--- [10, 20) ---|    watermark 10 closes the first."""
    test = run(by_record(), {"ts": 10}, {"ts": ts})
    assert bool(test.late()) is late


@pytest.mark.parametrize(("watermark", "late"), [(14, False), (15, True)])
def test_allowed_lateness_keeps_a_window_open_for_exactly_so_long(watermark: int, late: bool) -> None:
    test = run(by_record(allowed_lateness_ms=5), {"ts": watermark}, {"ts": 9})
    assert bool(test.late()) is late


def test_bounded_out_of_orderness_delays_the_watermark() -> None:
    job = by_record(watermarks=BoundedOutOfOrderness(6))
    assert run(job, {"ts": 15}, {"ts": 9}).late() == []
    assert len(run(job, {"ts": 16}, {"ts": 9}).late()) == 1


def test_filtered_records_move_the_watermark_and_are_never_late() -> None:
    job = by_record(filter=lambda event: event["ts"] % 2 == 0)
    test = run(job, {"ts": 2}, {"ts": 31}, {"ts": 4}, {"ts": 5})
    assert test.outputs() == [2]
    counts = test.counts
    assert (counts.accepted, counts.filtered, counts.late, counts.dead) == (1, 2, 1, 0)


def test_a_record_is_accepted_while_any_state_still_takes_it() -> None:
    class Two(Times):
        long = WCRDT(GCounter(), Tumbling(100))

        def process(self, event: Event, ctx: Context) -> None:
            ctx.emit([self.count.insert(1, ctx.timestamp_ms), self.long.insert(1, ctx.timestamp_ms)])

    job = Job("two", Source("events", Json(Event), lambda event: event["ts"]), Two, output="out")
    test = run(job, {"ts": 50}, {"ts": 3}, {"ts": 100}, {"ts": 4})
    assert test.outputs() == [[True, True], [False, True], [True, True]]
    assert [(record["offset"], record.get("state")) for record in test.late()] == [(1, "count"), (3, None)]
    assert test.counts.late == 1


def test_a_mask_must_have_one_bool_a_row() -> None:
    job = by_column("ts", filter=lambda columns: columns["ts"])
    with pytest.raises(UserFunctionError, match="filter must give a bool for each of 2 rows"):
        run(job, {"ts": 1}, {"ts": 2})


def test_a_filter_that_raises_stops_the_job_at_the_record() -> None:
    job = by_record(filter=lambda event: 1 / event["level"] > 0)
    with pytest.raises(UserFunctionError, match=r"timestamp or filter function raised ZeroDivisionError.*offset 2"):
        run(job, {"ts": 1, "level": 1}, {"ts": 2, "level": 1}, {"ts": 3, "level": 0}, {"ts": 4, "level": 0})


def test_a_strategy_cannot_end_time() -> None:
    class Eager:
        def candidates(self, ts_ms: Any) -> Any:
            return np.full(len(ts_ms), 2**62, dtype=np.int64)

        def describe(self) -> str:
            return "eager"

    test = JobTestDriver(by_record(watermarks=Eager()))
    test.feed(0, {"ts": 1}, {"ts": 2})
    assert not test.tasks[0].done and len(test.late()) == 1


def test_a_strategy_must_give_an_int64_a_row() -> None:
    class Odd:
        def candidates(self, ts_ms: Any) -> Any:
            return ts_ms / 2

        def describe(self) -> str:
            return "odd"

    with pytest.raises(UserFunctionError, match="'odd': candidates must give an int64"):
        run(by_record(watermarks=Odd()), {"ts": 1})


def test_manual_watermarks_make_no_sense_for_batches() -> None:
    with pytest.raises(JobError, match="no batch can call increment_watermark"):
        by_column("ts", watermarks=ManualWatermarks())


def test_an_integer_beyond_64_bits_is_one_bad_record_of_a_columnar_run() -> None:
    records = [b'{"ts": 1}', b'{"ts": %d}' % 2**70, b'{"ts": 3}']
    test = run(by_column("ts"), *records)
    assert test.outputs() == [1, 3]
    assert reasons(test) == {1: "ts does not fit in 64 bits"}


def test_deep_nesting_is_one_bad_record() -> None:
    deep = b'{"ts": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert list(reasons(run(by_record(), {"ts": 1}, deep, {"ts": 2}))) == [1]


def test_a_user_defined_format_is_all_that_decoding_needs() -> None:
    class Lines:
        def decode(self, payloads: Any) -> Decoded[Any]:
            good = [index for index, payload in enumerate(payloads) if payload.isdigit()]
            bad = [(index, "no number") for index in range(len(payloads)) if index not in good]
            return Decoded(np.array(good, dtype=np.intp), events=[{"ts": int(payloads[i])} for i in good], bad=bad)

        def describe(self) -> str:
            return "lines"

    test = run(by_record(format=Lines()), b"7", b"x", b"9")
    assert test.outputs() == [7, 9] and reasons(test) == {1: "no number"}


def test_a_tombstone_is_dead_not_a_crash() -> None:
    test = run(by_record(), b"", json.dumps({"ts": 1}).encode())
    assert list(reasons(test)) == [0]
