"""Reservations: for each key the lowest TID that writes it. A lattice: the join takes the lower one.

Source: Aria's reservation table, as Styx uses it (section 6.1). Deviation: it is part of the epoch's window, so two
owners of a partition may both make it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from transactional.execution import Execution
from transactional.operators import StateKey
from transactional.store import with_prefix
from wcrdt.codec import require, rows_from_wire
from wcrdt.lattice import Lattice, type_of_wire

_TID_END = 2**63


class Reservations(Lattice[tuple[StateKey, int], dict[StateKey, int]]):
    """(operator, key) -> lowest TID. Elements are ``((operator, key), tid)``."""

    __slots__ = ("_lowest",)

    tag = "reservations"

    def __init__(self) -> None:
        self._lowest: dict[StateKey, int] = {}

    def bottom(self) -> Self:
        return type(self)()

    def merge(self, other: Self) -> bool:
        changed = False
        for key, tid in other._lowest.items():
            changed |= self._reserve(key, tid)
        return changed

    def leq(self, other: Self) -> bool:
        return all(other._lowest.get(key, _TID_END) <= tid for key, tid in self._lowest.items())

    def check(self, element: tuple[StateKey, int]) -> None:
        (operator, key), tid = element
        if not (type(operator) is str and type(key) is str and type(tid) is int and 0 <= tid < _TID_END):
            raise TypeError(f"a reservation is ((operator, key), TID), not {element!r}")
        (operator + key).encode()

    def insert(self, element: tuple[StateKey, int], *, actor: int = 0) -> Self:
        self.check(element)
        (operator, key), tid = element
        delta = self.bottom()
        if self._reserve((operator, key), tid):
            delta._lowest[operator, key] = tid
        return delta

    def reserve_all(self, tid: int, keys: Iterable[StateKey]) -> None:
        """Reserve what a transaction writes, without a delta."""
        lowest = self._lowest
        for key in keys:
            if tid < lowest.get(key, _TID_END):
                lowest[key] = tid

    @property
    def value(self) -> dict[StateKey, int]:
        return dict(self._lowest)

    def to_wire(self) -> type_of_wire:
        return [[operator, key, self._lowest[operator, key]] for operator, key in sorted(self._lowest)]

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        last: tuple[str, str] | None = None
        for operator, key, tid in rows_from_wire(wire, 3):
            require(type(operator) is str and type(key) is str, "a reservation is for an operator's key")
            require(type(tid) is int and 0 <= tid < _TID_END, "a TID is a 63-bit number")
            require(last is None or last < (operator, key), "reservations are not in order")
            last = operator, key
            fresh._lowest[operator, key] = tid
        return fresh

    def _reserve(self, key: StateKey, tid: int) -> bool:
        lower = tid < self._lowest.get(key, _TID_END)
        if lower:
            self._lowest[key] = tid
        return lower

    def conflicts(self, tid: int, keys: Iterable[StateKey]) -> bool:
        """Whether a lower TID writes one of the keys."""
        lowest = self._lowest
        return any(lowest.get(key, tid) < tid for key in keys)


def conflicting(executions: Sequence[Execution], dropped: frozenset[int]) -> list[int]:
    """TIDs of those who read what a lower TID writes, of one partition in one epoch; ``executions`` ascend by TID.

    Two that write the same key and have not read it are no conflict: writes are kept in TID order. (Deviation from Aria
    and Styx, which let the lower one win.)
    ``dropped``: transactions that are known to have failed, whose writes nobody will see; what they read still counts.
    """
    if any(execution.scans for execution in executions):
        return _conflicting_with_scans(executions, dropped)
    found = []
    written: set[StateKey] = set()  # by lower TIDs: all that the table would tell
    for execution in executions:
        if not written.isdisjoint(execution.reads):
            found.append(execution.tid)
        if execution.tid not in dropped:
            written.update(execution.writes)
    return found


def _conflicting_with_scans(executions: Sequence[Execution], dropped: frozenset[int]) -> list[int]:
    reserved = Reservations()
    for execution in executions:
        if execution.tid not in dropped:
            reserved.reserve_all(execution.tid, execution.writes)
    ordered = _written(reserved.value)
    found = []
    for execution in executions:
        tid = execution.tid
        scanned = (_scan_conflicts(reserved, ordered, tid, scan) for scan in execution.scans)
        if reserved.conflicts(tid, execution.reads) or any(scanned):
            found.append(tid)
    return found


def _written(reserved: Mapping[StateKey, int]) -> dict[str, list[str]]:
    """Reserved keys of each operator, in order."""
    ordered: dict[str, list[str]] = {}
    for operator, key in sorted(reserved):
        ordered.setdefault(operator, []).append(key)
    return ordered


def _scan_conflicts(reserved: Reservations, ordered: dict[str, list[str]], tid: int, scan: tuple[str, str]) -> bool:
    operator, prefix = scan
    keys: list[Any] = with_prefix(ordered.get(operator, []), prefix)
    return reserved.conflicts(tid, ((operator, key) for key in keys))
