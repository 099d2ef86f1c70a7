"""Event times in every declared unit, from rows and from columns, and the warning about those that are unlikely."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Batch, Context, Job, JobError, Json, JsonColumns, ProcessingFunction, Source
from holon.testing import JobTestDriver
from holon.time.units import MAX_TS_MS, likely_unit, to_ms

NOW_MS = 1_750_000_000_123
NOW = datetime.fromtimestamp(1_750_000_000, UTC) + timedelta(milliseconds=123)


class Whole(msgspec.Struct):
    at: int


class Broken(msgspec.Struct):
    at: float


class Text(msgspec.Struct):
    at: str


class Dated(msgspec.Struct):
    at: datetime


class Emits(ProcessingFunction[Any]):
    def process(self, event: Any, ctx: Context) -> None:
        ctx.emit(ctx.timestamp_ms)


class EmitsColumns(ProcessingFunction[Any]):
    def process_batch(self, batch: Batch[Any], ctx: Context) -> None:
        ctx.emit_many(batch.ts_ms.tolist())


def by_row(kind: Any, values: list[Any], unit: Any) -> JobTestDriver:
    source = Source("events", Json(kind), timestamp=lambda event: event.at, timestamp_unit=unit)
    return fed(Job("times", source, Emits, output="out"), values)


def by_column(kind: Any, values: list[Any], unit: Any) -> JobTestDriver:
    source = Source("events", JsonColumns(kind), timestamp="at", timestamp_unit=unit)
    return fed(Job("times", source, EmitsColumns, output="out"), values)


def fed(job: Job[Any], values: list[Any]) -> JobTestDriver:
    test = JobTestDriver(job)
    test.feed(0, *({"at": value} for value in values))
    return test


@pytest.mark.parametrize("run", [by_row, by_column])
@pytest.mark.parametrize(
    ("kind", "unit", "value", "ms"),
    [
        (Whole, None, NOW_MS, NOW_MS),
        (Whole, "s", 1_750_000_000, 1_750_000_000_000),
        (Whole, "ms", NOW_MS, NOW_MS),
        (Whole, "us", 1_750_000_000_123_999, NOW_MS),
        (Whole, "ns", 1_750_000_000_123_999_999, NOW_MS),
        (Whole, "us", -1, -1),
        (Broken, "s", 1_750_000_000.123, NOW_MS),
        (Broken, "s", 0.0005, 0),
        (Broken, "s", 0.0015, 2),
        (Broken, "ms", 1_750_000_000_123.4, NOW_MS),
        (Broken, "us", 1_750_000_000_123_000.0, NOW_MS),
        (Broken, "ns", 1.750000000123e18, NOW_MS),
        (Text, "iso", "2025-06-15T15:06:40.123Z", NOW_MS),
        (Text, "iso", "2025-06-15 17:06:40.123999+02:00", NOW_MS),
        (Text, "iso", "2025-06-15T15:06:40.123", NOW_MS),
        (Text, "iso", "1970-01-02", 86_400_000),
        (Dated, "datetime", "2025-06-15T17:06:40.123+02:00", NOW_MS),
        (Dated, "datetime", "2025-06-15T15:06:40.123", NOW_MS),
    ],
)
def test_a_time_in_its_declared_unit_becomes_ms_from_rows_and_from_columns(
    run: Any, kind: Any, unit: Any, value: Any, ms: int
) -> None:
    test = run(kind, [value], unit)
    assert (test.outputs(), test.dead()) == ([ms], [])


@pytest.mark.parametrize("run", [by_row, by_column])
@pytest.mark.parametrize(
    ("kind", "unit", "value", "reason"),
    [
        (Broken, None, 1.5, "got 1.5, not an int"),
        (Broken, "s", 1e300, "is out of range"),
        (Whole, "s", 2**53, "is out of range"),
        (Text, "iso", "yesterday", "Invalid isoformat string: 'yesterday'"),
        (Text, "s", "1750000000", "got '1750000000', not an int or a float"),
        (Whole, "iso", 5, "got 5, not a text"),
        (Text, "datetime", "2025-06-15", "got '2025-06-15', not a datetime"),
    ],
)
def test_what_is_no_time_of_the_declared_unit_is_dead_and_the_others_are_not(
    run: Any, kind: Any, unit: Any, value: Any, reason: str
) -> None:
    test = run(kind, [value], unit)
    (letter,) = test.dead()
    assert "event time" in letter["reason"] and reason in letter["reason"]


def test_floats_of_rows_and_columns_are_rounded_alike() -> None:
    values = (np.random.default_rng(5).random(2_000) * 4e9).tolist()
    assert by_row(Broken, values, "s").outputs() == by_column(Broken, values, "s").outputs()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_no_time(value: float) -> None:
    source = Source("events", JsonColumns(Broken), timestamp=lambda c: np.full(len(c["at"]), value), timestamp_unit="s")
    assert "NaN or infinite" in fed(Job("t", source, EmitsColumns, output="out"), [1.0]).dead()[0]["reason"]
    source = Source("events", Json(Broken), timestamp=lambda event: value, timestamp_unit="s")
    assert "no event time: got" in fed(Job("t", source, Emits, output="out"), [1.0]).dead()[0]["reason"]


@pytest.mark.parametrize("value", [NOW, NOW.replace(tzinfo=None), NOW.astimezone(timezone(timedelta(hours=-7)))])
def test_a_datetime_without_a_zone_is_utc(value: datetime) -> None:
    assert to_ms(value, "datetime") == NOW_MS
    assert to_ms(np.datetime64(NOW.replace(tzinfo=None)), "datetime") == NOW_MS


@pytest.mark.parametrize("options", [{"timestamp_unit": "minutes", "timestamp": "at"}, {"timestamp_unit": "s"}])
def test_a_unit_that_means_nothing_is_refused_with_the_declaration(options: Any) -> None:
    with pytest.raises(JobError, match="timestamp_unit"):
        Source("events", JsonColumns(Whole), **options)


def test_a_unit_is_part_of_the_declaration_and_none_leaves_it_as_it_was() -> None:
    plain = Source("events", JsonColumns(Whole), timestamp="at")
    assert plain.describe().endswith("idle False")
    seconds = Source("events", JsonColumns(Whole), timestamp="at", timestamp_unit="s")
    assert seconds.describe() == f"{plain.describe()} unit s"


# --- what is unlikely -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (1_750_000_000, None, ["read in milliseconds", "1970-01-21", "before 2000", 'timestamp_unit="s"']),
        (1_750_000_000_123_000, None, ["after 2100", "as microseconds", 'timestamp_unit="us"']),
        (NOW_MS, "s", ["read in seconds", "after 2100", 'timestamp_unit="ms"']),
        (5, None, ["before 2000", "is timestamp= (and timestamp_unit=) right?"]),
    ],
)
@pytest.mark.parametrize("run", [by_row, by_column])
def test_an_unlikely_time_among_the_first_records_is_a_warning_with_the_unit(
    run: Any, value: int, unit: Any, words: list[str]
) -> None:
    (warning,) = run(Whole, [value], unit).warnings()
    assert "events[0] offset 0: event time" in warning
    for word in words:
        assert word in warning


def test_nanoseconds_read_as_milliseconds_are_dead_letters_that_name_the_unit() -> None:
    (letter,) = by_row(Whole, [1_750_000_000_123_000_000], None).dead()
    assert (
        'out of range; as nanoseconds it would be a usual time: declare Source(timestamp_unit="ns")' in letter["reason"]
    )


def test_usual_times_and_later_records_are_no_warning() -> None:
    assert by_row(Whole, [NOW_MS] * 3, None).warnings() == []
    test = by_row(Whole, [NOW_MS] * 100, None)
    test.feed(0, {"at": 5})
    assert test.warnings() == []


@pytest.mark.parametrize(("ts_ms", "unit"), [(NOW_MS, None), (0, None), (MAX_TS_MS * 10**6, None), (5, "iso")])
def test_no_unit_is_named_where_none_fits(ts_ms: int, unit: str | None) -> None:
    assert likely_unit(ts_ms, unit) is None
