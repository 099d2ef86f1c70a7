"""State values with the version of the program that has written them, and how another version reads them.

A value of version 1 is as it always was. In front of any other one stand a byte that begins no MessagePack value, and
the version. So a state that no program with another version has touched keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from transactional.errors import USER_ERRORS
from transactional.state.values import BadValue, decode, travelling, travelling_as

FIRST_VERSION = 1
MOST_VERSION = 2**31 - 1
MARK = 0xC1
"""MessagePack never uses this byte."""
_VERSION_BYTES = 4
_HEAD_BYTES = 1 + _VERSION_BYTES

Upgrade: TypeAlias = Callable[[Any, int], Any]
"""From the plain value of an entity, and the version that has written it, to its value now."""


def version_head(version: int) -> bytes:
    """The bytes in front of values that this version writes."""
    return b"" if version == FIRST_VERSION else bytes([MARK]) + version.to_bytes(_VERSION_BYTES)


def parted(data: bytes) -> tuple[int, bytes]:
    """The version that has written a value, and the value as it is encoded. Raises ``BadValue``."""
    if data[:1] != bytes([MARK]):
        return FIRST_VERSION, data
    if len(data) <= _HEAD_BYTES:
        raise BadValue(f"{len(data)} bytes are no value with a version")
    return int.from_bytes(data[1:_HEAD_BYTES]), data[_HEAD_BYTES:]


def plain_value(data: bytes) -> Any:
    """As it was written, of whichever version. Raises ``BadValue``."""
    return decode(parted(data)[1])


def value_now(data: bytes, version: int, kind: Any, upgrade: Upgrade | None, limit_bytes: int | None = None) -> Any:
    """The value as a program of this version reads it; raises ``BadValue``.

    The result of ``upgrade`` is encoded and decoded again, so it is the same value before and after the next write.
    """
    written_by, payload = parted(data)
    if upgrade is None or written_by == version:
        return decode(payload, kind)
    try:
        value = upgrade(decode(payload), written_by)
    except USER_ERRORS as error:
        raise BadValue(f"its upgrade from version {written_by} raised {type(error).__name__}: {error}") from None
    try:
        return decode(travelling(value, limit_bytes) if kind is None else travelling_as(kind, value, limit_bytes), kind)
    except BadValue as error:
        raise BadValue(f"its upgrade from version {written_by} gave what {error}") from None
