"""How arguments, results, state and records are encoded: MessagePack, equal values in equal bytes.

A value is None, a bool, an int of 64 bits, a float, a str, bytes, or a list or dict of these. Tuples and dataclasses go
in and lists and dicts come out; a typed state comes out as its type.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

DIGEST_BYTES = 8

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder()
pack = _encoder.encode
"""As ``encode``, with the library's errors: on the hot path, where ``encode`` is asked for the reason."""
unpack = _decoder.decode
"""As ``decode``, with the library's errors."""
PACK_ERRORS = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_TYPED: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


class BadValue(ValueError):
    """The value cannot be encoded or is too large, or the bytes are none of the expected type."""


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
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
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
