"""Steps that need a whole window: aggregations by key with their results, and the largest rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.code_scan import Untraceable
from holon.dataflow.dict_rows import TupleRow
from holon.dataflow.expressions import Apply, Field, Indices, Leaf, selected_column
from holon.dataflow.failing_rows import in_order_without_failing, without_failing
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.declared import no_key
from holon.dataflow.following.results import mapped, struct_of
from holon.dataflow.following.separated import Item
from holon.dataflow.groups import (
    GROUP_COLUMNS,
    UPDATE_COLUMNS,
    Aggregate,
    ColumnGroup,
    Identity,
    ReadGroup,
    parts_of_key,
    plain_value,
)
from holon.dataflow.rows import OBJECTS, Origins, Rows, ones
from holon.dataflow.steps import (
    ROW_BY_ROW,
    Entry,
    Followed,
    Step,
    Target,
    United,
    column,
    type_at,
)
from holon.dataflow.tracing import trace_with
from holon.formats.batch import Column
from holon.program.context import Context
from holon.program.function import HandlerScope
from holon.program.handles import WindowedHandle
from holon.program.states import WCRDT, StateDeclaration, Windowed, WLocal
from wcrdt import ColumnsOf, GCounter, Lattice, OfLargest, RecordOf
from wcrdt.lattices.columns import height, number_column
from wcrdt.windows.assigners import Assigner, Window
from wcrdt.windows.panes import panes_of


@dataclass(eq=False)
class Aggregation(Step):
    """Windows by key: rows are inserted, and ``result`` makes a row of each key's values when a window is complete.

    ``key`` None: one group for all rows. ``result`` None: the key and the one value, or what of both there is.
    ``alone``: each partition by itself; ``sharded``: each answers for its keys. ``out`` is where its rows come from,
    ``late`` where those come from that no window takes any more. ``lateness_ms`` None: the flow's;
    ``extra_lateness_ms``: how much longer than others its windows stay open, which the flow finds out.
    """

    key: Callable[[Any], Any] | None = None
    windows: Assigner | None = None
    aggregates: dict[Identity, Aggregate] = field(default_factory=dict)
    result: Callable[[Any], Any] | None = None
    alone: bool = False
    name: str = "agg"
    out: Entry | None = None
    late: Entry | None = None
    sharded: bool = False
    lateness_ms: int | None = None
    extra_lateness_ms: int = 0

    is_parting = False
    """Whether the rows of a window come in several parts."""
    flags: ClassVar[tuple[str, ...]] = ()
    """The columns of groups that say of a result what it is: with early results that it is final, or retracted."""

    @property
    def verb(self) -> str:  # type: ignore[override]
        return self.name

    @property
    def state(self) -> str:
        """The name of its state."""
        return f"agg{self.number}"

    @cached_property
    def names(self) -> dict[Identity, str]:
        return {asked: f"{number}" for number, asked in enumerate(self.aggregates)}

    def bottom(self) -> Lattice[Any, Any]:
        """The lattice that a window holds."""
        return self._record if self.key is None else ColumnsOf(self._record)

    @cached_property
    def _record(self) -> RecordOf:
        """The state of the rows of one key."""
        return RecordOf(self._lattices or {"": GCounter()})

    @property
    def _lattices(self) -> dict[str, Lattice[Any, Any]]:
        """That of each aggregate, by its name."""
        return {self.names[asked]: one.lattice for asked, one in self.aggregates.items()}

    @cached_property
    def _followed(self) -> dict[str, Followed]:
        assert self.above is not None
        functions = {self.names[asked]: one.of for asked, one in self.aggregates.items()} | {"key": self.key}
        return {name: self.above.follow(each) for name, each in functions.items() if each is not None}

    @property
    def takes_kinds(self) -> bool:
        is_followed = all(decision is not None for decision, _ in self._followed.values())
        return is_followed and (self.late is None or not self.late.consumers)

    @cached_property
    def followed_result(self) -> Followed:
        """The expressions of its result, over columns of keys and values."""
        if self.result is None:
            return Leaf(self._plain_result), ""
        try:
            parts = parts_of_key(self._followed["key"][0]) if self.key is not None else None
            return trace_with(self.result, lambda path: ColumnGroup(path, self.names, parts, self.flags)), ""
        except Untraceable as error:
            return None, f"of its result: {error}"

    def how(self) -> str:
        reasons = [reason for decision, reason in (*self._followed.values(), self.followed_result) if decision is None]
        found = f"{ROW_BY_ROW}{reasons[0]}" if reasons else "columns"
        panes = None if self.windows is None else panes_of(self.windows, self._bottom.combines)
        found += "" if panes is None else f"; {panes.count} windows that overlap share panes"
        return found if self.lateness_ms is None else f"{found}; lateness {self.lateness_ms} ms"

    @property
    def _plain_result(self) -> Field | tuple[Leaf, ...]:
        fields = [Field(("key",))] * (self.key is not None) + [Field((name,)) for name in self.names.values()]
        return fields[0] if len(fields) == 1 else tuple(map(Leaf, fields))

    def check(self) -> None:
        super().check()
        if self.alone and self.stage > 0:
            raise self.error(
                "windows of one partition take records, not rows of windows; put all_partitions() before window()"
            )
        if _replaces_rows(self.above):
            raise self.error(
                "rows of windows with early results are replaced by later ones, so a window of them would count them "
                "several times; write the window that is before it a second time, without early=, for this one"
            )
        decision = self._followed["key"][0] if self.key is not None else None
        if isinstance(decision, Leaf) and self.above is not None:
            self._check_key(decision, self.above.row_type)

    def _check_key(self, key: Leaf, row_type: Any) -> None:
        """Of the parts of a tuple, too."""
        if isinstance(key.result, Sequence):
            for part in key.result:
                self._check_key(part, row_type)
            return
        of, what = key.type, "this value"
        if isinstance(key.result, Field):
            of, what = type_at(row_type, key.result.path), str(key.result)
        elif isinstance(row_type, TupleRow) and isinstance(key.result, Apply) and isinstance(key.result.function, Item):
            what = f"part {key.result.function.place} of the row"
        if (found := no_key(of)) is not None:
            raise self.error(
                f"a key is an int, a text, bytes or a tuple of these, and {what} is {found.name}: {found.instead}"
            )

    def elements(self, rows: Rows) -> Any:
        """The columns that are inserted: of keys, and of each aggregate's elements."""
        parts = self._aggregated(rows, selected=True) or (ones(rows),)
        return parts if self.key is None else (self._column("key", self.key, rows), parts)

    def _parts(self, rows: Rows) -> tuple[Column, ...]:
        """As the state of a key has them: rows count where there is no aggregate."""
        return self._aggregated(rows) or (ones(rows),)

    def _aggregated(self, rows: Rows, *, selected: bool = False) -> tuple[Column, ...]:
        """A column of the elements of each aggregate; ``selected``: not gathered where few of them are read."""
        return tuple(self._elements_of(asked, one, rows, selected) for asked, one in self.aggregates.items())

    def _elements_of(self, asked: Identity, one: Aggregate, rows: Rows, selected: bool) -> Column:
        if one.of is None:
            return ones(rows)
        decision = self._followed[self.names[asked]][0]
        if selected and isinstance(one.lattice, OfLargest) and isinstance(decision, Leaf) and rows.columns is not None:
            return selected_column(decision, rows)
        return column(decision, one.of, rows)

    def checked_elements(self, rows: Rows) -> tuple[Any, NDArray[np.int64]]:
        """The same with their times; raises what inserting them would."""
        elements = self.elements(rows)
        self._bottom.check_many(elements)
        return elements, rows.ts_ms

    @cached_property
    def _bottom(self) -> Lattice[Any, Any]:
        return self.bottom()

    def _column(self, name: str, function: Callable[[Any], Any], rows: Rows) -> Column:
        return column(self._followed[name][0], function, rows)

    def take(self, rows: Rows, target: Target) -> None:
        target.insert(self, rows)

    # --- its states ---------------------------------------------------------------------------------------------------

    def declared(self) -> Windowed[Any, Any]:
        """The state that rows are inserted into."""
        return self._declared(self.bottom(), self.state, sharded=self.sharded)

    def _declared(self, bottom: Lattice[Any, Any], name: str, *, sharded: bool = False) -> Windowed[Any, Any]:
        """A state of these windows and this stage."""
        assert self.windows is not None
        if self.alone:
            return WLocal(bottom, self.windows, extra_lateness=self.extra_lateness_ms, name=name)
        extra_ms = self.extra_lateness_ms
        return WCRDT(bottom, self.windows, stage=self.stage, sharded=sharded, extra_lateness=extra_ms, name=name)

    def further_states(self) -> Sequence[StateDeclaration]:
        """The states beside it."""
        return ()

    def answered(self, state: Windowed[Any, Any]) -> tuple[Windowed[Any, Any], HandlerScope]:
        """The state whose windows are answered with rows, and where; ``state`` is the one that is declared."""
        return state, "partition" if self.alone or self.sharded else "global"

    def insert(
        self,
        ctx: Context,
        state: Windowed[Any, Any],
        elements: Any,
        ts_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | None = None,
        origins: Origins | None = None,
    ) -> None:
        """Insert elements with their times; ``rows`` as of ``insert_many``. ``origins`` None: of rows of windows."""
        ctx[state].insert_many(elements, ts_ms, rows)

    def insert_if_open(
        self, ctx: Context, state: Windowed[Any, Any], rows: Rows, index: NDArray[np.intp] | None
    ) -> bool:
        """Insert rows if all of their windows are open; False: nothing was done, and some may be late."""
        return ctx[state].insert_if_open(partial(self.elements, rows), rows.ts_ms, index)

    def take_late(
        self,
        state: WindowedHandle[Any, Any],
        ts_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | None,
        letters: bool,
    ) -> NDArray[np.intp]:
        """The places of the times that no window takes any more; as that of a state."""
        return state.take_late(ts_ms, rows, letters=letters)

    async def read(self, ctx: Context, state: Windowed[Any, Any], window: Window) -> Rows:
        """The groups of a complete window of the state that is answered."""
        return self.groups(await ctx[state].window_value(window), window, ctx.timestamp_ms)

    def groups(self, value: Any, window: Window, ts_ms: int) -> Rows:
        """The groups of a complete window, in the order of keys, with this event time: the last one in the window."""
        keys, values = value.columns() if self.key is not None else ([None], {name: [v] for name, v in value.items()})
        if not isinstance(values, Mapping):  # some lattices and keys are no columns
            values = {name: [each[name] for each in values] for name in self.names.values()}
        count = height(keys)
        columns = {name: each if isinstance(each, np.ndarray) else list(map(plain_value, as_list(each)))
                   for name, each in values.items()}  # fmt: skip
        return Rows(np.full(count, ts_ms), np.arange(count), columns={
            "key": keys, "window.start_ms": np.full(count, window.start_ms),
            "window.end_ms": np.full(count, window.end_ms), **columns,
        })  # fmt: skip

    def results(self, groups: Rows) -> Rows:
        """A row of each group."""
        decision, _ = self.followed_result
        if decision is not None:
            return mapped(decision, struct_of(decision), groups)
        assert self.result is not None and groups.columns is not None
        names = list(self.names.values())
        rows = zip(*(as_list(groups.columns[name]) for name in (*GROUP_COLUMNS, *names)), strict=True)
        made = [
            ReadGroup(key, Window(start, end), dict(zip(names, values, strict=True)), self.names)
            for key, start, end, *values in rows
        ]
        for name in self.flags:
            for group, flag in zip(made, as_list(groups.columns[name]), strict=True):
                setattr(group, name, flag)
        return groups.replaced(objects=list(map(self.result, made)))


@dataclass(eq=False)
class Results(Entry):
    """The rows of complete windows."""

    of: Aggregation | None = None

    verb = "windows"

    @cached_property
    def row_type(self) -> Any:  # type: ignore[override]
        assert self.of is not None
        decision, _ = self.of.followed_result
        return OBJECTS if decision is None else struct_of(decision)

    @property
    def stage(self) -> int:
        assert self.of is not None
        return self.of.stage + 1

    @property
    def is_parted(self) -> bool:
        return self.of is not None and (self.of.is_parting or self.of.sharded)


def _replaces_rows(step: Step | None) -> bool:
    """Whether later rows of a step replace earlier ones."""
    if isinstance(step, Results):
        return step.of is not None and not {*UPDATE_COLUMNS}.isdisjoint(step.of.flags)
    beside = step.others if isinstance(step, United) else ()
    return step is not None and any(map(_replaces_rows, (step.above, *beside)))


@dataclass(eq=False)
class Top(Step):
    """The ``n`` rows of a window that are largest by a function; of equal ones all, or those of the first keys."""

    n: int = 1
    by: Callable[[Any], Any] = bool
    ties: Literal["all", "first"] = "first"

    verb = "top"

    @cached_property
    def _followed(self) -> Followed:
        assert self.above is not None
        return self.above.follow(self.by)

    def how(self) -> str:
        return "columns" if self._followed[0] is not None else f"{ROW_BY_ROW}{self._followed[1]}"

    def check(self) -> None:
        super().check()
        if self.stage == 0:
            raise self.error("top() is per window, and no window is before it; put window() and agg() before it")
        if self.is_parted:
            raise self.error(
                "rows come in parts behind union(), sharded keys, sessions, windows driven by data and early results; "
                "put window() and agg() between them"
            )

    def take(self, rows: Rows, target: Target) -> None:
        found = without_failing(self, rows, target, self._with_values)
        if found is None:
            return
        rows, values = found
        numbers = number_column(values)
        places = self._largest(as_list(values), rows, target) if numbers is None else self._largest_numbers(numbers)
        self.pass_on(rows.take(np.array(places, np.intp)), target)

    def _largest(self, values: list[Any], rows: Rows, target: Target) -> list[int]:
        """The places of the rows that are kept, in their order."""
        order = in_order_without_failing(self, rows, values, target)
        kept = order[: self.n]
        if self.ties == "all" and len(order) > self.n:
            last = values[order[self.n - 1]]
            kept += [place for place in order[self.n :] if values[place] == last]
        return kept

    def _largest_numbers(self, values: NDArray[Any]) -> Indices:
        """The same of a column of numbers."""
        candidates = np.arange(len(values))
        if len(values) > self.n:
            least = np.maximum.reduce(values) if self.n == 1 else np.partition(values, -self.n)[-self.n]
            candidates = np.flatnonzero(values >= least)
        # Ascending from behind, read from behind: of equal ones the first comes first.
        order = len(candidates) - 1 - np.argsort(values[candidates][::-1], kind="stable")[::-1]
        return candidates[order if self.ties == "all" else order[: self.n]]

    def _with_values(self, rows: Rows) -> tuple[Rows, Column]:
        return rows, column(self._followed[0], self.by, rows)
