"""Fields from the record around the value: a plain decode in Python says the same, by events and by columns."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    Header,
    Job,
    JobError,
    Json,
    JsonColumns,
    LogTime,
    ProcessingFunction,
    Raw,
    RecordKey,
    Source,
    Tombstone,
    Tumbling,
)
from holon.arrow import ArrowColumns
from holon.columnar.loops import install
from holon.columnar.record_parts import RecordParts, joined_parts
from holon.formats.formats import Decoded
from holon.testing import JobTestDriver
from nodes.compiled.loading import ensure
from wcrdt.lattices.counters import GCounter

SEEDS, ROWS = 150, 40
NOTHING = object()
MARKS: list[tuple[Any, Any, list[Any]]] = [
    (str, RecordKey, [NOTHING, "no key"]),
    (bytes, RecordKey, [NOTHING, b"no key"]),
    (str | None, RecordKey, [NOTHING, None]),
    (bytes | None, Header("trace"), [NOTHING, None, b"-"]),
    (str, Header("trace"), [NOTHING, "-"]),
    (str | None, Header("län"), [NOTHING, None, "-"]),
    (int, LogTime, [NOTHING, 7]),
    (datetime, LogTime, [NOTHING]),
    (datetime | None, LogTime, [NOTHING, None]),
    (bool, Tombstone, [NOTHING, False]),
]
VALUES: list[tuple[Any, Any]] = [(int, 3), (str, "ä"), (float, 0.5), (bool, True), (list[int], NOTHING)]


@pytest.fixture(autouse=True, params=["loops", "msgspec"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "loops":
        assert ensure(), "numba is part of the development environment"
    yield
    install(None)


def schema(rng: random.Random) -> tuple[Any, list[tuple[str, Any, Any, Any]]]:
    """A Struct, and (name, type, mark or None, default) of its fields."""
    fields: list[tuple[str, Any, Any, Any]] = []
    for number in range(rng.randrange(1, 4)):
        of, default = rng.choice(VALUES)
        fields.append((f"value{number}", of, None, rng.choice([NOTHING, default])))
    for number, (of, mark, defaults) in enumerate(rng.sample(MARKS, rng.randrange(1, 6))):
        fields.append((f"mark{number}", of, mark, rng.choice(defaults)))
    if any(mark is Tombstone for _, _, mark, _ in fields):
        fields = [(name, of, mark, default) for name, of, mark, default in fields if mark or default is not NOTHING]
    rng.shuffle(fields)
    declared: list[Any] = []
    for name, of, mark, default in fields:
        given = {} if default is NOTHING else {"default": default}
        hint = of if mark is None else Annotated[of, mark]
        declared.append((name, hint, msgspec.field(name=f"{name}-x", **given)))
    return msgspec.defstruct("Drawn", declared, kw_only=True), fields


def record(rng: random.Random, fields: list[Any]) -> tuple[bytes, bytes | None, dict[str, bytes], bool, int]:
    """Value, key, headers, whether it is null, log time."""
    value: dict[str, Any] = {f"{name}-x": 1 for name, _, mark, _ in fields if mark and rng.random() < 0.3}
    for name, of, mark, _ in fields:
        if mark is None and rng.random() < 0.9:
            value[f"{name}-x"] = {int: 12, str: "tëxt", float: 1.5, bool: False}.get(of, [1, 2])
            if rng.random() < 0.05:
                value[f"{name}-x"] = {}
    payload = json.dumps(value).encode()
    payload = payload[: rng.randrange(len(payload))] if rng.random() < 0.05 else payload
    key = rng.choice([None, b"", "schlüssel".encode(), b"\xff"]) if rng.random() < 0.5 else b"key"
    headers = {name: rng.choice([b"1", b"", b"\xc3("]) for name in ("trace", "län") if rng.random() < 0.7}
    null = rng.random() < 0.1
    return b"" if null else payload, key, headers, null, rng.choice([-1, 0, 1_700_000_000_123, 2**62])


def plain(fields: list[Any], row: Any) -> dict[str, Any] | None:
    """The fields of the event of a record, told without the code under test; None: it is a bad record."""
    payload, key, headers, null, ms = row
    found: dict[str, Any] = {}
    if null and any(mark is Tombstone for _, _, mark, _ in fields):
        payload = b"{}"
    try:
        value = json.loads(payload)
        for name, of, mark, default in fields:
            if mark is None:
                given = value.get(f"{name}-x", NOTHING)
                found[name] = default if given is NOTHING else msgspec.convert(given, of)
                if found[name] is NOTHING:
                    return None
                continue
            if mark is Tombstone:
                found[name] = null
                continue
            raw = {RecordKey: key, LogTime: None if ms < 0 else ms}.get(mark) if not isinstance(mark, Header) else (
                headers.get(mark.name)
            )  # fmt: skip
            if raw is None:
                optional = of in (str | None, bytes | None, datetime | None)
                if default is NOTHING and not optional:
                    return None
                found[name] = None if default is NOTHING else default
            elif of in (datetime, datetime | None):
                found[name] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
            else:
                found[name] = raw.decode() if of in (str, str | None) else raw
    except (ValueError, OverflowError, msgspec.ValidationError):
        return None
    return found


def parts_of(rows: list[Any], names: tuple[str, ...]) -> RecordParts:
    nulls = np.array([row[3] for row in rows], np.bool_)
    return RecordParts([row[1] for row in rows], {name: [row[2].get(name) for row in rows] for name in names}, nulls)


def rows_of(found: Decoded[Any], count: int, names: list[str]) -> dict[int, dict[str, Any]]:
    index = range(count) if found.rows is None else found.rows.tolist()
    if found.columns:
        columns = {name: list(found.columns[name]) for name in names}
        return {row: {name: columns[name][at] for name in names} for at, row in enumerate(index)}
    return {row: msgspec.structs.asdict(event) for row, event in zip(index, found.events, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, SEEDS // 2])
def test_events_and_columns_are_those_of_a_plain_decode(first: int) -> None:
    bad_rows = good_rows = 0
    for seed in range(first, first + SEEDS // 2):
        rng = random.Random(seed)
        kind, fields = schema(rng)
        rows = [record(rng, fields) for _ in range(ROWS)]
        expected = {number: its for number, row in enumerate(rows) if (its := plain(fields, row)) is not None}
        stamps = np.array([row[4] for row in rows], np.int64)
        for form in (Json(kind), JsonColumns(kind)):
            names = form.header_names
            assert names is not None
            found = form.decode_records([row[0] for row in rows], stamps, parts_of(rows, names))
            assert rows_of(found, ROWS, [name for name, *_ in fields]) == expected, f"seed {seed}"
            assert [row for row, _ in found.bad] == sorted(set(range(ROWS)) - set(expected)), f"seed {seed}"
            assert all(reason for _, reason in found.bad)
        good_rows, bad_rows = good_rows + len(expected), bad_rows + ROWS - len(expected)
    assert good_rows > 500 < bad_rows, "both kinds are drawn"


class Click(msgspec.Struct, frozen=True):
    ts: Annotated[int, LogTime]
    user: Annotated[str, RecordKey]
    page: str = ""
    trace: Annotated[str | None, Header("trace")] = None
    gone: Annotated[bool, Tombstone] = False


class Counting(ProcessingFunction[Click]):
    total = WCRDT(GCounter(), Tumbling.of(seconds=10))

    def process(self, event: Click, ctx: Context) -> None:
        self.total.insert(1, event.ts)
        ctx.emit([event.user, event.page, event.trace, event.gone, event.ts])


def by_columns(batch: Batch[Click], ctx: Context) -> None:
    columns = [list(batch[name]) for name in ("user", "page", "trace", "gone", "ts")]
    for row, (user, page, trace, gone, ts) in enumerate(zip(*columns, strict=True)):
        ctx.emit([user, page, trace, bool(gone), int(ts)], row=row)


def clicks(*, columns: bool) -> Job[Click]:
    if columns:
        return Job("clicks", Source("in", JsonColumns(Click), timestamp="ts"), process_batch=by_columns, output="out")
    return Job("clicks", Source("in", Json(Click), timestamp=lambda click: click.ts), Counting, output="out")


def fed(job: Job[Click]) -> JobTestDriver:
    test = JobTestDriver(job)
    test.clock_ms = 1_000
    test.feed(0, {"page": "/", "user": "forged", "gone": True}, key="ann", headers={"trace": "t1", "other": "x"})
    test.feed(0, {"page": "/b"})
    test.feed(0, {"page": "/c"}, key=b"\xff", headers={"trace": b"t2"})
    test.feed_tombstone(0, key="ann")
    test.finish()
    return test


@pytest.mark.parametrize("columns", [False, True])
def test_a_job_sees_them_and_its_letters_keep_them(columns: bool) -> None:
    test = fed(clicks(columns=columns))
    assert test.outputs() == [["ann", "/", "t1", False, 1_000], ["ann", "", None, True, 1_000]]
    absent, damaged = test.dead()
    assert "has no key" in absent["reason"] and absent.get("key") is None
    assert "key is not UTF-8" in damaged["reason"]
    assert base64.b64decode(damaged["key"]) == b"\xff"
    assert damaged["headers"] == {"trace": base64.b64encode(b"t2").decode()}


def test_a_letter_leaves_long_keys_and_headers_in_the_input() -> None:
    test = JobTestDriver(clicks(columns=False))
    test.feed(0, {"page": 5}, key="k" * 70_000)
    (letter,) = test.dead()
    assert letter["bare"] and "key" not in letter


def test_an_event_that_asks_for_other_parts_is_another_job() -> None:
    def job(event: Any) -> Job[Any]:
        return Job("j", Source("in", Json(event)), lambda event, ctx: None, output="out")

    def event(*marked: Any) -> Any:
        return msgspec.defstruct("E", [("a", int), *marked])

    kinds = [
        (),
        (("b", Annotated[str, RecordKey]),),
        (("b", Annotated[str, Header("x")]),),
        (("b", Annotated[str, Header("y")]),),
        (("b", Annotated[str | None, Header("y")]),),
    ]
    prints = [job(event(*marked)).fingerprint() for marked in kinds]
    assert len(set(prints)) == len(kinds)
    assert prints == [job(event(*marked)).fingerprint() for marked in kinds]


class Plain(msgspec.Struct):
    page: str = ""


@pytest.mark.parametrize(
    ("form", "dead"),
    [
        (Json(Plain), "truncated"),
        (JsonColumns(Plain), "truncated"),
        (ArrowColumns({"page": str}), "not an Arrow stream"),
        (Raw(), None),
    ],
    ids=["json", "columns", "arrow", "raw"],
)
def test_a_tombstone_that_nobody_asks_for_is_an_empty_value(form: Any, dead: str | None) -> None:
    """So it is dead where an empty value is none, and nobody mistakes it for another record."""
    if isinstance(form, JsonColumns | ArrowColumns):
        job = Job[Any]("j", Source("in", form), process_batch=count_rows, output="out")
    else:
        job = Job[Any]("j", Source("in", form), lambda event, ctx: ctx.emit(len(event)), output="out")
    test = JobTestDriver(job)
    test.feed_tombstone(0, key="k", headers={"trace": "t"})
    test.finish()
    assert test.outputs() == ([] if dead else [0])
    assert [dead in letter["reason"] for letter in test.dead()] == ([True] if dead else [])


def count_rows(batch: Batch[Any], ctx: Context) -> None:
    for row in range(len(batch)):
        ctx.emit(row, row=row)


class Inside(msgspec.Struct):
    key: Annotated[str, RecordKey]


class Twice(msgspec.Struct):
    key: Annotated[str, RecordKey, LogTime]


class WrongType(msgspec.Struct):
    key: Annotated[float, LogTime]


class NoDefault(msgspec.Struct):
    price: int
    gone: Annotated[bool, Tombstone]


class Checked(msgspec.Struct):
    price: int
    key: Annotated[str, RecordKey]

    def __post_init__(self) -> None:
        if self.key == "bad":
            raise ValueError("no such key")


def test_what_cannot_be_obeyed_is_refused_at_once() -> None:
    outer = msgspec.defstruct("Outer", [("inside", list[Inside])])
    for kind, words in [
        (outer, "own msgspec.Struct"),
        (Inside | None, "own msgspec.Struct"),
        (list[Inside], "own msgspec.Struct"),
        (Twice, "2 marks"),
        (WrongType, "int or datetime"),
        (NoDefault, "needs a default.*price"),
    ]:
        with pytest.raises(JobError, match=words):
            Json(kind)
    with pytest.raises(JobError, match="identities"):
        Header("holon")
    with pytest.raises(JobError, match="checks itself"):
        JsonColumns(Checked)


def test_an_event_that_checks_itself_may_refuse_a_key() -> None:
    rows = [
        (b'{"price": 1}', b"good"),
        (b'{"price": 2}', b"bad"),
        (b'{"price": "x"}', b"good"),
        (b'{"price": 4}', b"y"),
    ]
    parts = RecordParts([key for _, key in rows])
    found = Json(Checked).decode_records([value for value, _ in rows], np.zeros(4, np.int64), parts)
    assert [event.price for event in found.events] == [1, 4]
    assert [row for row, _ in found.bad] == [1, 2] and "no such key" in found.bad[0][1]


def test_parts_of_runs_are_joined() -> None:
    one, other = RecordParts([b"a", None], {"x": [b"1", None]}), RecordParts(None, {}, np.array([True]))
    found = joined_parts([(2, one), (1, None), (1, other)])
    assert found is not None and found.nulls is not None
    assert (found.keys, found.headers) == ([b"a", None, None, None], {"x": [b"1", None, None, None]})
    assert found.nulls.tolist() == [False, False, False, True]
    assert joined_parts([(3, None)]) is None
