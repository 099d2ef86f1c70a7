"""Bytes of lattice values: MessagePack of ``[format_version, tag, shape, wire]``, one encoding for each value.

Equal values have equal bytes, so replicas compare by digest. The decoder takes bytes from outside: it raises
``DecodeError`` with a reason and accepts nothing that the encoder could not have written.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from wcrdt.elements import EXACT, MAX_DECIMAL_EXPONENT, MAX_NESTING, Element
from wcrdt.lattice import Lattice, type_of_wire

FORMAT_VERSION = 1
"""Raised when the meaning of encoded values changes; a decoder reads its own version."""

L = TypeVar("L", bound=Lattice[Any, Any])

_TUPLE, _BIG_INT, _DECIMAL, _BOOL, _FLOAT = range(5)
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1  # what MessagePack holds natively

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder()


class DecodeError(ValueError):
    """The bytes are not an encoded value of the expected type and shape; the message gives the reason."""


def encode(lattice: Lattice[Any, Any]) -> bytes:
    """Canonical bytes of a value, with its type and shape."""
    return _encoder.encode([FORMAT_VERSION, lattice.tag, lattice.shape(), lattice.to_wire()])


canonical_bytes = encode
"""The same bytes; the name for comparing and hashing values."""


def decode(data: bytes | bytearray | memoryview, like: L) -> L:
    """The value in ``data``, which must have the type and shape of ``like``.

    Raises:
        DecodeError: truncated or foreign bytes, another type or shape, a newer format, or not canonical.
    """
    try:
        envelope = _decoder.decode(data)
        canonical = _encoder.encode(envelope) == data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, TypeError) as error:
        raise DecodeError(f"not a {like.tag} value: {error}") from None
    if type(envelope) is not list or not envelope or type(envelope[0]) is not int:
        raise DecodeError(f"not a {like.tag} value: the bytes do not start with a format version")
    if envelope[0] != FORMAT_VERSION:
        age = "newer" if envelope[0] > FORMAT_VERSION else "unknown"
        raise DecodeError(f"format version {envelope[0]} is {age}: this version of wcrdt reads {FORMAT_VERSION}")
    if len(envelope) != 4 or not canonical:
        raise DecodeError(f"not a {like.tag} value: not in canonical form")
    _, tag, shape, wire = envelope
    if tag != like.tag:
        raise DecodeError(f"expected a {like.tag} value, found {tag!r}")
    if _encoder.encode(shape) != _encoder.encode(like.shape()):
        raise DecodeError(f"expected a {like.tag} of shape {like.shape()!r}, found shape {shape!r}")
    try:
        return like.from_wire(wire)
    except DecodeError:
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        raise DecodeError(f"not a {like.tag} value: {error}") from error


def element_to_wire(x: Element) -> type_of_wire:
    """A plain element as wire: None, text, bytes and 64-bit ints as they are, all else as ``[kind, ...]``.

    Bools and floats are wrapped, so that wires that are equal to Python are equal: ``[1] == [True]`` otherwise.
    """
    kind = type(x)
    if kind is int:
        return x if _INT_MIN <= x <= _INT_MAX else [_BIG_INT, _int_bytes(x)]
    if kind is str or kind is bytes or x is None:
        return x
    if kind is tuple:
        return [_TUPLE, *map(element_to_wire, x)]
    if kind is bool:
        return [_BOOL, int(x)]
    if kind is float:
        return [_FLOAT, x]
    exponent = int(x.as_tuple().exponent)
    return [_DECIMAL, exponent, element_to_wire(int(x.scaleb(-exponent, EXACT)))]


def encode_element(x: Element) -> bytes:
    """Canonical bytes of one plain element."""
    return _encoder.encode(element_to_wire(x))


def decode_element(data: bytes) -> Element:
    """Inverse of ``encode_element``; raises ``DecodeError``."""
    try:
        return element_from_wire(_decoder.decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, TypeError) as error:
        raise DecodeError(f"not an element: {error}") from None


def _int_bytes(x: int) -> bytes:
    """Two's complement, big-endian, as short as possible."""
    return x.to_bytes((x.bit_length() + 8) // 8 if x >= 0 else ((x + 1).bit_length() + 8) // 8, "big", signed=True)


def element_from_wire(wire: type_of_wire, depth: int = 0) -> Element:
    """Inverse of ``element_to_wire``; raises ``DecodeError`` on any other wire."""
    kind = type(wire)
    if kind is int or kind is str or kind is bytes or wire is None:
        return wire
    require(kind is list and len(wire) > 0 and type(wire[0]) is int, "an element is neither a scalar nor a tagged list")
    if wire[0] == _TUPLE:
        require(depth < MAX_NESTING, f"tuples nested deeper than {MAX_NESTING} levels")
        return tuple(element_from_wire(part, depth + 1) for part in wire[1:])
    if wire[0] == _DECIMAL:
        require(len(wire) == 3, "a Decimal needs an exponent and an int")
        return _decimal_from(wire[1], wire[2])
    require(len(wire) == 2, "a tagged element has one part")
    return _tagged_from(wire[0], wire[1])


def _tagged_from(tag: int, body: Any) -> Element:
    if tag == _BIG_INT:
        require(type(body) is bytes, "a big int is bytes")
        number = int.from_bytes(body, "big", signed=True)
        fits = _INT_MIN <= number <= _INT_MAX
        require(not fits and _int_bytes(number) == body, "a big int is not in its shortest form")
        return number
    if tag == _BOOL:
        require(type(body) is int and body in (0, 1), "a bool is 0 or 1")
        return bool(body)
    require(tag == _FLOAT and type(body) is float and body == body, "an element is of unknown kind, or a NaN")
    require(body != 0.0 or str(body) == "0.0", "a float is minus zero")
    return body


def _decimal_from(exponent: Any, wire: Any) -> Decimal:
    require(type(exponent) is int and abs(exponent) <= MAX_DECIMAL_EXPONENT, "a Decimal's exponent is out of range")
    unscaled = int_from_wire(wire)
    require(unscaled % 10 != 0 or (unscaled == 0 and exponent == 0), "a Decimal is not normalised")
    if unscaled == 0:
        return Decimal(0)
    return Decimal(unscaled).scaleb(exponent, EXACT)


def int_from_wire(wire: type_of_wire) -> int:
    """An int of any size from wire."""
    number = element_from_wire(wire)
    require(type(number) is int, "an int was expected")
    return number


def index_from_wire(wire: type_of_wire) -> int:
    """An int of 64 bits that is written as it is: an actor, a counter, a position."""
    require(type(wire) is int, "an int was expected")
    return wire


def number_from_wire(wire: type_of_wire) -> int | Decimal:
    """An exact number in the form of ``wcrdt.elements.exact_number``: an int, or a Decimal that is not whole."""
    number = element_from_wire(wire)
    require(type(number) is int or type(number) is Decimal, "an exact number was expected")
    if type(number) is Decimal:
        require(int(number.as_tuple().exponent) < 0, "a whole number is written as an int")
    return number


def rows_from_wire(wire: type_of_wire, width: int) -> list[Any]:
    """A list of lists of ``width`` entries, or ``DecodeError``."""
    require(type(wire) is list, "a list was expected")
    for row in wire:
        require(type(row) is list and len(row) == width, f"rows of {width} entries were expected")
    return wire


def require(condition: bool, reason: str) -> None:
    """Raise ``DecodeError`` with this reason unless the condition holds."""
    if not condition:
        raise DecodeError(reason)
