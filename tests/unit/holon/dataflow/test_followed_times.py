"""Functions that read times of texts work on columns, and give what ``datetime`` gives."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Context
from holon.columnar.payloads import Texts
from holon.columnar.structs.times import datetimes_of
from holon.dataflow.arithmetic import applied
from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.time_columns.attributes import FROM_ISO, Method, attribute
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed
from tests.json_records import a_time
from tests.unit.holon.dataflow.followed_records import check_by_columns, job_of, record

pytestmark = pytest.mark.usefixtures("loops_installed")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STEP = timedelta(milliseconds=1)
DAY = date(2026, 11, 24)
LOCAL_TIMES = ["2026-07-24T02:30:00", "2026-03-29T02:30:00.25", "2026-10-25T02:30:00"]
TIMES = ["2026-11-24T02:30:00Z", "2026-11-24 23:30:59.123456789+05:30", "1969-12-31T23:59:59.999-23:59"]


class Row(msgspec.Struct):
    text: str
    at: datetime
    seconds: float


def rows_of(texts: list[str]) -> tuple[list[Row], Rows]:
    rows = [Row(text, datetime.fromisoformat(text), len(text) / 7) for text in texts]
    columns: dict[str, Any] = {"text": Texts.of(texts), "at": [row.at for row in rows]}
    columns["seconds"] = np.array([row.seconds for row in rows])
    places = np.arange(len(rows))
    return rows, Rows(places, places, columns=columns, struct=Row)


@pytest.fixture
def zurich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Zurich")
        time.tzset()
        yield
    time.tzset()


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda r: datetime.fromisoformat(r.text),
    lambda r: int(datetime.fromisoformat(r.text).timestamp() * 1000),
    lambda r: dt.datetime.fromisoformat(r.text).timestamp(),
    lambda r: datetime.fromisoformat(r.text.replace("Z", "+00:00")).timestamp(),
    lambda r: (datetime.fromisoformat(r.text).replace(tzinfo=dt.UTC) - EPOCH) // STEP,
    lambda r: datetime.fromisoformat(r.text).astimezone(timezone(timedelta(hours=2))).isoformat(),
    lambda r: (r.at.hour, r.at.minute, r.at.second, r.at.microsecond),
    lambda r: (datetime.fromisoformat(r.text).hour, datetime.fromisoformat(r.text).microsecond),
    lambda r: (r.at.year, r.at.month, r.at.day, r.at.weekday(), r.at.date(), r.at.date().year),
    lambda r: datetime.fromisoformat(r.text).date().isoformat(),
    lambda r: datetime.fromisoformat(r.text).replace(minute=0, second=0).isoformat(" ", timespec="minutes"),
    lambda r: f"{datetime.fromisoformat(r.text):%H:%M} {datetime.fromisoformat(r.text)}",
    lambda r: r.at.replace(tzinfo=None) >= datetime(2026, 1, 1),
    lambda r: r.at.date() == DAY,
    lambda r: r.at == datetime.fromisoformat("2026-11-24T02:30:00+00:00"),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    "texts", [TIMES * 8, LOCAL_TIMES * 8, [*TIMES, *LOCAL_TIMES] * 8, [*TIMES, "20261124T023000Z", "2026-W48-2"] * 8]
)
def test_times_are_those_of_python(function: Callable[[Any], Any], texts: list[str], zurich: None) -> None:
    decision, why = followed(function, Row, checked=True)
    assert decision is not None, why
    rows, columns = rows_of(texts)
    assert list(map(repr, as_list(column_of(decision, columns)))) == [repr(function(row)) for row in rows]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda r: datetime.now().timestamp(), "datetime.now"),
        (lambda r: dt.datetime.now(dt.UTC).timestamp() + r.seconds, "datetime.now"),
        (lambda r: dt.date.today(), "datetime.date"),
        (lambda r: datetime.utcfromtimestamp(r.seconds), "datetime.utcfromtimestamp"),
        (lambda r: datetime.fromtimestamp(0) < r.at, "fromtimestamp of what is no field"),
        (lambda r: datetime.strptime(r.text, r.text), "a form that is no constant"),
        (lambda r: r.at.dst(), "'dst' of a datetime"),
        (lambda r: isinstance(r.text, datetime), "asks for a type"),
        (lambda r: datetime(2026, 1, r.seconds), "needs the value"),
        (lambda r: date.today(), "'date', a type"),
    ],
)
def test_what_is_no_function_of_the_row_is_called_for_each(function: Callable[[Any], Any], why: str) -> None:
    decision, found = followed(function, Row, checked=True)
    assert decision is None and why in found


def test_seconds_are_exact_far_from_1970() -> None:
    draw = random.Random(5)
    texts = [f"{draw.randrange(1, 9999):04}-03-01T00:00:00.{draw.randrange(10**6):06}Z" for _ in range(2000)]
    near = [text for text in texts if "1700" < text < "2250"]
    for some, by_numbers in ((texts, False), (near, True)):
        times = FROM_ISO.of_columns([Texts.of(some)], [False], len(some))
        found = Method("timestamp").of_columns([times], [False], len(some))
        assert type(found) is (np.ndarray if by_numbers else list)
        made = applied(Method("timestamp"), [times], [False], len(some))
        assert as_list(made) == [datetime.fromisoformat(text).timestamp() for text in some]


def test_usual_times_need_no_objects() -> None:
    times = FROM_ISO.of_columns([Texts.of(TIMES * 8)], [False], 24)
    found = [Method("timestamp").of_columns([times], [False], 24), attribute("hour").of_columns([times], [False], 24)]
    assert [type(one) for one in found] == [np.ndarray, np.ndarray]
    assert type(attribute("year").of_columns([times], [False], 24)) is list


@pytest.mark.parametrize("seed", range(20))
def test_texts_are_the_datetimes_that_python_reads(seed: int) -> None:
    draw = random.Random(seed)
    texts = [a_time(draw) for _ in range(1000)]
    found = datetimes_of(Texts.of(texts))
    assert found is not None
    times, odd = found
    known = np.delete(np.arange(len(texts)), odd)
    wanted = [repr(datetime.fromisoformat(texts[place])) for place in known.tolist()]
    assert len(known) > 400 and [repr(times[place]) for place in known.tolist()] == wanted


def _by_time(self: Any, event: Any, ctx: Context) -> None:
    at = datetime.fromisoformat(event.d)
    self.sums.insert((at.date().isoformat(), at.hour), event.ts)
    self.top.insert(at.timestamp(), event.ts)
    ctx.emit({"at": at, "ms": int(at.timestamp() * 1000)})


def test_records_with_times_go_by_columns() -> None:
    records = [record(place, d=TIMES[place % 3]) for place in range(60)]
    found = check_by_columns(job_of(_by_time), records, [20])
    assert found["ways"] == [True, True, True] and len(found["outputs"]["main"]) == 63


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
@pytest.mark.parametrize(
    ("bad", "why"),
    [("2026-02-30T00:00:00Z", "day is out of range"), ("soon", "Invalid isoformat"), ("", "Invalid isoformat")],
)
def test_a_text_that_is_no_time_is_the_failure_of_its_record(policy: Any, bad: str, why: str) -> None:
    records = [record(place, d=bad if place == 7 else TIMES[place % 3]) for place in range(40)]
    found = check_by_columns(job_of(_by_time, policy), records, [20])
    if policy == "fail":
        assert why in found["error"] and found["ways"] == [False]
        return
    (dead,) = found["outputs"]["dead"]
    assert why in dead[2].decode() and not found["ways"][0] and all(found["ways"][1:])


OFFSETS = {"web": 5, "app": 0}


@pytest.mark.parametrize(
    "timestamp",
    [
        lambda event: int(datetime.fromisoformat(event.d).timestamp() * 1000),
        lambda event: datetime.fromisoformat(event.d).timestamp(),
        lambda event: datetime.fromisoformat(event.d).microsecond // 1000 + event.ts,
        lambda event: event.ts + OFFSETS[event.t],
    ],
)
def test_event_times_and_filters_may_be_such_functions(timestamp: Callable[[Any], Any]) -> None:
    wanted: Callable[[Any], Any] = lambda event: OFFSETS.get(event.t, 1) < 9 and event.d != "skip"  # noqa: E731
    texts = [*TIMES, "soon", "2026-11-24T02:30:01Z", "skip"]
    records = [record(place, d=texts[place % 6], t=["web", "app", "tv"][place % 3]) for place in range(60)]
    for policy in ("fail", "dead-letter"):
        check_by_columns(job_of(_once, policy, wanted, timestamp=timestamp), records, [20])


def _once(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, ctx.timestamp_ms)


def _asks(self: Any, event: Any, ctx: Context) -> None:
    self.sums.insert((event.t, getattr(event.p, "zone", 7) if hasattr(event, "p") else 0), event.ts)


def test_attributes_by_their_names_are_followed() -> None:
    records = [record(place, p={"city": "Bern", "zone": 3}) for place in range(40)]
    found = check_by_columns(job_of(_asks), records)
    assert found["ways"] == [True, True]


class Labelled(msgspec.Struct):
    a: Any

    @property
    def shown(self) -> str:
        return f"{self.a}"


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda r: len(getattr(Labelled(r.text), "shown")), "`getattr` of what is no field"),  # noqa: B009
        (lambda r: getattr(r, "_" + "path"), "`getattr` of what is no field"),
        (lambda r: hasattr(Labelled(r.text), "shown"), "`hasattr` of what is no field"),
        (lambda r: getattr(r, r.text), "`getattr` of what is no field"),
    ],
)
def test_attributes_of_other_objects_are_not(function: Callable[[Any], Any], why: str) -> None:
    decision, found = followed(function, Row, checked=True)
    assert decision is None and why in found
