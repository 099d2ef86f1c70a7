"""Elements that may be inserted into a lattice: plain values with one exact order and one exact equality.

An element is None, a bool, an int of any size, a float that is no NaN, a str, bytes, a finite Decimal, or a tuple of
these. Equality is that of the canonical bytes, not Python's: ``1``, ``1.0``, ``True`` and ``Decimal(1)`` are four
elements. Two rules: nothing here depends on the ambient decimal context, and nothing here is a lattice.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from typing import Any, TypeAlias

import numpy as np

Element: TypeAlias = Any
"""None | bool | int | float | str | bytes | Decimal | tuple of these (a recursive alias that users need not write)."""

MAX_NESTING = 16
"""Tuples in tuples, at most; the decoder has the same limit."""

MAX_DECIMAL_EXPONENT = 6144
"""Of a normalised Decimal, both signs (that of decimal128), so that exact sums cannot need gigabytes."""

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact, InvalidOperation])
"""Arithmetic that never rounds."""

INTS, NUMBERS = frozenset({int}), frozenset({int, float})
"""Types of elements that a column of NumPy holds as they are."""

_ACCEPTED = "None, bool, int, float, str, bytes, Decimal or a tuple of these"
_PLAIN_TYPES = frozenset({int, bytes, bool, type(None)})
_SELF_IDENTICAL = frozenset({int, str, bytes, type(None)})


def plain(x: Any, depth: int = 0) -> Element:
    """The element in its one form: numpy scalars and subclasses become plain, ``-0.0`` is ``0.0``, ``1.50`` is ``1.5``.

    Raises:
        TypeError: not one of the accepted types.
        ValueError: a NaN, an infinite or far too large Decimal, text that is not Unicode, or too deep a tuple.
    """
    kind = type(x)
    if kind in _PLAIN_TYPES:
        return x
    if kind is str:
        return x if x.isascii() else _unicode(x)
    if isinstance(x, tuple):
        if depth == MAX_NESTING:
            raise ValueError(f"a tuple is nested deeper than {MAX_NESTING} levels; flatten it")
        return tuple(plain(part, depth + 1) for part in x)
    if isinstance(x, float):
        return _float(x)
    if isinstance(x, Decimal):
        return _decimal(x)
    return _from_kin(x)


def _from_kin(x: Any) -> Element:
    """Subclasses and numpy scalars."""
    if isinstance(x, np.bool_):
        return bool(x)
    if isinstance(x, (int, np.integer)) and not isinstance(x, np.timedelta64):
        return int(x)
    if isinstance(x, np.floating) and x.dtype.itemsize <= 8:
        return _float(x)
    if isinstance(x, str):
        return _unicode(str.__str__(x))
    if isinstance(x, bytes):
        return b"".join((x, b""))
    raise TypeError(f"{type(x).__name__} cannot be an element of a lattice; use {_ACCEPTED}")


def _unicode(x: str) -> str:
    try:
        x.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"text with a lone surrogate at position {error.start} has no bytes; use bytes") from None
    return x


def _float(x: Any) -> float:
    number = float(x)
    if number != number:
        raise ValueError("NaN has no place in an order and cannot be an element; filter it out before")
    return number + 0.0  # -0.0 becomes 0.0


def _decimal(x: Decimal) -> Decimal:
    if not x.is_finite():
        raise ValueError(f"{x} cannot be an element: only finite Decimals have exact sums and bytes")
    if not x:
        return Decimal(0)
    normal = Decimal(x.normalize(EXACT))
    exponent = normal.as_tuple().exponent
    if not isinstance(exponent, int) or abs(exponent) > MAX_DECIMAL_EXPONENT:
        raise ValueError(f"a Decimal with the exponent {exponent} is beyond the limit of {MAX_DECIMAL_EXPONENT}")
    return normal


def exact_number(x: Any) -> int | Decimal:
    """An exact number in its one form: whole Decimals become ints, so that ``1`` and ``Decimal("1.0")`` are equal.

    Raises:
        TypeError: a bool, a float (``wcrdt.lattices.exact_sums.float_sums`` adds those) or no number at all.
        ValueError: a Decimal that is not finite or too large.
    """
    if type(x) is int:
        return x
    if isinstance(x, Decimal):
        return _whole_as_int(_decimal(x))
    if isinstance(x, (int, np.integer)) and not isinstance(x, (bool, np.timedelta64)):
        return int(x)
    raise TypeError(
        f"an exact number is an int or a Decimal (sums and averages take floats, too), not {type(x).__name__}"
    )


def exact_add(a: int | Decimal, b: int | Decimal) -> int | Decimal:
    """The sum without rounding, in its one form."""
    if type(a) is int and type(b) is int:
        return a + b
    return _whole_as_int(EXACT.add(Decimal(a), Decimal(b)).normalize(EXACT))


def _whole_as_int(normal: Decimal) -> int | Decimal:
    return normal if int(normal.as_tuple().exponent) < 0 else int(normal)


class Distinct:
    """A dictionary key for an element that Python would take for another one (``True`` and ``1``)."""

    __slots__ = ("_hash", "_key", "element")

    def __init__(self, key: tuple[Any, ...], element: Element) -> None:
        self._key = key
        self._hash = hash(key)
        self.element = element

    def __eq__(self, other: object) -> bool:
        return type(other) is Distinct and self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Distinct({self.element!r})"


def identity(x: Element) -> Hashable:
    """A key under which only equal elements meet; ``x`` is plain. Ints, text, bytes and their tuples are their own."""
    kind = type(x)
    if kind in _SELF_IDENTICAL:
        return x
    if kind is tuple:
        parts = tuple(identity(part) for part in x)
        if all(part is original for part, original in zip(parts, x, strict=True)):
            return x
        return Distinct(("tuple", parts), x)
    return Distinct((kind.__name__, x), x)


def element_of(key: Hashable) -> Element:
    """The element that ``identity`` was given."""
    return key.element if type(key) is Distinct else key


_RANKS: dict[type, int] = {bool: 1, int: 2, float: 2, Decimal: 2, str: 3, bytes: 4, tuple: 5}
_NUMBER_RANKS: dict[type, int] = {int: 0, float: 1, Decimal: 2}


def order_key(x: Element) -> tuple[Any, ...]:
    """Sort key of the one total order: None, bools, numbers by exact value, text by code points, bytes, tuples.

    Equal numbers of different types follow each other as int, float, Decimal; tuples compare part by part.
    """
    kind = type(x)
    if x is None:
        return (0,)
    if kind is tuple:
        return (5, tuple(order_key(part) for part in x))
    if kind in _NUMBER_RANKS:
        return (2, x, _NUMBER_RANKS[kind])
    return (_RANKS[kind], x)


def precedes(a: Element, b: Element) -> bool:
    """True if ``a`` comes strictly before ``b`` in the order of ``order_key``."""
    kind = type(a)
    if kind is type(b) and kind is not tuple and a is not None:
        return a < b
    return order_key(a) < order_key(b)


def ordered(keys: Iterable[Hashable]) -> list[Any]:
    """Identities in the order of their elements; the only way in which sets and maps are read."""
    found: list[Any] = list(keys)
    kinds = set(map(type, found))
    if len(kinds) <= 1 and kinds <= {int, str, bytes}:
        found.sort()
        return found
    found.sort(key=_order_of)
    return found


def _order_of(key: Hashable) -> tuple[Any, ...]:
    return order_key(element_of(key))
