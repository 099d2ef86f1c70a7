"""Times by a form, from timestamps and their differences are numbers, and what Python gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import numpy as np
import pytest

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.times import Datetimes
from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.time_columns.attributes import Method
from holon.dataflow.following.time_columns.forms import Strptime
from holon.dataflow.following.time_columns.made import Durations, FromTimestamp
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed
from tests.unit.holon.dataflow.row_columns import column_by, listed, rows_with

pytestmark = pytest.mark.usefixtures("loops_installed")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LOCAL = datetime(2026, 1, 1)
HOUR = timedelta(hours=1)
EAST = timezone(timedelta(hours=5, minutes=30))
NAMED = timezone(timedelta(0), "GMT")


class Row(msgspec.Struct):
    seconds: float
    whole: int
    start: str
    end: str
    at: datetime


def row(number: int) -> Row:
    at = datetime(2026, 11, 28, 23, 50, tzinfo=EAST) + timedelta(seconds=number * 7.25)
    end = at + timedelta(minutes=number % 90)
    form = "%d/%b/%Y %H:%M:%S %z"
    return Row(at.timestamp() + 0.0000005, number * 1000 - 5000, at.strftime(form), end.strftime(form), at)


ROWS = [row(number) for number in range(80)]


def columns_of(rows: list[Row]) -> Rows:
    micros = np.array(
        [(one.at.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1) for one in rows]
    )
    times = Datetimes(micros.astype(np.int64), np.full(len(rows), 330))
    columns: dict[str, Any] = {
        "seconds": np.array([one.seconds for one in rows]),
        "whole": np.array([one.whole for one in rows], np.int64),
        "start": Texts.of([one.start for one in rows]),
        "end": Texts.of([one.end for one in rows]),
        "at": LazyColumn(times, np.full(len(rows), 1)),
    }
    return rows_with(columns, Row)


def by_columns(function: Callable[[Any], Any], rows: list[Row]) -> Any:
    return column_by(function, columns_of(rows), Row)


def _took(row: Any) -> Any:
    form = "%d/%b/%Y %H:%M:%S %z"
    return datetime.strptime(row.end, form) - datetime.strptime(row.start, form)


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda row: datetime.fromtimestamp(row.seconds, tz=UTC),
    lambda row: datetime.fromtimestamp(row.whole, UTC).isoformat(),
    lambda row: datetime.fromtimestamp(row.seconds, EAST).hour,
    lambda row: datetime.fromtimestamp(row.seconds).minute,
    lambda row: datetime.fromtimestamp(row.seconds, UTC).strftime("%H:%M"),
    lambda row: datetime.fromtimestamp(row.seconds, UTC).strftime("%H:%M:%S.%f"),
    lambda row: row.at.strftime("%Y-%m-%d %H %p %z"),
    lambda row: row.at.strftime("%S %%f"),
    lambda row: row.at.date(),
    lambda row: (row.at.day, row.at.month, row.at.year, row.at.weekday(), row.at.toordinal()),
    lambda row: row.at.isoformat(timespec="minutes"),
    lambda row: row.at.isoformat(" ", "seconds"),
    lambda row: row.at.isoformat(timespec="milliseconds"),
    _took,
    lambda row: _took(row).total_seconds(),
    lambda row: (_took(row).days, _took(row).seconds, _took(row).microseconds),
    lambda row: (_took(row) > HOUR, _took(row) <= HOUR, _took(row) == timedelta(minutes=5)),
    lambda row: (_took(row) / HOUR, _took(row) // timedelta(minutes=7), HOUR - timedelta(0) > _took(row)),
    lambda row: (row.at - EPOCH).total_seconds(),
    lambda row: (EPOCH - row.at).days,
    lambda row: (row.at + HOUR).isoformat(),
    lambda row: (HOUR + row.at - timedelta(days=1)).date(),
    lambda row: (row.at > EPOCH, row.at == EPOCH, row.at != row.at, row.at == LOCAL),
    lambda row: row.at + _took(row),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_times_are_those_of_python(function: Callable[[Any], Any]) -> None:
    found = listed(by_columns(function, ROWS))
    assert list(map(repr, found)) == [repr(function(one)) for one in ROWS]


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda row: datetime.fromtimestamp(row.seconds, UTC).hour, np.ndarray),
        (lambda row: datetime.strptime(row.start, "%d/%b/%Y %H:%M:%S %z"), LazyColumn),
        (_took, Durations),
        (lambda row: _took(row).total_seconds(), np.ndarray),
        (lambda row: _took(row) > HOUR, np.ndarray),
        (lambda row: row.at > EPOCH, np.ndarray),
        (lambda row: row.at + HOUR, LazyColumn),
        (lambda row: row.at.strftime("%H"), Texts),
    ],
)
def test_usual_times_need_no_objects(function: Callable[[Any], Any], kind: Any) -> None:
    assert isinstance(by_columns(function, ROWS), kind)


FORMS = (
    "%d/%b/%Y:%H:%M:%S %z", "%Y-%m-%d", "%Y%m%d%H%M%S", "%Y-%m-%dT%H:%M:%S.%f", "%d.%m.%Y %H:%M", "%H:%M %b %d %Y",
    "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%d %H:%M:%S%z", "%f%S %Y-%m-%d", "%f0%S %Y-%m-%d", "%S%f %Y-%m-%d", "%y-%m-%d",
    "%Y-%m-%d %I %p", "%Y-%j", "%Y-%m-%d%%", "%Y-%m",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_texts_by_a_form_are_the_times_that_python_reads(form: str) -> None:
    draw, seconds = random.Random(form), 31_000_000_000
    for _ in range(60):
        at = datetime(1002, 1, 1, tzinfo=timezone(timedelta(minutes=draw.randrange(-900, 900))))
        texts = [(at + timedelta(microseconds=draw.randrange(seconds * 10**6))).strftime(form)] * 3
        for _ in range(draw.randrange(3)):
            letters = list(texts[1])
            letters[draw.randrange(len(letters))] = draw.choice("0123456789 :/.-+ZTJanov\u0662")
            texts[1] = "".join(letters)
        expected = outcome(lambda texts=texts: [datetime.strptime(text, form) for text in texts])
        assert outcome(lambda texts=texts: Strptime(form).of_columns([Texts.of(texts)], [False], 3)) == expected


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("%f%S %Y-%m-%d", "1234517 2026-11-28"),
        ("%f0%S %Y-%m-%d", "123005 2026-11-28"),
        ("%Y-%m-%d .%f", "2026-11-28 .5"),
        ("%Y-%m-%d .%f", "2026-11-28 .123"),
        ("%Y-%m-%d .%f", "2026-11-28 .1234567"),
    ],
)
def test_fractions_of_any_length_are_those_of_python(form: str, text: str) -> None:
    expected = outcome(lambda: [datetime.strptime(text, form)] * 2)
    assert outcome(lambda: Strptime(form).of_columns([Texts.of([text] * 2)], [False], 2)) == expected


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return list(map(repr, work()))
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    "text", ["30/Feb/2026", "31/Nov/2026", "00/Jan/2026", "01/Foo/2026", "1/Jan/2026 ", "01/Jan/0000"]
)
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"time data|unconverted|day is out of range|is out of range"):
        Strptime("%d/%b/%Y").of_columns([Texts.of(["28/Nov/2026", text])], [False], 2)


@pytest.mark.parametrize("zone", ["+0530", "+05:30", "-0100", "-00:30", "Z", "+2400", "+05:3", "0530"])
def test_zones_are_those_of_python(zone: str) -> None:
    texts = [f"2026-11-28{zone}"] * 2
    expected = outcome(lambda: [datetime.strptime(text, "%Y-%m-%d%z") for text in texts])
    assert outcome(lambda: Strptime("%Y-%m-%d%z").of_columns([Texts.of(texts)], [False], 2)) == expected


@pytest.mark.parametrize(
    "seconds", [0.5e-6, 1.5e-6, -0.5e-6, -1.5, 2.5e-6, 1e9 + 0.9999995, 253402300799.0, -62135596800.0]
)
def test_seconds_round_as_in_python(seconds: float) -> None:
    made = FromTimestamp(UTC).of_columns([np.array([seconds, 0.0])], [False], 2)
    expected = [datetime.fromtimestamp(seconds, UTC), EPOCH]
    assert made is None or made.datetimes().tolist() == list(made) == expected


@pytest.mark.parametrize("seconds", [1e12, float("nan"), float("inf"), -1e11])
def test_seconds_beyond_all_years_are_for_python(seconds: float) -> None:
    assert FromTimestamp(UTC).of_columns([np.array([seconds])], [False], 1) is None


def test_zones_with_names_are_for_python() -> None:
    assert FromTimestamp(NAMED).of_columns([np.array([0.0])], [False], 1) is None
    assert FromTimestamp(None).of_columns([np.array([0.0])], [False], 1) is None


def test_local_times_and_those_with_zones_are_for_python() -> None:
    rows = columns_of(ROWS[:3])
    rows.columns["at"] = LazyColumn(Datetimes(np.zeros(3, np.int64), np.full(3, 1 << 20)), np.full(3, 1))  # type: ignore[index]
    decision, _ = followed(lambda row: row.at == EPOCH, Row, checked=True)
    assert decision is not None and as_list(column_of(decision, rows)) == [False] * 3
    decision, _ = followed(lambda row: row.at > EPOCH, Row, checked=True)
    assert decision is not None
    with pytest.raises(TypeError, match="offset-naive"):
        column_of(decision, rows)


def test_a_shift_beyond_all_years_fails() -> None:
    with pytest.raises(OverflowError):
        by_columns(lambda row: row.at + timedelta(days=3_000_000), ROWS)
    with pytest.raises(ZeroDivisionError):
        by_columns(lambda row: _took(row) // timedelta(0), ROWS)


def test_a_text_of_a_time_is_made_once_for_each_unit() -> None:
    times = LazyColumn(Datetimes(np.arange(0, 8 * 10**6, 10**5), np.zeros(80, np.int64)), np.full(80, 1))
    calls: list[Any] = []

    class Counted(Method):
        def _with(self, given: Any) -> Any:
            return lambda time: calls.append(time) or time.strftime(*given)

    found = Counted("strftime").of_columns([times, "%H:%M:%S"], [False, True], 80)
    assert found is not None and as_list(found) == [time.strftime("%H:%M:%S") for time in times] and len(calls) == 8


def test_a_text_with_microseconds_is_made_for_each() -> None:
    times = LazyColumn(Datetimes(np.arange(80), np.zeros(80, np.int64)), np.full(80, 1))
    found = Method("strftime").of_columns([times, "%S.%f"], [False, True], 80)
    assert found is not None and as_list(found) == [f"00.{micros:06d}" for micros in range(80)]


def test_rows_of_several_zones_are_for_python() -> None:
    times = LazyColumn(Datetimes(np.zeros(80, np.int64), np.arange(80) % 2 * 60), np.full(80, 1))
    found = Method("strftime").of_columns([times, "%H%z"], [False, True], 80)
    assert found is not None and as_list(found) == ["00+0000", "00+0100"] * 40


def test_values_that_stand_twice_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    read = Strptime.of_columns

    def noted(self: Strptime, given: Any, fixed: Any, rows: int) -> Any:
        calls.append(rows)
        return read(self, given, fixed, rows)

    monkeypatch.setattr(Strptime, "of_columns", noted)
    found = by_columns(lambda row: "long" if _took(row) > HOUR else _took(row).seconds, ROWS)
    assert calls == [80, 80] and "long" in as_list(found)
