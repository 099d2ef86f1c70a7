"""The compiled decoder and msgspec say the same of every run of records, whatever stands in it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.columnar.loops import install, installed
from holon.columnar.payloads import BinaryColumn
from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.queries import QUERIES
from nexmark.queries.columns import FEW, NexmarkColumns
from tests.unit.nexmark_records import ALIVE, DEAD, GOOD, auction, person

pytestmark = pytest.mark.usefixtures("loops_installed")

GENERATED = encode_json(generate_slice(GeneratorConfig(seed=9), 0, 120))
COMPACT = [json.dumps(json.loads(record), separators=(",", ":")).encode() for record in (GOOD, person())]
REORDERED = [
    json.dumps(dict(reversed(json.loads(record).items())), separators=(",", ":")).encode() for record in GENERATED[:6]
]
PATCHES = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"00", b".", b"e", b"null", b"\\u",
           b"\x00", b"\x1f", b"\x7f", b"\xff", b"\xc3\xa9", b" ", b"\n", b'"dateTime":', b'"price":1,',
           b'"bid":null,', b"9" * 18, b"9" * 19, b'"event_type":0,', b"2024-02-29", b"2025-02-29", b"1900-02-29",
           b"23:59:60", b".0005"]  # fmt: skip
SPECIMENS = [*GENERATED, *COMPACT, *REORDERED, GOOD, auction(1, "00:00:01.000", "00:00:02.5"), person()]

PLAIN = {name: query.format for name, query in QUERIES.items()}


def fresh(query: str) -> NexmarkColumns:
    """One that has learned nothing yet."""
    requested = PLAIN[query].requested
    return NexmarkColumns(requested[2], requested[1], requested[0])


def readings(columns: NexmarkColumns, payloads: Any) -> tuple[list[int], dict[str, list[Any]], list[tuple[int, str]]]:
    found = columns.decode(payloads)
    rows = np.arange(len(payloads)) if found.rows is None else found.rows
    return rows.tolist(), {name: list(column) for name, column in found.columns.items()}, found.bad


def without_loops(query: str, payloads: Any) -> Any:
    loops = installed()
    install(None)
    try:
        return readings(PLAIN[query], payloads)
    finally:
        install(loops)


def agree(query: str, compiled: NexmarkColumns, payloads: list[bytes]) -> None:
    assert readings(compiled, payloads) == without_loops(query, payloads)


def test_the_loops_read_all_generated_records_themselves() -> None:
    loops = installed()
    assert loops is not None
    found = fresh("q0").projector(loops).project(BinaryColumn.of(GENERATED + REORDERED))
    assert len(found.rest) == 0


@pytest.mark.parametrize("query", sorted(QUERIES))
def test_generated_records_give_the_same_columns(query: str) -> None:
    agree(query, fresh(query), GENERATED)


@pytest.mark.parametrize("query", sorted(QUERIES))
def test_broken_and_unusual_records_give_the_same_columns_wherever_they_stand(query: str) -> None:
    compiled = fresh(query)
    odd = [*DEAD.values(), *ALIVE.values(), *COMPACT, *REORDERED]
    mixed = [record for pair in zip(odd, GENERATED, strict=False) for record in pair]
    for payloads in (mixed, mixed[::-1], odd * 2, [b""] * FEW):
        agree(query, compiled, payloads)


@pytest.mark.slow
@given(st.sampled_from(sorted(QUERIES)), st.data())
def test_records_with_replaced_bytes_give_the_same_columns(query: str, data: st.DataObject) -> None:
    compiled = fresh(query)
    for _ in range(2):  # the second time with what was learned
        payloads = [*GENERATED[:FEW]]
        for _ in range(data.draw(st.integers(1, 6))):
            value = data.draw(st.sampled_from(SPECIMENS))
            for _ in range(data.draw(st.integers(0, 2))):
                place, cut = data.draw(st.integers(0, len(value))), data.draw(st.integers(0, 12))
                patch = data.draw(st.sampled_from(PATCHES) | st.binary(max_size=3))
                value = value[:place] + patch + value[place + cut :]
            payloads.insert(data.draw(st.integers(0, len(payloads))), value)
        agree(query, compiled, payloads)


@given(st.integers(-(2**70), 2**70), st.integers(-1, 20_000_000_000_000))
def test_numbers_and_times_give_the_same_columns(price: int, auction_id: int) -> None:
    compiled = fresh("q0")
    record = GENERATED[5]
    assert b'"price":' in record
    head, _, tail = record.partition(b'"price":')
    changed = head + b'"price":%d' % price + tail[tail.index(b",") :]
    agree("q0", compiled, [*GENERATED[:FEW], changed, changed.replace(b'"bidder":', b'"bidder":%d' % auction_id)])


@given(st.text(alphabet="0123456789-: .T", min_size=18, max_size=24) | st.datetimes().map(lambda at: str(at)[:23]))
def test_texts_of_times_are_read_alike(text: str) -> None:
    compiled = fresh("q7max")
    record = GENERATED[5]
    start = record.index(b'"dateTime":"') + len(b'"dateTime":"')
    agree("q7max", compiled, [*GENERATED[:FEW], record[:start] + text.encode() + record[start + 23 :]])


def test_a_view_of_a_larger_buffer_is_read_as_what_it_shows() -> None:
    whole = BinaryColumn.of([b"garbage", *GENERATED, b"{"])
    assert readings(fresh("q0"), whole[1:-1]) == without_loops("q0", GENERATED)
