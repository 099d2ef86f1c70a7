"""Aggregations by slices: rows are inserted into slices of event time, and complete slices into what is open by key.

Slices are a state of all partitions; ``sharded`` ones of which each reads its keys alone. One partition answers for a
key: the key is of its shard. There the complete slices of the key are taken in, one after the other, and results leave
at the end of the slice that completes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.aggregations import Aggregation
from holon.dataflow.rows import Rows
from holon.dataflow.sliced.shards import Arrived, Slices, whole
from holon.formats.batch import Column
from holon.program.context import Context
from holon.program.function import HandlerScope
from holon.program.states import Local, StateDeclaration, Windowed
from wcrdt import BoolOr, ColumnsOf, Lattice
from wcrdt.windows.assigners import Window

Places = NDArray[np.intp]


@dataclass(eq=False)
class SlicedAggregation(Aggregation):
    """``windows`` are the slices. Beside their state there is one that marks those at whose end something is due.

    A handler runs for windows with contents alone, and windows close where no row comes: so it runs for marked slices.
    """

    is_parting = True

    @cached_property
    def _kept(self) -> ColumnsOf[Any, Any, Any]:
        """The state of a slice while it is empty."""
        return ColumnsOf(self._record)

    @cached_property
    def _slices(self) -> Slices:
        return Slices()

    def _refusal(self, tag: str) -> str:
        """The error for a lattice by this name of which the states of slices cannot be combined."""
        raise NotImplementedError

    def _first_of_slices(self, times: NDArray[np.int64]) -> Places:
        """The first place of each slice in which there are times."""
        raise NotImplementedError

    def bottom(self) -> Lattice[Any, Any]:
        return self._kept.bottom()

    def check(self) -> None:
        super().check()
        for one in self.aggregates.values():
            if not one.lattice.combines:
                raise self.error(self._refusal(one.lattice.tag))

    # --- states -------------------------------------------------------------------------------------------------------

    @cached_property
    def _due(self) -> Windowed[bool, bool]:
        return self._declared(BoolOr(), f"{self.state}due")

    @cached_property
    def _open(self) -> Local[Any]:
        """The windows that are open, on the partition that answers for them."""
        raise NotImplementedError

    def _opened(self, empty: Any) -> Local[Any]:
        return Local(empty, type=type(empty), track="window", stage=self.stage, name=f"{self.state}open")

    def further_states(self) -> Sequence[StateDeclaration]:
        return self._due, self._open

    def answered(self, state: Windowed[Any, Any]) -> tuple[Windowed[Any, Any], HandlerScope]:
        return self._due, "partition"

    def _key_column(self, rows: Rows) -> Column:
        """Where there is no key, rows have the same one."""
        return np.zeros(len(rows), np.int64) if self.key is None else self._column("key", self.key, rows)

    def insert_if_open(self, ctx: Context, state: Windowed[Any, Any], rows: Rows, index: Places | None) -> bool:
        return False  # what is late, and what is inserted beside the rows, is asked of each kind

    # --- rows that come, and slices that are complete -----------------------------------------------------------------

    def _mark(self, ctx: Context, marked: Iterable[NDArray[np.int64]], rows: Places | None) -> None:
        """Let the slices of these times be due. They are as many as the rows; ``rows`` as of ``insert_many``."""
        due = ctx[self._due]
        for times in marked:
            first = self._first_of_slices(times)
            due.insert_many(np.ones(len(first), np.bool_), times[first], first if rows is None else rows[first])

    def _arrived(self, ctx: Context, state: Windowed[Any, Any], window: Window) -> Arrived:
        """The keys of a complete slice for which this partition answers."""
        found: Any = ctx[state].window_state(window)
        is_own = self.alone or self.sharded  # then it holds the keys of this partition and no others
        return whole(found) if is_own else self._slices.shard(found, ctx.partition, ctx.partitions)


def first_of_each(numbers: NDArray[np.int64]) -> Places:
    """The first place of each number."""
    changes = np.concatenate([[0], np.flatnonzero(np.diff(numbers)) + 1])
    _, first = np.unique(numbers[changes], return_index=True)
    return changes[first]
