"""Handles while elements are gathered: one insert after the other at the cost of a check and of a place in a list.

Whatever is unusual about an insert goes to ``Scope.insert``, which knows all the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import contains, ge
from typing import Any, TypeVar

from holon.program.access import PartitionAccess
from holon.program.handles import WindowedHandle
from holon.program.insert_buffer import GatheredPairs, GatheredRows, is_lasting
from holon.time.units import MAX_TS_MS
from wcrdt.lattice import Lattice
from wcrdt.lattices.exact_sums.decimals import is_small
from wcrdt.lattices.maps import KeyedMap
from wcrdt.lattices.records import PairOf, Product, RecordOf
from wcrdt.windows.assigners import Assigner, GlobalWindow, Sliding, Tumbling
from wcrdt.windows.held_longer import HeldLonger

E = TypeVar("E")
V = TypeVar("V")

_KEYS = frozenset({int, str})
"""Keys that are their own identities, and equal no other ones."""
_LASTING = (Tumbling, Sliding, GlobalWindow)
"""Assigners whose windows end after each event that they take."""


def is_key(key: Any) -> bool:
    """Whether this is a text or an int, or a tuple of these: such keys are their own identities."""
    return type(key) in _KEYS or (type(key) is tuple and _KEYS.issuperset(map(type, key)))


class GatheredHandle(WindowedHandle[E, V]):
    """The handle of a state of any elements: a check, and the end of two lists.

    ``inner``: of a map whose keys are gathered by their numbers the lattice by key, else ``bottom`` itself.
    """

    __slots__ = ("_add", "_append_time", "_check")

    def __init__(
        self, scope: PartitionAccess, name: str, bottom: Lattice[Any, Any], inner: Lattice[Any, Any], rows: Any
    ) -> None:
        super().__init__(scope, name)
        self._check, self._add, self._append_time = bottom.check, rows.append, rows.times.append

    def insert(self, element: E, ts_ms: int) -> bool:
        if type(ts_ms) is int and self._scope.open_from_ms <= ts_ms < MAX_TS_MS and is_lasting(element):
            self._check(element)
            self._add(element)
            self._append_time(ts_ms)
            return True
        return self._scope.insert(self.name, element, ts_ms)


class NumberHandle(GatheredHandle[E, V]):
    """The handle of a state of numbers: most inserts are two comparisons, and end in two lists."""

    __slots__ = ("_append", "_kinds", "_least")

    def __init__(self, scope: PartitionAccess, name: str, bottom: Lattice[Any, Any], inner: Any, rows: Any) -> None:
        super().__init__(scope, name, bottom, inner, rows)
        self._kinds, self._least, self._append = inner.kinds, inner.least, rows.elements.append

    def insert(self, element: E, ts_ms: int) -> bool:
        if (
            type(element) in self._kinds
            and element >= self._least  # type: ignore[operator]  # NaN is not
            and type(ts_ms) is int
            and self._scope.open_from_ms <= ts_ms < MAX_TS_MS
        ):
            self._append(element)
            self._append_time(ts_ms)
            return True
        return super().insert(element, ts_ms)


class NumbersByKeyHandle(NumberHandle[E, V]):
    """The same for a map from texts or ints to numbers."""

    __slots__ = ("_append_code", "_numbers")

    def __init__(self, scope: PartitionAccess, name: str, bottom: Lattice[Any, Any], inner: Any, rows: Any) -> None:
        super().__init__(scope, name, bottom, inner, rows)
        self._append_code, self._numbers = rows.codes.append, rows.numbers

    def insert(self, element: E, ts_ms: int) -> bool:
        if (
            type(element) is tuple
            and len(element) == 2
            and type(element[1]) in self._kinds
            and element[1] >= self._least
            and (type(element[0]) in _KEYS or is_key(element[0]))
            and type(ts_ms) is int
            and self._scope.open_from_ms <= ts_ms < MAX_TS_MS
        ):
            self._append_code(self._numbers[element[0]])  # first, since it refuses a text without bytes
            self._append(element[1])
            self._append_time(ts_ms)
            return True
        return GatheredHandle.insert(self, element, ts_ms)


def numbers_check(parts: Sequence[Lattice[Any, Any]]) -> Callable[[Any], bool]:
    """Whether an element is a tuple of numbers, of which each part takes its own without a ``check``.

    Records of two and three parts have code of their own: a loop takes twice as long.
    """
    kinds, least = [part.kinds for part in parts], [part.least for part in parts]
    if len(parts) == 2:
        are_numbers = _pair_check(kinds, least)
    elif len(parts) == 3:
        are_numbers = _triple_check(kinds, least)
    else:
        are_numbers = _record_check(kinds, least)
    return _or_decimals(parts, are_numbers) if any(part.decimals for part in parts) else are_numbers


def _or_decimals(parts: Sequence[Lattice[Any, Any]], are_numbers: Callable[[Any], bool]) -> Callable[[Any], bool]:
    rules = [(part.kinds, part.least, part.decimals) for part in parts]

    def are_taken(record: Any) -> bool:
        if are_numbers(record):
            return True
        if type(record) is not tuple or len(record) != len(rules):
            return False
        for number, (kinds, least, decimals) in zip(record, rules, strict=True):
            if decimals and type(number) is Decimal:
                if not is_small(number):
                    return False
            elif type(number) not in kinds or not number >= least:  # NaN is not
                return False
        return True

    return are_taken


def _record_check(all_kinds: Sequence[frozenset[type]], all_least: Sequence[float]) -> Callable[[Any], bool]:
    def are_numbers(record: Any) -> bool:
        if type(record) is not tuple or len(record) != len(all_kinds):
            return False
        return all(map(contains, all_kinds, map(type, record))) and all(map(ge, record, all_least))  # NaN is not

    return are_numbers


def _pair_check(all_kinds: Sequence[frozenset[type]], all_least: Sequence[float]) -> Callable[[Any], bool]:
    (kinds, kinds_2), (least, least_2) = all_kinds, all_least

    def are_numbers(record: Any) -> bool:
        if type(record) is not tuple or len(record) != 2:
            return False
        a, b = record
        return type(a) in kinds and type(b) in kinds_2 and a >= least and b >= least_2

    return are_numbers


def _triple_check(all_kinds: Sequence[frozenset[type]], all_least: Sequence[float]) -> Callable[[Any], bool]:
    (kinds, kinds_2, kinds_3), (least, least_2, least_3) = all_kinds, all_least

    def are_numbers(record: Any) -> bool:
        if type(record) is not tuple or len(record) != 3:
            return False
        a, b, c = record
        if type(a) not in kinds or type(b) not in kinds_2 or type(c) not in kinds_3:
            return False
        return a >= least and b >= least_2 and c >= least_3

    return are_numbers


class RecordHandle(GatheredHandle[E, V]):
    """The handle of a record of numbers, which is a tuple of as many."""

    __slots__ = ("_append", "_are_numbers")

    def __init__(self, scope: PartitionAccess, name: str, bottom: Lattice[Any, Any], inner: Any, rows: Any) -> None:
        super().__init__(scope, name, bottom, inner, rows)
        self._are_numbers, self._append = numbers_check(inner.parts), rows.elements.append

    def insert(self, element: E, ts_ms: int) -> bool:
        if self._are_numbers(element) and type(ts_ms) is int and self._scope.open_from_ms <= ts_ms < MAX_TS_MS:
            self._append(element)
            self._append_time(ts_ms)
            return True
        return super().insert(element, ts_ms)


class RecordsByKeyHandle(RecordHandle[E, V]):
    """The same for a map from keys to records of numbers."""

    __slots__ = ("_append_code", "_numbers")

    def __init__(self, scope: PartitionAccess, name: str, bottom: Lattice[Any, Any], inner: Any, rows: Any) -> None:
        super().__init__(scope, name, bottom, inner, rows)
        self._append_code, self._numbers = rows.codes.append, rows.numbers

    def insert(self, element: E, ts_ms: int) -> bool:
        if (
            type(element) is tuple
            and len(element) == 2
            and self._are_numbers(element[1])
            and (type(element[0]) in _KEYS or is_key(element[0]))
            and type(ts_ms) is int
            and self._scope.open_from_ms <= ts_ms < MAX_TS_MS
        ):
            self._append_code(self._numbers[element[0]])  # first, since it refuses a text without bytes
            self._append(element[1])
            self._append_time(ts_ms)
            return True
        return GatheredHandle.insert(self, element, ts_ms)


def windowed_handle(
    scope: PartitionAccess, name: str, bottom: Lattice[Any, Any], windows: Assigner, rows: GatheredRows | None
) -> WindowedHandle[Any, Any]:
    """The quickest handle of a state, of which ``rows`` gathers elements (None: nothing does)."""
    of_times = windows.windows if isinstance(windows, HeldLonger) else windows
    if rows is None or type(of_times) not in _LASTING:
        return WindowedHandle[Any, Any](scope, name).of_windows(windows)
    by_key = isinstance(rows, GatheredPairs)
    inner = bottom.inner if by_key and isinstance(bottom, KeyedMap) else bottom
    if isinstance(inner, Product) and type(inner) in (RecordOf, PairOf) and all(part.kinds for part in inner.parts):
        kind: type[GatheredHandle[Any, Any]] = RecordsByKeyHandle if by_key else RecordHandle
    elif inner.kinds:
        kind = NumbersByKeyHandle if by_key else NumberHandle
    else:
        kind = GatheredHandle
    return kind(scope, name, bottom, inner, rows).of_windows(windows)
