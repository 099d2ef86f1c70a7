"""Strict parsing of records for the Spark oracle; runs in Spark's Python workers.

Spark's own `from_json` takes what RFC 8259 forbids and repairs what is broken, so it cannot judge if records are dead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa

from nexmark.oracle.atoms import atom_events, time_text
from nexmark.oracle.spark_queries import SPARK_QUERIES

PARSED = (
    "partition int, offset bigint, place int, timestamp_ms bigint, kind int, event_ms bigint, auction bigint, "
    "bidder bigint, price bigint, id bigint, category bigint, seller bigint, expires_ms bigint, date_time string, "
    "extra string, name string, city string, state string, channel string, url string"
)
"""Columns of parsed records; ``place`` is the row in a record batch, or 0. ``kind`` is null for a dead record or event,
and so is every field that the query does not need.
"""

_KIND_NAMES = {0: "person", 1: "auction", 2: "bid"}
_INTEGERS = ("auction", "bidder", "price", "id", "category", "seller")
_COLUMN_OF = {"dateTime": "date_time", "expires": "expires_ms"}
_COLUMNS = {"kind": pa.int32(), "event_ms": pa.int64()}
_COLUMNS |= dict.fromkeys((*_INTEGERS, "expires_ms"), pa.int64())
_COLUMNS |= dict.fromkeys(("date_time", "extra", "name", "city", "state", "channel", "url"), pa.string())
_NAMES = [column.split()[0] for column in PARSED.split(", ")]
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_SEPARATORS = {4: "-", 7: "-", 10: " ", 13: ":", 16: ":"}


class Unusable(ValueError):
    """A record that the query cannot use; the message gives the reason."""


def parser(query: str, *, atoms: bool = False) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: batches of the log's columns to batches of `PARSED`."""
    needs = {kind: SPARK_QUERIES[query].needs(kind) for kind in _KIND_NAMES}
    used = {"kind", "event_ms"} | {_COLUMN_OF.get(name, name) for names in needs.values() for name in names}

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = batch.column("value").to_pylist()
            read = _rows_of_atom if atoms else _row_of_record
            found = [read(value, needs) for value in values]
            rows = [row for rows in found for row in rows]
            record = pa.array([number for number, rows in enumerate(found) for _ in rows], pa.int64())
            columns = {name: batch.column(name).take(record) for name in ("partition", "offset", "timestamp_ms")}
            columns["place"] = pa.array([place for rows in found for place in range(len(rows))], pa.int32())
            for name, kind in _COLUMNS.items():
                known = name in used
                columns[name] = pa.array([row.get(name) for row in rows], kind) if known else pa.nulls(len(rows), kind)
            yield pa.RecordBatch.from_pydict({name: columns[name] for name in _NAMES})

    return parse


def _row_of_record(value: bytes, needs: dict[int, tuple[str, ...]]) -> list[dict[str, Any]]:
    try:
        return [parse_record(value, needs)]
    except (Unusable, RecursionError):
        return [{}]


def _rows_of_atom(value: bytes, needs: dict[int, tuple[str, ...]]) -> list[dict[str, Any]]:
    """The columns of each event of an atom."""
    typed = [{name: int if name in _INTEGERS else str for name in needs[kind]} for kind in sorted(needs)]
    rows = []
    for event in atom_events(value, typed):
        row: dict[str, Any] = {}
        if event is not None:
            kind, fields = event
            row = {_COLUMN_OF.get(name, name): found for name, found in fields.items()}
            row |= {"kind": kind, "event_ms": fields["dateTime"], "date_time": time_text(fields["dateTime"])}
        rows.append(row)
    return rows


def parse_record(value: bytes, needs: dict[int, tuple[str, ...]]) -> dict[str, Any]:
    """The columns of one record; raises `Unusable`, and RecursionError where it is nested too deeply."""
    event = _strict_json(value)
    if not isinstance(event, dict):
        raise Unusable("not an object")
    kind = event.get("event_type")
    if type(kind) is not int or kind not in _KIND_NAMES:
        raise Unusable(f"event_type {kind!r}")
    subject = event.get(_KIND_NAMES[kind])
    if not isinstance(subject, dict):
        raise Unusable(f"no {_KIND_NAMES[kind]}")
    row: dict[str, Any] = {"kind": kind}
    for name in needs[kind]:
        found = subject.get(name)
        if name in _INTEGERS:
            if type(found) is not int or not _LOWEST <= found <= _HIGHEST:
                raise Unusable(f"{name} is no 64-bit integer")
            row[name] = found
        elif not isinstance(found, str):
            raise Unusable(f"{name} is no text")
        elif name == "expires":
            row["expires_ms"] = epoch_ms(found)
        elif name == "dateTime":
            row["date_time"], row["event_ms"] = found, epoch_ms(found)
        else:
            row[name] = found
    return row


def epoch_ms(text: str) -> int:
    """A time `yyyy-MM-dd HH:mm:ss[.f{1,3}]` (UTC) in milliseconds; raises `Unusable`."""
    dot, fraction = text[19:20], text[20:]
    if dot and not (dot == "." and len(fraction) <= 3 and fraction.isascii() and fraction.isdigit()):
        raise Unusable(f"no time: {text!r}")
    return _epoch_s(text[:19]) * 1000 + int(fraction.ljust(3, "0"))


@lru_cache(maxsize=10_000)
def _epoch_s(text: str) -> int:
    digits = "".join(char for place, char in enumerate(text) if place not in _SEPARATORS)
    shaped = len(text) == 19 and all(text[place] == char for place, char in _SEPARATORS.items())
    if not (shaped and digits.isascii() and digits.isdigit()):
        raise Unusable(f"no time: {text!r}")
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    hour, minute, second = int(text[11:13]), int(text[14:16]), int(text[17:19])
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= _month_length(year, month)):
        raise Unusable(f"no such day: {text!r}")
    if not (hour < 24 and minute < 60 and second < 60):
        raise Unusable(f"no such time of day: {text!r}")
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400 + _DAYS_BEFORE_MONTH[month - 1] + day - 1
    days += month > 2 and _is_leap(year)
    return ((days - 719_162) * 24 + hour) * 3600 + minute * 60 + second  # 719,162 days from 0001-01-01 to 1970


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _month_length(year: int, month: int) -> int:
    return 28 + _is_leap(year) if month == 2 else 30 + (month in (1, 3, 5, 7, 8, 10, 12))


def _bounded_integer(digits: str) -> int:
    # Python refuses to convert thousands of digits, which are valid JSON and matter only if the field is needed.
    return int(digits) if len(digits) <= 20 else _HIGHEST + 1


def _not_json(constant: str) -> None:
    raise Unusable(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_not_json, parse_int=_bounded_integer)


def _strict_json(value: bytes) -> Any:
    try:
        text = value.decode("utf-8")
        start = len(text) - len(text.lstrip(" \t\r\n"))
        parsed, end = _DECODER.raw_decode(text, start)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Unusable(str(error)) from error
    if text[end:].strip(" \t\r\n"):
        raise Unusable(f"more after the end at {end}")
    if "\\u" in text and any("\ud800" <= char <= "\udfff" for char in json.dumps(parsed, ensure_ascii=False)):
        raise Unusable("half a surrogate pair")
    return parsed
