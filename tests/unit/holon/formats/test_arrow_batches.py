"""Batches of Arrow as records: several in one, dictionaries, columns that are missing, letters, and flows of them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pytest

from holon import Batch, Context, Job, Json, JsonColumns, ProcessingFunction, RecordKey, Source, Tumbling
from holon.arrow import Arrow, ArrowColumns, write_atom
from holon.columnar.payloads import BinaryColumn
from holon.dataflow import Flow
from holon.dataflow.errors import FlowError
from holon.errors import JobError
from holon.job import DEAD
from holon.testing import JobTestDriver
from tests.unit.holon.formats.arrow_arrays import dictionary, runs, stream


class Place(msgspec.Struct):
    lat: float
    name: str | None = None


class Event(msgspec.Struct, kw_only=True, rename="camel"):
    at: datetime
    item_id: int
    amount: float = 0.5
    note: str | None = None
    place: Place | None = None
    tags: list[str] = []


class Bid(msgspec.Struct, tag=True):
    price: int


class Ask(msgspec.Struct, tag=True):
    volume: int


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(columns)


def texts(values: list[str | None], known: list[str]) -> pa.RecordBatch:
    """A batch of texts by a dictionary that has these."""
    places = pa.array([None if value is None else known.index(value) for value in values], pa.int8())
    return batch(x=pa.DictionaryArray.from_arrays(places, pa.array(known)))


@pytest.mark.parametrize("deltas", [False, True])
def test_a_record_of_several_batches_has_the_rows_of_all_though_dictionaries_grow_and_change(deltas: bool) -> None:
    record = stream(
        texts(["a", "b"], ["a", "b"]),
        texts(["c", None, "a"], ["a", "b", "c"]),
        texts([], ["a", "b", "c"]),
        texts(["z"], ["z"]),
        emit_dictionary_deltas=deltas,
    )
    form = ArrowColumns({"x": str})
    found = form.decode([record, write_atom(batch(x=pa.array(["q"])))])
    assert list(found.columns["x"]) == ["a", "b", "c", "a", "z", "q"] and not found.bad
    assert found.rows is not None and found.places is not None
    assert (found.rows.tolist(), found.places.tolist()) == ([0] * 5 + [1], [0, 1, 2, 4, 5, 0])
    assert [(index, place) for index, place, _ in found.bad_events] == [(0, 3)] and form.events_in(record) == 6
    for place, value in ((2, "c"), (4, "a"), (5, "z")):
        alone = form.single(record, place)
        assert list(form.decode([alone]).columns["x"]) == [value] and form.events_in(alone) == 1
    with pytest.raises(Exception, match="no such place"):
        form.single(record, 6)


def test_a_letter_of_one_row_has_the_dictionary_of_that_row_alone() -> None:
    record = write_atom(batch(x=dictionary([f"text {number}" * 20 for number in range(500)] + [None])))
    for place in (7, 500):
        alone = ArrowColumns({"x": str}).single(record, place)
        assert len(alone) < 1_000 < len(record)
        assert [event["x"] for event in Arrow(dict[str, Any]).decode([alone]).events] == [
            None if place == 500 else f"text {place}" * 20
        ]


def test_a_stream_of_no_batches_has_no_rows_and_metadata_and_compression_change_nothing() -> None:
    rows = batch(x=pa.array([1, 2], pa.int32()), other=dictionary(["a", "b"]))
    described = rows.replace_schema_metadata({"who": "cares"})
    for form in (ArrowColumns({"x": int}), Arrow(dict[str, Any])):
        assert form.events_in(stream(schema=rows.schema)) == 0 and not form.decode([stream(schema=rows.schema)]).bad
        for record in (write_atom(described), stream(rows, compression="zstd"), stream(rows, compression="lz4")):
            found = form.decode([record])
            assert form.events_in(record) == 2 and not found.bad
            if isinstance(form, ArrowColumns):
                assert found.columns["x"].tolist() == [1, 2]


def test_records_may_have_the_same_column_in_other_types() -> None:
    class Paid(msgspec.Struct):
        price: Decimal
        at: datetime | None
        count: int | None

    def record(price: Any, at: Any, count: Any) -> bytes:
        return write_atom(batch(price=price, at=at, count=count))

    now, utc = datetime(2024, 1, 2, 3, 4, 5, 678), datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    prices = [Decimal("1.50"), Decimal("2.5"), Decimal(3), Decimal("4"), Decimal("5." + "1" * 20), Decimal("0.00")]
    times = [now, utc, utc, None, now, None]
    counts = [1, 2**63, None, None, -(2**63), 2]
    records = [
        record(pa.array(prices[:1]), pa.array(times[:1]), pa.array([1], pa.int8())),
        record(
            pa.array(prices[1:2], pa.decimal32(5, 1)),
            pa.array([utc], pa.timestamp("s", "Asia/Tokyo")),
            pa.array([2**63], pa.uint64()),
        ),
        record(pa.array([3]), pa.array(["2024-01-02T03:04:05Z"]), pa.nulls(1)),
        record(pa.array(["4"], pa.large_string()), pa.nulls(1), pa.nulls(1, pa.uint64())),
        record(pa.array(prices[4:5]), dictionary([now]), pa.array([-(2**63)])),
        record(pa.array(prices[5:], pa.decimal256(4, 2)), pa.nulls(1, pa.timestamp("ns")), pa.array([2])),
    ]
    found = ArrowColumns(Paid).decode(records)
    assert not found.bad and not found.bad_events
    assert {name: repr(list(column)) for name, column in found.columns.items()} == {
        "price": repr(prices), "at": repr(times), "count": repr(counts),
    }  # fmt: skip
    assert [repr(event) for event in Arrow(Paid).decode(records).events] == [
        repr(Paid(*row)) for row in zip(prices, times, counts, strict=True)
    ]
    wrong = write_atom(batch(price=["1", "one"], at=["2024-01-02T03:04:05", "never"], count=[1, 2]))
    assert [place for _, place, _ in ArrowColumns(Paid).decode([wrong]).bad_events] == [1]


def test_lists_of_any_type_are_one_column_with_all_items_behind_one_another() -> None:
    arrays = [
        pa.array([[1, 2], None, []], pa.list_(pa.int8())),
        pa.array([[3], [4, 5]], pa.large_list(pa.uint64())),
        pa.array([[6, 7], None], pa.list_(pa.int64(), 2)),
        pa.ListViewArray.from_arrays(pa.array([2, 0]), pa.array([1, 2]), pa.array([8, 9, 10])),
        pa.nulls(1),
        runs([2], [[11]]),
        pa.array([[2**63], [12]], pa.list_(pa.uint64())),
    ]
    expected: list[Any] = [[1, 2], None, [], [3], [4, 5], [6, 7], None, [10], [8, 9], None, [11], [11], [2**63], [12]]
    column = ArrowColumns({"x": list[int] | None}).decode([write_atom(batch(x=array)) for array in arrays]).columns["x"]
    assert list(column) == expected and [column[row] for row in range(len(expected))] == expected
    by_json = JsonColumns(msgspec.defstruct("Row", [("x", list[int] | None)]))
    items, offsets = by_json.decode([msgspec.json.encode({"x": each}) for each in expected]).columns["x"].flat()
    assert (list(column.flat()[0]), column.flat()[1].tolist()) == (list(items), offsets.tolist())
    dead = ArrowColumns({"x": list[int]}).decode([write_atom(batch(x=array)) for array in arrays])
    assert list(dead.columns["x"]) == [each for each in expected if each is not None] and len(dead.bad_events) == 3


def test_slices_have_their_own_rows() -> None:
    whole = batch(
        b=pa.array([number % 3 == 0 for number in range(20)]),
        t=pa.array([f"t{number}" for number in range(20)], pa.large_string()),
        d=dictionary([f"d{number % 4}" for number in range(20)]),
        r=runs([5, 20], ["one", "two"]),
        s=pa.array([{"n": number} for number in range(20)]),
        v=pa.array([[number] for number in range(20)], pa.list_view(pa.int64())),
    )
    expected = whole.to_pylist()[3:9]
    assert Arrow(dict[str, Any]).decode([write_atom(whole.slice(3, 6))]).events == expected
    columns = {"b": bool, "t": str, "d": str, "r": str, "s": dict[str, int], "v": list[int], "s.n": int}
    found = ArrowColumns(columns).decode([write_atom(whole.slice(3, 6))]).columns
    assert {name: list(found[name]) for name in expected[0]} == {
        name: [row[name] for row in expected] for name in expected[0]
    }
    assert found["s.n"].tolist() == list(range(3, 9))


def test_a_field_of_a_struct_that_is_null_is_null_whatever_lies_there() -> None:
    inner = pa.StructArray.from_arrays([pa.array([7, 8])], names=["n"], mask=pa.array([False, True]))
    record = write_atom(batch(s=inner))
    found = ArrowColumns({"s.n": int}).decode([record])
    assert found.columns["s.n"].tolist() == [7] and [place for _, place, _ in found.bad_events] == [1]
    assert list(ArrowColumns({"s.n": int | None}).decode([record]).columns["s.n"]) == [7, None]


def test_a_column_that_is_missing_gives_the_default_and_is_a_dead_letter_where_there_is_none() -> None:
    at = pa.array([datetime(2024, 1, 1)])
    small = write_atom(batch(at=at, itemId=pa.array([1])))
    large = write_atom(batch(at=at, itemId=pa.array([2]), amount=pa.array([2.5]), note=pa.array(["n"]), tags=[["t"]]))
    lacking = write_atom(batch(at=at, item_id=pa.array([1])))
    double = write_atom(
        pa.RecordBatch.from_arrays([at, pa.array([1]), pa.array([1])], names=["at", "itemId", "itemId"])
    )
    records = [small, large, lacking, double]
    plain = Event(at=datetime(2024, 1, 1), item_id=1)
    full = Event(at=datetime(2024, 1, 1), item_id=2, amount=2.5, note="n", tags=["t"])
    found = Arrow(Event).decode(records)
    assert found.events == [plain, full] and [index for index, _ in found.bad] == [2, 3]
    assert all("no column itemId, or more than one" in reason for _, reason in found.bad)
    by_json = JsonColumns(Event).decode([msgspec.json.encode(event) for event in (plain, full)]).columns
    by_arrow = ArrowColumns(Event).decode(records).columns
    assert set(by_arrow) == set(by_json)
    assert {name: list(column) for name, column in by_arrow.items()} == {n: list(c) for n, c in by_json.items()}


def test_structs_by_tag_and_structs_that_forbid_or_check_are_read_as_json_reads_them() -> None:
    class Strict(msgspec.Struct, forbid_unknown_fields=True):
        price: int

    class Positive(msgspec.Struct):
        price: int

        def __post_init__(self) -> None:
            if self.price < 0:
                raise ValueError("below zero")

    rows = batch(type=["Bid", "Ask", "Cat"], price=pa.array([1, None, 3], pa.int8()), volume=[None, 5, None])
    found = Arrow(Bid | Ask).decode([write_atom(rows)])
    assert found.events == [Bid(1), Ask(5)] and [place for _, place, _ in found.bad_events] == [2]
    columns = ArrowColumns(Bid | Ask).decode([write_atom(rows)]).columns
    assert (list(columns["type"]), list(columns["Bid.price"])) == (["Bid", "Ask"], [1, None])
    assert "unknown field `type`" in ArrowColumns(Strict).decode([write_atom(rows)]).bad_events[0][2]
    signs = write_atom(batch(price=[1, -1, 2]))
    for form in (Arrow(Positive), ArrowColumns(Positive)):
        assert [(place, why[:10]) for _, place, why in form.decode([signs]).bad_events] == [(1, "below zero")]


def test_types_that_no_column_can_be_are_refused_where_the_format_is_made() -> None:
    class Listed(msgspec.Struct, array_like=True):
        x: int

    class Keyed(msgspec.Struct):
        key: Annotated[str, RecordKey]

    for form in (Arrow, ArrowColumns):
        for wrong, words in ((Listed, "array_like"), (Keyed, "marked fields")):
            with pytest.raises(JobError, match=words):
                form(wrong)
    for wrong in (object, msgspec.Raw, dict[object, int] | complex):
        with pytest.raises(JobError, match="column 'x' cannot be"):
            ArrowColumns({"x": wrong})
    with pytest.raises(JobError, match="by the names of columns"):
        ArrowColumns(int)
    with pytest.raises(JobError, match="no column 'time'; it reads item_id"):
        Source("in", ArrowColumns({"item_id": int, "tags": list[str]}), timestamp="time")
    Source("in", ArrowColumns({"item_id": int, "place": Place}), timestamp="place.lat")


def test_a_file_of_arrow_is_refused_and_named() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch(x=[1]).schema) as writer:
        writer.write_batch(batch(x=[1]))
    assert "write it with pyarrow.ipc.new_stream" in ArrowColumns({"x": int}).decode([sink.getvalue()]).bad[0][1]


def test_damaged_dictionaries_and_offsets_are_a_dead_atom_if_they_are_read_and_left_out_of_letters_if_not() -> None:
    broken = pa.DictionaryArray.from_arrays(pa.array([0, 77], pa.int8()), pa.array(["a"]), safe=False)
    record = stream(batch(n=pa.array([1, None]), x=broken, l=pa.array([[1], [2]])))
    for declared in ({"x": str}, {"x": str | None, "n": int}):
        assert "column x cannot be read" in ArrowColumns(declared).decode([record]).bad[0][1]
    form = ArrowColumns({"n": int})
    assert form.decode([record]).columns["n"].tolist() == [1]
    assert Arrow(dict[str, Any]).decode([form.single(record, 1)]).events == [{"n": None, "l": [2]}]


def test_a_few_bytes_that_claim_to_be_a_million_rows_are_a_dead_letter() -> None:
    form = ArrowColumns({"x": int | None})
    for record in (write_atom(batch(x=pa.nulls(1_000_001))), stream(*[batch(x=pa.nulls(200_000))] * 6)):
        assert "bytes that claim to be" in form.decode([record]).bad[0][1] and form.events_in(record) == 1
    assert not ArrowColumns({"x": bool}).decode([write_atom(batch(x=[True] * 1_000_001))]).bad


def test_texts_by_a_dictionary_lie_where_its_record_is() -> None:
    records = BinaryColumn.of([write_atom(batch(x=dictionary(["one", None, "two", "one"])))])
    texts = ArrowColumns({"x": str}).decode(records).columns["x"]
    assert list(texts) == ["one", "two", "one"] and texts.buffer is records.buffer


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_nothing_is_read_of_a_view_whose_row_is_null_though_it_points_anywhere(kind: Any) -> None:
    whole = pa.array(["a" * 20, None, "b"], kind)
    valid, views, data = whole.buffers()
    wild = bytearray(views.to_pybytes())
    wild[16:32] = (-5).to_bytes(4, "little", signed=True) + b"\xff" * 12
    broken = pa.Array.from_buffers(kind, 3, [valid, pa.py_buffer(bytes(wild)), data])
    expected = whole.to_pylist()
    for column in (broken, pa.ListArray.from_arrays([0, 3, 3, 3], broken)):
        record = write_atom(batch(x=column))
        values = [event["x"] for event in Arrow(dict[str, Any]).decode([record]).events]
        assert values == (expected if column is broken else [expected, [], []])
    assert Arrow(dict[str, Any]).decode([write_atom(batch(x=broken.slice(1)))]).events == [
        {"x": None},
        {"x": whole[2].as_py()},
    ]


def test_what_a_format_has_read_is_no_part_of_the_fingerprint() -> None:
    form = ArrowColumns(Event)
    before = _flow(form).job.fingerprint()
    form.decode([write_atom(_rows())])
    assert _flow(form).job.fingerprint() == before != _flow(ArrowColumns(Place), at=None).job.fingerprint()


def _flow(form: Any, at: Any = lambda e: e.at) -> Flow:
    flow = Flow("arrow", on_error="dead-letter")
    events = flow.source("in", form, time=at)
    if at is not None:
        events.filter(lambda e: e.note is None or e.amount > 1).map(
            lambda e: (e.at, e.item_id, e.amount, e.note, e.place, e.tags)
        ).sink("rows")
        keyed = events.key_by(lambda e: e.note).window(Tumbling("1s"))
        keyed.agg(lambda g: (g.key, g.count(), g.sum(lambda e: e.item_id), g.max(lambda e: e.amount))).sink("groups")
    else:
        events.sink("rows")
    return flow


ROWS: list[dict[str, Any]] = [
    {
        "at": datetime(2024, 1, 1, 0, 0, number // 3, number, UTC),
        "itemId": None if number == 5 else number,
        "amount": number / 4,
        "note": None if number % 3 else f"note {number % 2}",
        "place": None if number % 2 else {"lat": number / 2, "name": None if number % 4 else "x"},
        "tags": ["a", "b"][: number % 3],
    }
    for number in range(12)
]


def _rows() -> pa.RecordBatch:
    schema = pa.schema({
        "at": pa.timestamp("ns", "Europe/Paris"), "itemId": pa.uint16(), "amount": pa.float32(), "note": pa.string(),
        "place": pa.struct({"lat": pa.float64(), "name": pa.large_string()}),
        "tags": pa.list_view(pa.dictionary(pa.int8(), pa.string())),
    })  # fmt: skip
    tags = [row["tags"] for row in ROWS]
    flat = dictionary([tag for row in tags for tag in row], index=pa.int8())
    ends = [sum(map(len, tags[:number])) for number in range(len(tags))]
    lists = pa.ListViewArray.from_arrays(pa.array(ends, pa.int32()), pa.array(map(len, tags), pa.int32()), flat)
    others = [pa.array([row[name] for row in ROWS], schema.field(name).type) for name in schema.names[:-1]]
    return pa.RecordBatch.from_arrays([*others, lists], schema=schema)


def _outcome(form: Any, *records: bytes) -> Any:
    test = JobTestDriver(_flow(form).job)
    test.feed(0, *records)
    test.finish()
    return {name: [value for _, _, value in test.raw_outputs(name)] for name in test.job.outputs if name != DEAD}, test


@pytest.mark.parametrize("form", [Arrow, ArrowColumns])
def test_a_flow_gives_the_bytes_that_it_gives_of_the_same_rows_as_json(form: Any) -> None:
    rows = _rows()
    found, test = _outcome(form(Event), write_atom(rows.slice(0, 7)), stream(rows.slice(7, 2), rows.slice(9)))
    expected, other = _outcome(Json(Event), *map(msgspec.json.encode, ROWS))
    assert found == expected and found["main"] and found["groups"] and test.counts == other.counts
    assert [(letter["offset"], letter["place"], letter["reason"]) for letter in test.dead()] == [
        (0, 5, "column item_id is null: declare it as int | None")
    ]
    alone = Arrow(dict[str, Any]).decode([base64.b64decode(test.dead()[0]["payload"])]).events
    assert alone == [ROWS[5]]
    assert {step.how for step in _flow(form(Event)).explain()} == {"", "columns"}


class Each(ProcessingFunction[Event]):
    async def process(self, event: Event, ctx: Context, /) -> None:
        ctx.emit(event)


class Together(ProcessingFunction[Event]):
    def process_batch(self, batch: Batch[Event], ctx: Context, /) -> None:
        names = ("at", "item_id", "amount", "note", "place", "tags")
        rows = zip(*map(batch.__getitem__, names), strict=True)
        ctx.emit_many([Event(**dict(zip(names, row, strict=True))) for row in rows])


@pytest.mark.parametrize(("form", "function"), [(Arrow, Each), (ArrowColumns, Together)])
def test_a_procedural_job_gives_the_bytes_that_it_gives_of_the_same_rows_as_json(form: Any, function: Any) -> None:
    def outputs(read: Any, *records: bytes) -> list[bytes]:
        times: Any = "at" if function is Together else lambda event: event.at
        source = Source("in", read, timestamp=times, timestamp_unit="datetime")
        test = JobTestDriver(Job("each", source, function, output="out"))
        test.feed(0, *records)
        test.finish()
        assert len(test.dead()) == 1
        return [value for _, _, value in test.raw_outputs("main")]

    json = Json if form is Arrow else JsonColumns
    found = outputs(form(Event), write_atom(_rows().slice(0, 7)), write_atom(_rows().slice(7)))
    assert found == outputs(json(Event), *map(msgspec.json.encode, ROWS)) and len(found) == 11


def test_a_flow_of_one_of_several_structs_takes_events_and_one_of_named_columns_is_refused() -> None:
    flow = Flow("bids")
    flow.source("in", ArrowColumns(Bid | Ask)).of(Bid).map(lambda bid: bid.price).sink("out")
    record = write_atom(batch(type=["Bid", "Ask", "Bid"], price=[1, None, 3], volume=[None, 5, None]))
    assert flow.collect({"in": [record]}) == [1, 3]
    with pytest.raises(FlowError, match=r"give a Struct of them, as in ArrowColumns\(Bid\)"):
        Flow("named").source("in", ArrowColumns({"price": int}))
