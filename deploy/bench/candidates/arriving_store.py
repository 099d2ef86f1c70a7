"""The rows of a partition in candidate (a): some are with their former homes still, and are requested from there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from transactional.epochs.messages import Request, WireCall, WireResult
from transactional.layout_history import Change
from transactional.operators import StateKey, Target
from transactional.state.store import Store

NO_TRANSACTION = -1
"""In the place of a TID: requests for rows, and rows, come before the calls of all transactions."""
REQUEST, ROW, NO_ROW, GROUP_END = "request", "row", "no row", "group end"
SCANS = frozenset({"scan"})
"""Functions that need a whole group."""

Wanted = tuple[str, str]
"""Operator and key; of a whole group "" and the first part of its keys."""


class Counts:
    """Of one run: transactions that ran once more in a partition; requests for keys or groups, and what that sent.

    ``batch_bytes``: of rows that were not requested.
    """

    def __init__(self) -> None:
        self.ran_again = 0
        self.batch_bytes = 0
        self.requests = 0
        self.requested_rows = 0
        self.requested_bytes = 0


class Released(NamedTuple):
    """A root that was held."""

    tid: int
    root: Request


class ArrivingStore(Store):
    """Rows of a partition, some of which are with their former homes still. ``by_group``: these are requested whole."""

    by_group = False
    counts = Counts()

    def __init__(self) -> None:
        super().__init__()
        self.number = -1
        self.change: Change | None = None
        self.finished: set[int] = set()  # former homes that have sent all
        self.held: dict[Wanted, list[WireCall | Released]] = {}
        self.outgoing: dict[int, list[WireCall | WireResult]] = {}
        self.held_roots: set[int] = set()
        self.keys_of_groups: dict[str, list[StateKey]] | None = None  # of those that leave, once they are found
        self._known: set[StateKey] = set()  # without a row
        self._groups: set[str] = set()  # that are here
        self._detours: set[tuple[int, str, str, str]] = set()

    def begin_epoch(self) -> None:
        assert not self.held, f"calls of an epoch that is over wait for {sorted(self.held)}"
        self._detours.clear()
        self.held_roots.clear()

    def wanted(self, operator: str, key: str, function: str) -> Wanted | None:
        """The key, or group, that has to come before the function can run on this entity; None: it is here."""
        change = self.change
        if change is None:
            return None
        home = change.before.place(operator, key)
        if home == self.number or home in self.finished:
            return None
        part = group_of((operator, key))
        if part in self._groups:
            return None
        if self.by_group or function in SCANS:
            return "", part
        return None if (operator, key) in self.items or (operator, key) in self._known else (operator, key)

    def request(self, wanted: Wanted, home: int) -> None:
        """Once in an epoch."""
        if wanted not in self.held:
            self.held[wanted] = []
            item = WireCall(NO_TRANSACTION, 0, (), (), *wanted, REQUEST, b"", self.number)
            self.send(home, item)
            self.counts.requests += 1

    def send(self, to: int, item: WireCall) -> None:
        self.outgoing.setdefault(to, []).append(item)
        self.counts.requested_bytes += (
            len(item.operator) + len(item.key) + len(item.arguments) + len(item.function) + 12
        )

    def hold(self, operator: str, key: str, function: str, item: WireCall | Released) -> bool:
        """Whether it has to wait."""
        wanted = self.wanted(operator, key, function)
        if wanted is None:
            return False
        assert self.change is not None
        self.request(wanted, self.change.before.place(operator, key))
        self.held[wanted].append(item)
        if isinstance(item, Released):
            self.held_roots.add(item.tid)
        return True

    def detours(self, tid: int, target: Target) -> bool:
        """Whether a call within this partition has to wait: then it is sent to itself. The same for each run of it."""
        name = tid, target.operator, target.key, target.function
        if name in self._detours:
            return True
        wanted = self.wanted(target.operator, target.key, target.function)
        if wanted is None:
            return False
        assert self.change is not None
        self.request(wanted, self.change.before.place(target.operator, target.key))
        self._detours.add(name)
        return True

    def answer(self, item: WireCall) -> None:
        """As a former home: the rows leave."""
        assert item.caller is not None
        if item.operator:
            keys = [(item.operator, item.key)]
        elif self.keys_of_groups is not None:
            keys = self.keys_of_groups.get(item.key, [])
        else:
            keys = [key for key in self.items if group_of(key) == item.key]
        for key in keys:
            value = self.items.get(key)
            if value is None and not item.operator:
                continue  # it has left
            kind = NO_ROW if value is None else ROW
            self.send(item.caller, WireCall(NO_TRANSACTION, 0, (), (), *key, kind, value or b"", None))
            self.counts.requested_rows += value is not None
        super().apply(dict.fromkeys(key for key in keys if key in self.items))
        if not item.operator:
            self.send(item.caller, WireCall(NO_TRANSACTION, 0, (), (), "", item.key, GROUP_END, b"", None))

    def arrive(self, items: Sequence[WireCall]) -> list[WireCall | Released]:
        """Take rows; gives the calls that can go on."""
        super().apply(self._new(((each.operator, each.key), each.arguments) for each in items if each.function == ROW))
        for each in items:
            if each.function == NO_ROW:
                self._known.add((each.operator, each.key))
            elif each.function == GROUP_END:
                self._groups.add(each.key)
        return [call for each in items for call in self.held.pop((each.operator, each.key), ())]

    def arrive_batch(self, rows: Iterable[tuple[StateKey, bytes | None]]) -> None:
        super().apply(self._new(rows))

    def _new(self, rows: Iterable[tuple[StateKey, bytes | None]]) -> dict[StateKey, bytes | None]:
        return {key: value for key, value in rows if key not in self.items and key not in self._known}

    def leave(self, keys: Iterable[StateKey]) -> None:
        super().apply(dict.fromkeys(key for key in keys if key in self.items))

    def apply(self, writes: Any) -> None:
        super().apply(writes)
        if self.change is not None:
            self._known.update(key for key, value in writes.items() if value is None)


def group_of(key: StateKey) -> str:
    """The first part, as the workloads here have it."""
    return key[1].split("/", 1)[0]
