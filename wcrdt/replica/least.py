"""The least of many values that only grow, without reading all of them after every change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T", int, tuple[int, int])


class Least(Generic[T]):
    """Counts the values at the least one: only when the last of them has left is it searched again.

    With n values that take turns this costs a constant for each change, where a search costs n.
    """

    __slots__ = ("_count", "_value")

    def __init__(self) -> None:
        self._value: T | None = None
        self._count = 0

    def of(self, values: Iterable[T]) -> T:
        """The least; ``values`` are those that the changes have led to, at least one."""
        if self._value is None:
            found = list(values)
            self._value = min(found)
            self._count = found.count(self._value)
        return self._value

    def moved(self, before: T, after: T) -> None:
        """One value has changed. One that went back makes it forget what it knew."""
        if self._value is None or after == before:
            return
        if after < before:
            self._value = None
        elif before == self._value:
            self._count -= 1
            if self._count == 0:
                self._value = None
