"""Sets of numbers, and of numbers with a text: who sells, and who came.

As ``GSet``, which orders elements of any kind; of one kind each, Python's own sets and sorting do it.
"""

from __future__ import annotations

from collections.abc import Set
from itertools import pairwise
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from wcrdt import DecodeError, Lattice
from wcrdt.lattices.keyed.packing import narrow, widened

T = TypeVar("T")
V = TypeVar("V")


class _Members(Lattice[T, V], Generic[T, V]):
    """A set that only grows; its delta is what is new."""

    __slots__ = ("_members",)

    def __init__(self) -> None:
        self._members: set[T] = set()

    def bottom(self) -> Self:
        return type(self)()

    def merge(self, other: Self) -> bool:
        before = len(self._members)
        self._members |= other._members
        return len(self._members) > before

    def leq(self, other: Self) -> bool:
        return self._members <= other._members

    def insert(self, element: T, *, actor: int = 0) -> Self:
        self.check(element)
        return self._add({element})

    def _add(self, members: Set[T]) -> Self:
        delta = self.bottom()
        delta._members = set(members - self._members)
        self._members |= delta._members
        return delta


class Numbers(_Members[int, frozenset[int]]):
    """A set of 64-bit integers."""

    __slots__ = ()
    tag: ClassVar[str] = "nexmark-numbers"

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        if not (isinstance(elements, np.ndarray) and elements.dtype == np.int64):
            self.check_many(elements)
        return self._add(set(elements.tolist() if isinstance(elements, np.ndarray) else elements))

    def check(self, element: int) -> None:
        _check_number(element)

    @property
    def value(self) -> frozenset[int]:
        return frozenset(self._members)

    def to_wire(self) -> Any:
        return narrow(np.sort(np.fromiter(self._members, np.int64, len(self._members))))

    def from_wire(self, wire: Any) -> Self:
        fresh = self.bottom()
        try:
            numbers = widened(wire)
        except (TypeError, ValueError) as error:
            raise DecodeError(f"not a set of numbers: {error}") from error
        if not (numbers[1:] > numbers[:-1]).all():
            raise DecodeError("not a set of numbers: they do not ascend")
        fresh._members = set(numbers.tolist())
        return fresh


class Named(_Members[tuple[int, str], tuple[tuple[int, str], ...]]):
    """A set of pairs of a 64-bit integer and a text; the value is in their order."""

    __slots__ = ()
    tag: ClassVar[str] = "nexmark-named"

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """Pairs, or a column of numbers and one of texts."""
        if isinstance(elements, tuple):
            numbers, texts = np.asarray(elements[0]), list(elements[1])
            elements = list(zip(numbers.tolist(), texts, strict=True))
            if numbers.dtype == np.int64:
                _check_texts(texts)
                return self._add(set(elements))
        self.check_many(elements)
        return self._add(set(elements))

    def check(self, element: tuple[int, str]) -> None:
        number, text = element
        _check_number(number)
        if type(text) is not str:
            raise TypeError(f"a name is a text, not {text!r}")
        text.encode()  # lone surrogates are no text

    @property
    def value(self) -> tuple[tuple[int, str], ...]:
        return tuple(sorted(self._members))

    def to_wire(self) -> Any:
        members = sorted(self._members)
        return [narrow(np.array([number for number, _ in members], np.int64)), [text for _, text in members]]

    def from_wire(self, wire: Any) -> Self:
        fresh = self.bottom()
        try:
            numbers, texts = wire
            if type(texts) is not list:
                raise TypeError("the texts are a list")
            column = widened(numbers)
            members = list(zip(column.tolist(), texts, strict=True))
            _check_texts(texts)
            if not (column[1:] > column[:-1]).all() and any(one >= other for one, other in pairwise(members)):
                raise ValueError("the pairs do not ascend")
        except (TypeError, ValueError) as error:
            raise DecodeError(f"not a set of named numbers: {error}") from error
        fresh._members = set(members)
        return fresh


def _check_texts(texts: list[Any]) -> None:
    """As ``Named.check`` does for each, in one go."""
    if not set(map(type, texts)) <= {str}:
        raise TypeError("a name is a text")
    "".join(texts).encode()


def _check_number(element: Any) -> None:
    if type(element) is not int or not -(2**63) <= element < 2**63:
        raise TypeError(f"a number has 64 bits, unlike {element!r}")
