"""The plain oracle: what a query must give on a log, in simple Python. It shares no code with engine or Spark.

It classifies every record of the topic (dead, filtered, late or accepted) and evaluates the query over the accepted
ones in one batch.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from nexmark.oracle.compare import ExpectedResults, RecordCounts
from nexmark.oracle.plain_queries import QUERIES
from nexmark.oracle.plain_records import Accepted, OracleQuery
from nodes.log.contract import Log

SUBJECTS = ("person", "auction", "bid")  # by event_type
INT64 = range(-(2**63), 2**63)
TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,3}))?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class OracleRecord:
    """A record that is not dead: its kind, the fields that the query needs and its event time."""

    kind: int
    fields: dict[str, Any]
    time_ms: int


def expected_plain(
    query: str,
    log: Log,
    topic: str,
    *,
    out_of_orderness_ms: int = 0,
    lateness_ms: int = 0,
    max_future_skew_ms: int | None = None,
    atoms: bool = False,
) -> ExpectedResults:
    """Rows and counts of a query over everything in the topic now; raises ValueError for a query it does not know.

    ``atoms``: the records are Arrow record batches, else JSON.
    """
    if query not in QUERIES:
        raise ValueError(f"the plain oracle does not know {query!r}; it knows {', '.join(QUERIES)}")
    spec = QUERIES[query]
    counts: Counter[str] = Counter()
    partitions = log.partitions(topic)

    def accepted() -> Iterator[Accepted]:
        for partition in range(partitions):
            watermark: int | None = None
            for record, timestamp_ms in _events(log, topic, partition, spec, atoms):
                if record is None or _too_far_ahead(record, timestamp_ms, max_future_skew_ms):
                    counts["dead"] += 1
                    continue
                closed = None if watermark is None else watermark - lateness_ms
                if not spec.wanted(record.kind, record.fields):
                    counts["filtered"] += 1
                elif spec.windowed and closed is not None and spec.last_end(record.time_ms) <= closed:
                    counts["late"] += 1
                else:
                    counts["accepted"] += 1
                    yield Accepted(partition, record.kind, record.fields, record.time_ms, closed)
                reached = record.time_ms - out_of_orderness_ms
                watermark = reached if watermark is None else max(watermark, reached)

    rows = list(spec.answer(accepted(), partitions))
    return ExpectedResults(rows, RecordCounts(counts["accepted"], counts["filtered"], counts["late"], counts["dead"]))


def parse(value: bytes, query: OracleQuery) -> OracleRecord | None:
    """The record, or None if it is dead: not JSON (RFC 8259), or a field that the query needs is not as it must be.

    Of repeated names the last one counts.
    """
    try:
        event = DECODER.decode(value.decode("utf-8"))
        if b"\\u" in value:
            json.dumps(event, ensure_ascii=False).encode("utf-8")  # half a surrogate pair is not a character
    except (ValueError, RecursionError):
        return None
    kind = event.get("event_type") if isinstance(event, dict) else None
    if type(kind) is not int or not 0 <= kind < len(SUBJECTS):
        return None
    subject = event.get(SUBJECTS[kind])
    if not isinstance(subject, dict):
        return None
    fields: dict[str, Any] = {name: subject.get(name) for name in query.needs[kind]}
    if not all(_fits(fields[name], wanted) for name, wanted in query.needs[kind].items()):
        return None
    if "expires" in fields:
        fields["expires"] = time_ms(fields["expires"])
        if fields["expires"] is None:
            return None
    event_ms = time_ms(fields["dateTime"])
    return None if event_ms is None else OracleRecord(kind, fields, event_ms)


@lru_cache(maxsize=10_000)
def time_ms(text: str) -> int | None:
    """Epoch milliseconds of a time on the wire, None if it is not one."""
    match = TIME.fullmatch(text)
    if match is None:
        return None
    *parts, fraction = match.groups(default="0")
    try:
        moment = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[arg-type]
    except ValueError:
        return None
    return (moment - EPOCH) // timedelta(milliseconds=1) + int(fraction.ljust(3, "0"))


def _records(log: Log, topic: str, partition: int) -> Iterator[tuple[bytes, int]]:
    """Payload and log timestamp of everything in a partition."""
    offset, end = log.start_offset(topic, partition), log.end_offset(topic, partition)
    while offset < end:
        chunk = log.read(topic, partition, offset)
        yield from zip(chunk.values, chunk.timestamps_ms.tolist(), strict=True)
        offset = chunk.next_offset


def _events(
    log: Log, topic: str, partition: int, query: OracleQuery, atoms: bool
) -> Iterator[tuple[OracleRecord | None, int]]:
    """Every event of a partition, None where it is dead, with the timestamp of its record."""
    for value, timestamp_ms in _records(log, topic, partition):
        for record in _parse_atom(value, query) if atoms else [parse(value, query)]:
            yield record, timestamp_ms


def _parse_atom(value: bytes, query: OracleQuery) -> Iterator[OracleRecord | None]:
    from nexmark.oracle.atoms import atom_events, time_text  # pyarrow comes with an extra

    for event in atom_events(value, query.needs):
        if event is None:
            yield None
            continue
        kind, fields = event
        event_ms = fields["dateTime"]
        yield OracleRecord(kind, fields | {"dateTime": time_text(event_ms)}, event_ms)


def _too_far_ahead(record: OracleRecord, timestamp_ms: int, guard_ms: int | None) -> bool:
    return guard_ms is not None and record.time_ms > timestamp_ms + guard_ms


def _fits(value: object, wanted: type) -> bool:
    if wanted is int:
        return type(value) is int and value in INT64
    return type(value) is wanted


def _integer(digits: str) -> int:
    """Very long integers are valid JSON but outside of int64 anyway; Python refuses to convert thousands of digits."""
    return int(digits) if len(digits) < 30 else INT64.stop


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=_integer)
