"""Nexmark in atoms: the same columns and answers as in JSON; engine and oracles say the same of damaged ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import Decoded
from holon.columnar.atoms.writing import write_atom
from holon.columnar.loops import Loops, install, installed
from holon.columnar.payloads import BinaryColumn
from holon.testing import JobTestDriver
from nexmark.generator import Events, GeneratorConfig, encode_json, generate_slice
from nexmark.generator.arrow_columns import ATOM_ROWS, encode_atom, wide_batch
from nexmark.loading import Stream, TopicHoldsOther, load, load_partition
from nexmark.oracle import compare, expected_plain
from nexmark.oracle.atoms import atom_events
from nexmark.oracle.plain_queries import QUERIES as ORACLE
from nexmark.queries import QUERIES, TOPIC, nexmark_job
from nexmark.queries.atoms import NexmarkAtoms
from nodes.compiled import loading as compiled
from nodes.fleet.event_counts import events_on_log
from nodes.log import MemoryLog

CONFIG = GeneratorConfig(seed=9)
STREAM = Stream(TOPIC, 3_000, 3, CONFIG, atom_rows=256)
SMALL = encode_atom(generate_slice(CONFIG, 0, 60))


def wide_atom(events: Events) -> bytes:
    """The older layout."""
    return write_atom(wide_batch(events, pa.int8(), "ms"))


WIDE = wide_atom(generate_slice(CONFIG, 0, 60))
FORMATS = {name: NexmarkAtoms(query.format) for name, query in QUERIES.items()}


@pytest.fixture(scope="module")
def log() -> Iterator[MemoryLog]:
    log = MemoryLog()
    load(log, STREAM)
    yield log


@pytest.mark.parametrize("encodings", [[encode_atom] * 3, [wide_atom, encode_atom, wide_atom]], ids=["new", "mixed"])
@pytest.mark.parametrize("query", sorted(QUERIES))
def test_atoms_give_the_columns_that_json_gives(query: str, encodings: list[Callable[[Events], bytes]]) -> None:
    parts = [generate_slice(CONFIG, first, first + 100) for first in (0, 100, 200)]
    atoms = [encode(part) for encode, part in zip(encodings, parts, strict=True)]
    of_atoms = decoded(query, atoms).columns
    of_json = QUERIES[query].format.decode([record for part in parts for record in encode_json(part)]).columns
    assert {name: list(column) for name, column in of_atoms.items()} == {
        name: list(column) for name, column in of_json.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("query", sorted(QUERIES))
def test_every_query_gives_what_the_plain_oracle_finds_in_the_atoms(query: str, log: MemoryLog) -> None:
    test = JobTestDriver(nexmark_job(query, atoms=1), partitions=STREAM.partitions)
    for partition in range(STREAM.partitions):
        test.feed(partition, *log.read(TOPIC, partition, 0).values)
    test.finish()
    expected = expected_plain(query, log, TOPIC, atoms=True)
    assert compare(expected.rows, test.outputs()).differences == 0 and test.outputs()
    counts = test.counts
    found = type(expected.counts)(*(getattr(counts, field.name) for field in fields(expected.counts)))
    assert expected.counts.differences(found) == []
    assert counts.taken == STREAM.events == sum(events_on_log(log, test.job))


def test_loading_goes_on_where_it_stopped_and_refuses_another_stream() -> None:
    log, whole = MemoryLog(), MemoryLog()
    load(whole, STREAM)
    log.create_topic(TOPIC, STREAM.partitions)
    log.append(TOPIC, 1, STREAM.encode(1, 0, 2))
    assert load_partition(log, STREAM, 1) == STREAM.records_in(1) - 2 == 2
    assert log.read(TOPIC, 1, 0).values == whole.read(TOPIC, 1, 0).values
    with pytest.raises(TopicHoldsOther):
        load_partition(log, Stream(TOPIC, 3_000, 3, GeneratorConfig(seed=8), atom_rows=256), 1)


def test_a_full_atom_fits_into_a_record_of_kafka_as_it_is_set_up_by_default() -> None:
    assert len(encode_atom(generate_slice(CONFIG, 0, ATOM_ROWS))) < 900_000


def test_the_columns_of_a_lone_atom_are_its_own_bytes() -> None:
    records = BinaryColumn.of([SMALL])
    columns = FORMATS["q7"].decode(records).columns
    assert np.shares_memory(columns["kind"], records.buffer) and columns["bid.extra"].buffer is records.buffer


@pytest.fixture(scope="module", autouse=True)
def loops() -> Iterator[Loops]:
    """The compiled loops, which tests do without unless they install them."""
    assert compiled.ensure(), "numba is part of the development environment"
    found = installed()
    assert found is not None
    LOOPS.append(found)
    install(None)
    yield found


LOOPS: list[Loops] = []


def decoded(query: str, records: Sequence[bytes]) -> Decoded[Any]:
    """The format's result for records; the compiled loops give the same."""
    plain = FORMATS[query].decode(records)
    install(LOOPS[0])
    try:
        fast = FORMATS[query].decode(records)
    finally:
        install(None)
    assert (fast.bad, fast.bad_events) == (plain.bad, plain.bad_events)
    assert np.array_equal(fast.rows, plain.rows) and np.array_equal(fast.places, plain.places)
    assert {name: list(column) for name, column in fast.columns.items()} == {
        name: list(column) for name, column in plain.columns.items()
    }
    return fast


def by_engine(query: str, record: bytes) -> list[Any]:
    """Kind and needed fields of every event of a record, None where it is dead."""
    found = decoded(query, [record])
    if found.bad:
        return [None]
    assert found.places is not None
    events: list[Any] = [None] * (len(found.places) + len(found.bad_events))
    kinds = found.columns["kind"].tolist()
    rows = {name: list(column) for name, column in found.columns.items()}
    for row, place in enumerate(found.places.tolist()):
        subject = ("person", "auction", "bid")[kinds[row]]
        mine = {name[len(subject) + 1 :]: rows[name][row] for name in rows if name.startswith(f"{subject}.")}
        events[place] = (kinds[row], mine | {"dateTime": rows["time_ms"][row]})
    return events


def agree(query: str, record: bytes) -> None:
    assert by_engine(query, record) == atom_events(record, ORACLE[query].needs)


@pytest.mark.parametrize("record", [SMALL, WIDE], ids=["new", "wide"])
@pytest.mark.parametrize("query", ["q0", "q4", "q8"])
def test_engine_and_oracle_read_the_same(query: str, record: bytes) -> None:
    agree(query, record)
    assert None not in by_engine(query, record)


@pytest.mark.slow
@given(st.sampled_from(["q0", "q4", "q7max", "q8"]), st.sampled_from(["new", "wide"]), st.data())
def test_engine_and_oracle_say_the_same_of_damaged_atoms(query: str, layout: str, data: st.DataObject) -> None:
    """Bytes changed, cut off or put in between, anywhere: in lengths, types, offsets, masks and values."""
    record = bytearray(SMALL if layout == "new" else WIDE)
    for _ in range(data.draw(st.integers(1, 3))):
        last = data.draw(st.sampled_from([min(4_000, len(record)), len(record)])) - 1  # it begins with what says how
        at = data.draw(st.integers(0, last))
        what = data.draw(st.sampled_from(["flip", "set", "word", "cut", "insert"]))
        if what == "flip":
            record[at] ^= 1 << data.draw(st.integers(0, 7))
        elif what == "set":
            record[at] = data.draw(st.sampled_from([0, 1, 127, 128, 255]))
        elif what == "word":
            record[at : at + 4] = data.draw(st.sampled_from([b"\0" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f"]))
        elif what == "cut":
            del record[at:]
            record += b"" if record else b"x"
        else:
            record[at:at] = data.draw(st.binary(max_size=9))
    agree(query, bytes(record))


@pytest.mark.parametrize("column", ["event_type", "bid"])
def test_events_without_kind_or_subject_are_dead_one_by_one(column: str) -> None:
    with pa.ipc.open_stream(WIDE) as stream:
        batch = stream.read_next_batch()
    at = batch.schema.get_field_index(column)
    values = batch.column(column).to_pylist()
    values[6] = None
    changed = batch.set_column(at, batch.schema.field(at), pa.array(values, batch.schema.field(at).type))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, changed.schema) as writer:
        writer.write_batch(changed)
    record = sink.getvalue().to_pybytes()
    assert [place for place, event in enumerate(by_engine("q0", record)) if event is None] == [6]
    agree("q0", record)


def union_atom(kinds: list[int], places: list[int], *, codes: list[int] | None = None, names: Any = None) -> bytes:
    """The events of ``SMALL`` with these kinds and places."""
    with pa.ipc.open_stream(SMALL) as stream:
        union: Any = stream.read_next_batch().column("event")
    parts = [union.field(number) for number in range(3)]
    names = names or ["person", "auction", "bid"]
    changed = pa.UnionArray.from_dense(pa.array(kinds, pa.int8()), pa.array(places, pa.int32()), parts, names, codes)
    return write_atom(pa.RecordBatch.from_arrays([changed], ["event"]))


def test_events_of_no_kind_or_at_no_place_are_dead_one_by_one_and_can_be_put_back() -> None:
    record = union_atom([2, 0, 3, 2, -1, 1, 2, 1, 2], [0, 0, 0, 2**31 - 1, 0, -1, 54, 2, 5])
    dead = [place for place, event in enumerate(by_engine("q0", record)) if event is None]
    assert dead == [2, 3, 4, 5, 6]
    agree("q0", record)
    for place in range(9):
        alone = FORMATS["q0"].single(record, place)
        assert by_engine("q0", alone) == by_engine("q0", record)[place : place + 1]
        agree("q0", alone)


def test_several_atoms_have_their_own_places() -> None:
    records = [union_atom([2, 0, 5], [3, 0, 0]), union_atom([2, 2, 1], [1, 99, 0]), SMALL, union_atom([], [])]
    together, alone = decoded("q4", records), [decoded("q4", [record]) for record in records]
    assert together.columns["bid.price"].tolist() == [n for one in alone for n in one.columns["bid.price"].tolist()]
    assert together.columns["time_ms"].tolist() == [n for one in alone for n in one.columns["time_ms"].tolist()]
    assert [event[:2] for event in together.bad_events] == [(0, 2), (1, 1)]


@pytest.mark.parametrize("change", [{"codes": [0, 2, 1]}, {"names": ["person", "bid", "auction"]}])
def test_a_union_of_other_kinds_is_a_dead_atom(change: dict[str, Any]) -> None:
    record = union_atom([0, 1], [0, 0], **change)
    assert by_engine("q7max", record) == [None]
    agree("q7max", record)
