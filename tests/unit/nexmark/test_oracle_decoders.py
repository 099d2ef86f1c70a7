"""Three readers of the same records, none sharing a line with another: both oracles and the engine's columns.

The latter are those of the query as a processing function, and of the flow where there is no such.

They must agree on which records are dead, and on what the others say.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nexmark.flows import FLOWS, nexmark_flow
from nexmark.flows.columns import RowColumns
from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.oracle import plain, spark_parse
from nexmark.oracle.plain_queries import QUERIES as PLAIN
from nexmark.oracle.spark_queries import SPARK_QUERIES
from nexmark.queries import QUERIES as PROCEDURAL
from nexmark.queries.parsing import SUBJECTS
from nexmark.times import INVALID_TIME, MAX_TIME_MS, MIN_TIME_MS, format_time_ms, parse_time_ms
from tests.unit.nexmark_records import ALIVE, DEAD, GOOD, auction, person

Reading = tuple[int, int, dict[str, Any]]  # kind, event time, fields

RENAMED = {"date_time": "dateTime", "expires_ms": "expires"}
QUERIES = sorted(PLAIN)
ENGINE: dict[str, Any] = {name: nexmark_flow(name).job.source.format for name in FLOWS} | {
    name: query.format for name, query in PROCEDURAL.items()
}
GENERATED = encode_json(generate_slice(GeneratorConfig(seed=9), 0, 20))
PATCHES = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b".", b"e", b"null", b"\\u", b"\\ud83d",
           b"\x00", b"\xff", b"\xc3\xa9", b" ", b"\n", b'"dateTime":', b'"price":1,', b'"bid":null,',
           b'"event_type":0,']  # fmt: skip
VALUES = [b"null", b"true", b"0", b"-0", b"-1", b"1.0", b"1e0", b"01", b"+1", b"9223372036854775807",
          b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809", b"9" * 5000, b"NaN", b"Infinity",
          b'""', b'"2025-01-01 00:00:00"', b'"2025-01-01 00:00:00.5"', b'"2025-02-29 00:00:00.000"', b'"\\ud800"',
          b'"\\ud83d\\ude00"', b'"\xc3\xa9"', b'"\xed\xa0\x80"', b"{}", b"[]", b'{"dateTime":"2025-01-01 00:00:00"}',
          b"1,\"price\":2", b"null,\"price\":2", b"2,\"price\":null", b"  7 "]  # fmt: skip
SPECIMENS = [GOOD, auction(1, "00:00:01.000", "00:00:02.5"), person(), *GENERATED]


def by_plain(query: str, value: bytes) -> Reading | None:
    found = plain.parse(value, PLAIN[query])
    return found and (found.kind, found.time_ms, found.fields)


def by_spark(query: str, value: bytes) -> Reading | None:
    needs = {kind: SPARK_QUERIES[query].needs(kind) for kind in range(3)}
    try:
        row = spark_parse.parse_record(value, needs)
    except (spark_parse.Unusable, RecursionError):
        return None
    kind, time_ms = row.pop("kind"), row.pop("event_ms")
    return kind, time_ms, {RENAMED.get(name, name): found for name, found in row.items()}


def by_engine(query: str, value: bytes) -> Reading | None:
    columns = ENGINE[query]
    renamed = columns.renamed if isinstance(columns, RowColumns) else {}
    found = columns.decode([value])
    if found.bad:
        assert len(found.columns["kind"]) == 0
        return None
    kind = int(found.columns["kind"][0])
    names = {name: f"{SUBJECTS[kind]}.{name}" for name in columns.requested[kind]}
    requested = {name: found.columns[renamed.get(full, full)][0] for name, full in names.items()}
    fields = {name: one if isinstance(one, str) else int(one) for name, one in requested.items()}
    return kind, int(found.columns["time_ms"][0]), fields


def agree(query: str, value: bytes) -> Reading | None:
    expected = by_plain(query, value)
    assert by_spark(query, value) == expected, value[:300]
    assert by_engine(query, value) == _asked(query, expected), value[:300]
    return expected


def _asked(query: str, reading: Reading | None) -> Reading | None:
    """The engine keeps the text of a time only where the query needs it."""
    if reading is None:
        return None
    kind, time_ms, fields = reading
    return kind, time_ms, {name: fields[name] for name in ENGINE[query].requested[kind]}


@pytest.mark.parametrize("query", QUERIES)
def test_readers_agree_on_broken_and_unusual_records(query: str) -> None:
    for case, value in {**DEAD, **ALIVE}.items():
        agree(query, value)
        if query == "q0":
            assert (agree(query, value) is None) == (case in DEAD)


@pytest.mark.parametrize("query", QUERIES)
def test_readers_agree_on_generated_records(query: str) -> None:
    assert all(agree(query, value) for value in encode_json(generate_slice(GeneratorConfig(seed=4), 0, 500)))


@given(st.integers(MIN_TIME_MS, MAX_TIME_MS), st.integers(19, 23))
@example(951_868_800_000, 23)  # 2000-03-01, behind a leap day
@example(4_107_542_400_000, 19)  # 2100-03-01, where there is none
def test_readers_agree_on_every_time(time_ms: int, length: int) -> None:
    text = format_time_ms(time_ms)[:length]
    kept = {19: 1000, 20: None, 21: 100, 22: 10, 23: 1}[length]
    expected = None if kept is None else time_ms // kept * kept
    assert plain.time_ms(text) == expected
    assert parse_time_ms(text) == (INVALID_TIME if expected is None else expected)
    if expected is None:
        with pytest.raises(spark_parse.Unusable):
            spark_parse.epoch_ms(text)
    else:
        assert spark_parse.epoch_ms(text) == expected


@given(st.sampled_from(QUERIES), st.sampled_from(SPECIMENS), st.data())
def test_readers_agree_on_records_with_replaced_bytes(query: str, value: bytes, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(value)))
        cut = data.draw(st.integers(0, 3))
        patch = data.draw(st.sampled_from(PATCHES) | st.binary(max_size=2))
        value = value[:place] + patch + value[place + cut :]
    agree(query, value)


@given(st.sampled_from(QUERIES), st.sampled_from(SPECIMENS), st.data())
def test_readers_agree_on_records_with_a_replaced_value(query: str, value: bytes, data: st.DataObject) -> None:
    colons = [place for place, byte in enumerate(value) if byte == ord(":")]
    place = data.draw(st.sampled_from(colons)) + 1
    end = min((value.find(mark, place) for mark in (b",", b"}") if value.find(mark, place) > 0), default=len(value))
    agree(query, value[:place] + data.draw(st.sampled_from(VALUES)) + value[end:])
