"""Strict parsing of records for the Spark oracle; runs in Spark's Python workers.

Spark's own `from_json` takes what RFC 8259 forbids and repairs what is broken, so it cannot say which records are dead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from nexmark.oracle.spark_queries import SPARK_QUERIES

PARSED = (
    "partition int, offset bigint, timestamp_ms bigint, kind int, event_ms bigint, auction bigint, bidder bigint, "
    "price bigint, id bigint, category bigint, expires_ms bigint, date_time string, extra string"
)
"""Columns of what is parsed; ``kind`` is null for a dead record, and so is every field that the query does not need."""

_KIND_NAMES = {0: "person", 1: "auction", 2: "bid"}
_INTEGERS = ("auction", "bidder", "price", "id", "category")
_COLUMNS = {"kind": pa.int32(), "event_ms": pa.int64()}
_COLUMNS |= dict.fromkeys((*_INTEGERS, "expires_ms"), pa.int64())
_COLUMNS |= dict.fromkeys(("date_time", "extra"), pa.string())
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
_SEPARATORS = {4: "-", 7: "-", 10: " ", 13: ":", 16: ":"}


class Unusable(ValueError):
    """A record that the query cannot use; the message says why."""


def parser(query: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: batches of the log's columns to batches of `PARSED`."""
    needs = {kind: SPARK_QUERIES[query].needs(kind) for kind in _KIND_NAMES}

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [_row_or_dead(value, needs) for value in batch.column("value").to_pylist()]
            columns = {name: batch.column(name) for name in ("partition", "offset", "timestamp_ms")}
            columns |= {name: pa.array([row.get(name) for row in rows], kind) for name, kind in _COLUMNS.items()}
            yield pa.RecordBatch.from_pydict(columns)

    return parse


def _row_or_dead(value: bytes, needs: dict[int, tuple[str, ...]]) -> dict[str, Any]:
    try:
        return parse_record(value, needs)
    except (Unusable, RecursionError):
        return {}


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
    main, dot, fraction = text[:19], text[19:20], text[20:]
    digits = "".join(char for place, char in enumerate(main) if place not in _SEPARATORS) + fraction
    shaped = len(main) == 19 and all(main[place] == char for place, char in _SEPARATORS.items())
    ending = (dot == "" and fraction == "") or (dot == "." and 1 <= len(fraction) <= 3)
    if not (shaped and ending and digits.isascii() and digits.isdigit()):
        raise Unusable(f"no time: {text!r}")
    year, month, day = int(main[:4]), int(main[5:7]), int(main[8:10])
    hour, minute, second = int(main[11:13]), int(main[14:16]), int(main[17:19])
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= _month_length(year, month)):
        raise Unusable(f"no such day: {text!r}")
    if not (hour < 24 and minute < 60 and second < 60):
        raise Unusable(f"no such time of day: {text!r}")
    past = year - 1
    days = past * 365 + past // 4 - past // 100 + past // 400 + _DAYS_BEFORE_MONTH[month - 1] + day - 1
    days += month > 2 and _is_leap(year)
    seconds = ((days - 719_162) * 24 + hour) * 3600 + minute * 60 + second  # 719,162 days from 0001-01-01 to 1970
    return seconds * 1000 + int(fraction.ljust(3, "0") or 0)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _month_length(year: int, month: int) -> int:
    return 28 + _is_leap(year) if month == 2 else 30 + (month in (1, 3, 5, 7, 8, 10, 12))


def _strict_json(value: bytes) -> Any:
    try:
        text = value.decode("utf-8")
        parsed = json.loads(text, parse_constant=_not_json, parse_int=_bounded_integer)
    except RecursionError:
        raise
    except ValueError as error:
        raise Unusable(str(error)) from error
    if "\\u" in text and any("\ud800" <= char <= "\udfff" for char in json.dumps(parsed, ensure_ascii=False)):
        raise Unusable("half a surrogate pair")
    return parsed


def _bounded_integer(digits: str) -> int:
    # Python refuses to convert thousands of digits, which are valid JSON and matter only if the field is needed.
    return int(digits) if len(digits) <= 20 else _HIGHEST + 1


def _not_json(constant: str) -> None:
    raise Unusable(f"{constant} is not JSON")
