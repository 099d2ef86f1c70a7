"""How arguments, results, state and records are encoded: MessagePack, equal values in equal bytes.

A value is None, a bool, an int of 64 bits, a float, a str, bytes or a datetime with a zone. It may be a list of these,
or a dict of these by str. Tuples and dataclasses go in and lists and dicts come out; a typed state comes out as its
type. A value that would come out as another one is refused (``travelling``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from hashlib import blake2b
from itertools import chain, count
from typing import Any

import msgspec

DIGEST_BYTES = 8

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder()
pack = _encoder.encode
"""As ``encode``, with the library's errors: on the hot path, where ``encode`` then finds the reason."""
unpack = _decoder.decode
"""As ``decode``, with the library's errors."""
PACK_ERRORS = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_TYPED: dict[Any, msgspec.msgpack.Decoder[Any]] = {}
_IN_JSON = frozenset({type(None), bool, int, float, str, list, dict})
_PLAIN = _IN_JSON | {bytes}
_MOST_PARTS = 10_000
MAX_NESTING = 500
"""Lists and objects in each other, of a value. Python's own limit counts what else runs, so nodes would differ."""
TOO_DEEP = f"lists and objects are nested more than {MAX_NESTING} deep"
_SHOWN = 60
_SCALARS = frozenset({type(None), bool, int, float, str, bytes})


class BadValue(ValueError):
    """The value cannot be encoded or is too large, or the bytes are none of the expected type."""


class ValueMisfit(BadValue):
    """A part of the value cannot travel, or would come out as another value; the message begins with its place."""


def encode(value: Any, limit_bytes: int | None = None) -> bytes:
    """Canonical bytes; raises ``BadValue`` with the reason."""
    try:
        data = _encoder.encode(value)
    except PACK_ERRORS as error:
        raise BadValue(f"cannot be stored or sent: {error}") from None
    if limit_bytes is not None and len(data) > limit_bytes:
        raise BadValue(f"has {len(data)} bytes, and {limit_bytes} are allowed")
    return data


def decode(data: bytes, kind: Any = None) -> Any:
    """A fresh value; of type ``kind`` if one is given. Raises ``BadValue``."""
    decoder = _decoder if kind is None else _TYPED.get(kind)
    if decoder is None:
        decoder = _TYPED[kind] = msgspec.msgpack.Decoder(kind)
    try:
        return decoder.decode(data)
    except RecursionError:
        raise BadValue(TOO_DEEP) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadValue(f"bytes are no {getattr(kind, '__name__', 'value')}: {error}") from None


def is_text(text: str) -> bool:
    """Whether it can be encoded: lone surrogates cannot."""
    try:
        return text.encode() is not None
    except UnicodeEncodeError:
        return False


def digest(data: bytes) -> bytes:
    """A short name for bytes."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


def is_plain(value: Any) -> bool:
    """Of what can be encoded: whether it comes back as it is, by the exact types of all its parts.

    False: ``misfit`` has to check further. Texts, numbers and keys that cannot be encoded are found when they are.
    """
    kind = type(value)
    if kind in _SCALARS or (kind is list and _SCALARS.issuperset(map(type, value))):
        return True  # what most are
    return _has_parts_of(_PLAIN, value)


def is_plain_json(value: Any) -> bool:
    """As ``is_plain``, where JSON keeps it too."""
    return _has_parts_of(_IN_JSON, value)


def _has_parts_of(kinds: frozenset[type], value: Any) -> bool:
    level = [value]
    for _ in range(MAX_NESTING + 1):
        if not level:
            return True
        found = set(map(type, level))
        if not found <= kinds:
            return False
        if kinds is _IN_JSON and float in found and not all(map(math.isfinite, filter(_is_float, level))):
            return False
        lower: list[Any] = []
        if list in found:
            lower += chain.from_iterable([part for part in level if type(part) is list])
        if dict in found:
            lower += chain.from_iterable([part.values() for part in level if type(part) is dict])
        level = lower
    return not level


def is_too_deep(value: Any) -> bool:
    """Whether a decoded value is nested more than ``MAX_NESTING`` deep."""
    level = [value]
    for _ in range(MAX_NESTING + 1):
        level = [part for whole in level if isinstance(whole, dict | list) for _, part in _parts("", whole)]
        if not level:
            return False
    return True


def _is_float(part: Any) -> bool:
    return type(part) is float


def misfit(value: Any, most: int | None = None) -> str | None:
    """The first part of a value that cannot travel, and why: ``items[2].price: ...``; None: all of it comes back.

    ``most``: check so many parts, of a value that may hold itself.
    """
    return next(_misfits(value, most), None)


def travelling(value: Any, limit_bytes: int | None = None) -> bytes:
    """As ``encode``; raises ``ValueMisfit`` where a part of the value cannot travel, or would come out as another."""
    try:
        data = _encoder.encode(value)
    except PACK_ERRORS as error:
        why = TOO_DEEP if isinstance(error, RecursionError) else f"cannot be stored or sent: {error}"
        raise ValueMisfit(misfit(value, _MOST_PARTS) or why) from None
    if not is_plain(value) and (why := misfit(value)) is not None:
        raise ValueMisfit(why)
    if limit_bytes is not None and len(data) > limit_bytes:
        raise BadValue(f"has {len(data)} bytes, and {limit_bytes} are allowed")
    return data


def fits_json(value: Any) -> str | None:
    """The first part of a decoded value that JSON would turn into another one, and why; None: it keeps all of it."""
    left = [("", value)]
    while left:
        path, each = left.pop()
        if isinstance(each, float) and not math.isfinite(each):
            return f"{_at(path)}{each} cannot travel in JSON"
        if not (each is None or isinstance(each, (bool, int, float, str, list, dict))):
            return f"{_at(path)}{type(each).__name__} cannot travel in JSON"
        left += reversed(list(_parts(path, each)))
    return None


def _misfits(value: Any, most: int | None) -> Iterator[str]:
    left = [("", value, 0)]
    for _ in count() if most is None else range(most):
        if not left:
            return
        path, each, depth = left.pop()
        if depth > MAX_NESTING:
            yield f"{_at(path[:_SHOWN])}{TOO_DEEP}"
            return
        if type(each) in _SCALARS and not isinstance(each, (str, int)):
            continue
        for key in each if isinstance(each, dict) else ():
            if not (isinstance(key, str) and is_text(key)):
                yield f"{_at(path)}the key {repr(key)[:100]} is {type(key).__name__}, and keys are str of Unicode text"
        if not isinstance(each, dict | list | tuple | msgspec.Struct) and not is_dataclass(each):
            yield from _changes(path, each)
        else:
            left += reversed([(*part, depth + 1) for part in _parts(path, each)])


def travelling_as(kind: Any, value: Any, limit_bytes: int | None = None) -> bytes:
    """As ``travelling``, of what is decoded as ``kind``."""
    data = encode(value, limit_bytes)
    if not fits_type(value, data, kind):
        why = misfit(value) or "cannot travel"
        raise BadValue(f"{why}, and it would not be the same as {getattr(kind, '__name__', kind)}")
    return data


def fits_type(value: Any, data: bytes, kind: Any) -> bool:
    """Whether ``data``, the encoded value, is the same value again when it is decoded as ``kind``."""
    if type(value) is kind and isinstance(value, msgspec.Struct) and all(map(is_plain, msgspec.structs.astuple(value))):
        return True
    try:
        back = decode(data, kind)
    except BadValue:
        return False
    return back == value or _is_same(back, value)


def _is_same(one: Any, other: Any) -> bool:
    """Part by part: lists for tuples are fine, and so is what knows no ``==``."""
    parts, others = list(_parts("", one)), list(_parts("", other))
    if parts or others:
        return len(parts) == len(others) and all(
            path == there and _is_same(part, part_there)
            for (path, part), (there, part_there) in zip(parts, others, strict=True)
        )
    return bool(one == other or (one != one and other != other))


def _changes(path: str, leaf: Any) -> Iterator[str]:
    try:
        back = unpack(pack(leaf))
    except PACK_ERRORS as error:
        yield f"{_at(path)}{type(leaf).__name__} cannot travel, it cannot be stored or sent: {error}"
        return
    if type(back) is not type(leaf) and not (isinstance(leaf, str | int | float | bytes | bytearray) and back == leaf):
        yield f"{_at(path)}{type(leaf).__name__} cannot travel, it would come back as {type(back).__name__}"


def _parts(path: str, whole: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(whole, dict):
        return [(f"{path}.{key}" if path else str(key), part) for key, part in whole.items()]
    if isinstance(whole, list | tuple):
        return [(f"{path}[{index}]", part) for index, part in enumerate(whole)]
    if isinstance(whole, msgspec.Struct):
        fields = [(name, getattr(whole, name)) for name in whole.__struct_fields__]
    elif is_dataclass(whole):
        fields = [(name, getattr(whole, name)) for name in whole.__dataclass_fields__ if hasattr(whole, name)]
    else:
        return []
    return [(f"{path}.{name}" if path else name, part) for name, part in fields if part is not msgspec.UNSET]


def _at(path: str) -> str:
    return f"{path}: " if path else ""
