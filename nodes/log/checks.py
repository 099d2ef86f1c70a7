"""Checks that every implementation refuses with the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn
from nodes.log.contract import OffsetOutOfRange, Record, RecordTooLarge, TopicExists

_FEW = 16
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def check_topic_name(topic: str) -> None:
    """Names are Kafka's: letters, digits, dot, dash, underscore. ``ValueError``; no name can leave a folder."""
    if not _TOPIC_NAME.fullmatch(topic) or topic in (".", ".."):
        raise ValueError(f"{topic!r} is not a topic name: use 1 to 200 of A-Z a-z 0-9 . _ -")


def check_new_topic(topic: str, partitions: int, retention_ms: int | None) -> None:
    """``ValueError`` for what no topic can be."""
    check_topic_name(topic)
    if partitions < 1:
        raise ValueError(f"topic {topic!r}: {partitions} partitions; give 1 or more")
    if retention_ms is not None and retention_ms < 1:
        raise ValueError(f"topic {topic!r}: retention_ms is {retention_ms}; give 1 or more, or None to keep all")


def check_same_partitions(topic: str, have: int, wanted: int) -> None:
    """``TopicExists`` if an existing topic is not the wanted one."""
    if have != wanted:
        raise TopicExists(f"topic {topic!r} exists with {have} partitions, not {wanted}; use {have} or another name")


def check_more_partitions(topic: str, have: int, wanted: int) -> bool:
    """Whether the topic lacks some; ``TopicExists`` if it has more than ``wanted``."""
    if have > wanted:
        raise TopicExists(f"topic {topic!r} has {have} partitions and keeps them: {wanted} are fewer")
    return have < wanted


def check_batch(
    values: Sequence[bytes],
    headers: Sequence[bytes] | None,
    keys: Sequence[bytes | None] | None,
    max_record_bytes: int,
    where: str,
) -> NDArray[np.int64]:
    """The size of each record. ``RecordTooLarge``, ``TypeError`` or ``ValueError`` for what cannot be appended."""
    for name, column in (("headers", headers), ("keys", keys)):
        if column is not None and len(column) != len(values):
            raise ValueError(f"{where}: {len(values)} values but {len(column)} {name}; give one for each value")
    wrong = _types(values) - {bytes} | _types(headers) - {bytes} | _types(keys) - {bytes, type(None)}
    if wrong:
        names = ", ".join(sorted(kind.__name__ for kind in wrong))
        raise TypeError(f"{where}: records are bytes, not {names}; encode them first")
    sizes = record_sizes(values, headers, keys)
    if len(sizes) and int(sizes.max()) > max_record_bytes:
        worst = int(sizes.argmax())
        key = keys[worst] if keys is not None else None
        raise RecordTooLarge(
            f"{where}: record {worst} of the batch {'without a key' if key is None else f'with key {key[:64]!r}'} has "
            f"{sizes[worst]} bytes, the limit is {max_record_bytes}; nothing of the batch was appended. "
            "Make the record smaller or raise the limit"
        )
    return sizes


def check_records(records: Sequence[Record], max_record_bytes: int, where: str) -> NDArray[np.int64]:
    """As ``check_batch``; names and values of headers count too."""
    for record in records:
        if not all(type(name) is str and type(value) is bytes for name, value in record.headers.items()):
            raise TypeError(f"{where}: headers are bytes by text, not {dict(record.headers)!r:.200}")
    bodies = [record.value or b"" for record in records]
    heads = [b"".join((name.encode() + value) for name, value in record.headers.items()) for record in records]
    return check_batch(bodies, heads, [record.key for record in records], max_record_bytes, where)


def are_small(values: Sequence[bytes], max_record_bytes: int) -> bool:
    """Whether ``check_batch`` would certainly accept these few values, without headers and keys."""
    return (
        isinstance(values, list)
        and len(values) <= _FEW
        and all(type(value) is bytes and len(value) <= max_record_bytes for value in values)
    )


def record_sizes(
    values: Sequence[bytes], headers: Sequence[bytes] | None, keys: Sequence[bytes | None] | None
) -> NDArray[np.int64]:
    """Bytes of value, header and key of each record."""
    sizes = _lengths(values)
    if headers is not None:
        sizes += _lengths(headers)
    if keys is not None:
        sizes += np.fromiter((len(key) if key else 0 for key in keys), np.int64, len(values))
    return sizes


def _types(column: Sequence[Any] | None) -> set[type]:
    return set() if column is None or isinstance(column, BinaryColumn) else set(map(type, column))


def _lengths(column: Sequence[bytes]) -> NDArray[np.int64]:
    """A new array."""
    if isinstance(column, BinaryColumn):
        return column.ends - column.starts
    return np.fromiter(map(len, column), np.int64, len(column))


def out_of_range(where: str, offset: int, start: int, end: int) -> OffsetOutOfRange:
    """The error for an offset that is not retained or not there yet."""
    holds = f"holds offsets {start} to {end - 1}" if start < end else f"holds nothing and goes on at {end}"
    return OffsetOutOfRange(
        f"{where}: there is no offset {offset}; the partition {holds}. "
        f"Go on at {start} and count what is missing, or at {end}"
    )
