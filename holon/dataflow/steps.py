"""Steps of a pipeline: what each makes of rows. A step hands its rows to all that consume them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.dataflow.arithmetic import as_list, truth
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.errors import FlowError, Place
from holon.dataflow.expressions import Decision, Field, Leaf, column_of, decided, joined, leaf_column
from holon.dataflow.groups import Aggregate, ColumnGroup, Identity, ReadGroup, plain_value
from holon.dataflow.rows import VALUE, Rows
from holon.dataflow.tracing import trace, trace_with
from holon.formats.batch import Column
from wcrdt import ColumnsOf, GCounter, Lattice, RecordOf
from wcrdt.windows.assigners import Assigner, Window

RowKind = Literal["filter", "reject", "map", "filter_map", "flat_map"]

OBJECTS = object()
"""The type of rows that come from a function that was not followed."""


class Target(Protocol):
    """Where rows leave a track: to an output, or into a window."""

    def emit(self, step: Sink, rows: Rows) -> None: ...
    def insert(self, step: Aggregation, rows: Rows) -> None: ...


@dataclass(eq=False)
class Step:
    """``number`` counts the steps of a flow; ``above`` is the step that rows come from (None: the input)."""

    number: int
    place: Place
    above: Step | None
    consumers: list[Step] = field(default_factory=list)

    verb = "step"

    def __post_init__(self) -> None:
        if self.above is not None:
            self.above.consumers.append(self)

    @property
    def row_type(self) -> Any:
        """The Struct of the rows, None for other values, ``OBJECTS`` where they are no columns."""
        return OBJECTS if self.above is None else self.above.row_type

    @property
    def stage(self) -> int:
        """How many windows are above."""
        return 0 if self.above is None else self.above.stage

    def take(self, rows: Rows, target: Target) -> None:
        """Go on with rows of the step above."""
        raise NotImplementedError

    def pass_on(self, rows: Rows, target: Target) -> None:
        if len(rows):
            for consumer in self.consumers:
                consumer.take(rows, target)

    def error(self, what: str) -> FlowError:
        return FlowError(f"step {self.number} ({self.verb}, {self.place}): {what}")

    def how(self) -> str:
        """Whether it works on columns, or why not."""
        return ""

    def check(self) -> None:
        """Raise ``FlowError`` if it cannot work on the rows above, as far as their type is known."""
        try:
            self.how()
        except FlowError as error:
            raise self.error(str(error)) from error


@dataclass(eq=False)
class Entry(Step):
    """Where rows come from: the input, or the complete windows of an aggregation."""

    struct: Any = OBJECTS

    verb = "source"

    @property
    def row_type(self) -> Any:
        return self.struct


Followed = tuple[Decision | None, str]
"""Expressions, or None and the reason why a function is called for each row."""


def followed(function: Callable[[Any], Any], row_type: Any) -> Followed:
    """The expressions of a function of rows."""
    if row_type is OBJECTS:
        return None, "its rows are objects"
    try:
        return trace(function, row_type), ""
    except Untraceable as error:
        return None, str(error)


@dataclass(eq=False)
class RowStep(Step):
    """``filter`` (``reject``: its opposite), ``map``, ``filter_map`` or ``flat_map`` by a function of one row."""

    kind: RowKind = "map"
    function: Callable[[Any], Any] = bool

    @property
    def verb(self) -> str:  # type: ignore[override]
        return self.kind

    @cached_property
    def _followed(self) -> Followed:
        if self.kind in ("filter_map", "flat_map"):
            return None, f"{self.kind} is called for each row"
        assert self.above is not None
        return followed(self.function, self.above.row_type)

    @property
    def decision(self) -> Decision | None:
        return self._followed[0]

    def how(self) -> str:
        return "columns" if self.decision is not None else f"row by row: {self._followed[1]}"

    @cached_property
    def row_type(self) -> Any:  # type: ignore[override]
        assert self.above is not None
        if self.kind in ("filter", "reject"):
            return self.above.row_type
        return OBJECTS if self.decision is None else struct_of(self.decision)

    def take(self, rows: Rows, target: Target) -> None:
        if self.kind in ("filter", "reject"):
            mask = self.mask(rows)
            rows = rows if mask.all() else rows.take(np.flatnonzero(mask))
        elif self.decision is not None:
            rows = mapped(self.decision, self.row_type, rows)
        else:
            rows = self._called(rows)
        self.pass_on(rows, target)

    def mask(self, rows: Rows) -> NDArray[np.bool_]:
        """Of a filter: which rows go on."""
        chosen = truth(column(self.decision, self.function, rows))
        return chosen if self.kind == "filter" else ~chosen

    def _called(self, rows: Rows) -> Rows:
        results = list(map(self.function, rows.objects()))
        if self.kind == "map":
            return rows.replaced(objects=results)
        if self.kind == "filter_map":
            kept = [place for place, result in enumerate(results) if result is not None]
            return rows.replaced(np.array(kept, np.intp), objects=[results[place] for place in kept])
        lists = [list(result) for result in results]
        origin = np.repeat(np.arange(len(rows)), [len(each) for each in lists])
        return rows.replaced(origin, objects=[one for each in lists for one in each])


def column(decision: Decision | None, function: Callable[[Any], Any], rows: Rows) -> Column:
    """The results of a function of rows, by its expressions where they are known."""
    if decision is None or rows.columns is None:
        return list(map(function, rows.objects()))
    return column_of(decision, rows)


def type_at(struct: Any, path: Sequence[str]) -> Any:
    """The declared type of a field of a Struct, or of one within it."""
    for name in path:
        struct = {field.name: field.type for field in msgspec.structs.fields(struct)}[name]
    return struct


def struct_of(decision: Decision) -> Any:
    """The Struct that all ways give; None if they give other values; objects if some do."""
    first, *others = [leaf.struct for leaf in _leaves(decision)]
    return first if all(other is first for other in others) else OBJECTS


def _leaves(decision: Decision) -> list[Leaf]:
    if isinstance(decision, Leaf):
        return [decision]
    return _leaves(decision.then) + _leaves(decision.otherwise)


def mapped(decision: Decision, row_type: Any, rows: Rows) -> Rows:
    """The results of a function, as the columns of a Struct or of values, or as objects."""
    if row_type is OBJECTS:
        return rows.replaced(objects=as_list(column_of(decision, rows)))
    if row_type is None:
        return rows.replaced(columns={VALUE: column_of(decision, rows)})
    ends = decided(decision, rows)
    made = [
        (index, {name: leaf_column(one, taken) for name, one in leaf.result.items()})  # type: ignore[union-attr]
        for index, leaf, taken in ends
    ]
    names = msgspec.structs.fields(row_type)
    columns = {f.name: joined([(index, part[f.name]) for index, part in made], len(rows)) for f in names}
    return rows.replaced(columns=columns if len(made) > 1 else made[0][1], struct=row_type)


@dataclass(eq=False)
class Aggregation(Step):
    """Windows by key: rows are inserted, and ``result`` makes a row of each key's values when a window is complete.

    ``key`` None: one group for all rows. ``out`` is where its rows come from.
    """

    key: Callable[[Any], Any] | None = None
    windows: Assigner | None = None
    aggregates: dict[Identity, Aggregate] = field(default_factory=dict)
    result: Callable[[Any], Any] | None = None
    out: Entry | None = None

    verb = "agg"

    @property
    def state(self) -> str:
        """The name of its state."""
        return f"agg{self.number}"

    @cached_property
    def names(self) -> dict[Identity, str]:
        return {asked: f"{number}" for number, asked in enumerate(self.aggregates)}

    def bottom(self) -> Lattice[Any, Any]:
        """The lattice that a window holds."""
        parts = {self.names[asked]: one.lattice for asked, one in self.aggregates.items()}
        record = RecordOf(parts or {"": GCounter()})
        return record if self.key is None else ColumnsOf(record)

    @cached_property
    def _followed(self) -> dict[str, Followed]:
        assert self.above is not None
        functions = {self.names[asked]: one.of for asked, one in self.aggregates.items()} | {"key": self.key}
        row_type = self.above.row_type
        return {name: followed(each, row_type) for name, each in functions.items() if each is not None}

    @cached_property
    def followed_result(self) -> Followed:
        """The expressions of its result, over columns of keys and values."""
        assert self.result is not None
        try:
            return trace_with(self.result, lambda path: ColumnGroup(path, self.names)), ""
        except Untraceable as error:
            return None, f"of its result: {error}"

    def how(self) -> str:
        reasons = [reason for decision, reason in (*self._followed.values(), self.followed_result) if decision is None]
        return f"row by row: {reasons[0]}" if reasons else "columns"

    def check(self) -> None:
        super().check()
        decision = self._followed["key"][0] if self.key is not None else None
        if not isinstance(decision, Leaf) or not isinstance(decision.result, Field) or self.above is None:
            return
        kind = type_at(self.above.row_type, decision.result.path)
        if kind in (float, bool, list, dict, set):
            raise self.error(
                f"a key is an int, a text, bytes or a tuple of these, and {decision.result} is {kind.__name__}"
            )

    def elements(self, rows: Rows) -> Any:
        """The columns that are inserted: of keys, and of each aggregate's elements."""
        ones = np.ones(len(rows), np.int64)
        found = [ones if one.of is None else self._column(self.names[i], one.of, rows) for i, one in self._asked()]
        parts = tuple(found) if found else (ones,)
        return parts if self.key is None else (self._column("key", self.key, rows), parts)

    def _asked(self) -> list[tuple[Identity, Aggregate]]:
        return list(self.aggregates.items())

    def _column(self, name: str, function: Callable[[Any], Any], rows: Rows) -> Column:
        return column(self._followed[name][0], function, rows)

    def take(self, rows: Rows, target: Target) -> None:
        target.insert(self, rows)

    def results(self, value: Any, window: Window, ts_ms: int) -> Rows:
        """The rows of a complete window, in the order of keys, with this event time: the last one in the window."""
        keys, values = value.columns() if self.key is not None else ([None], {name: [v] for name, v in value.items()})
        count = len(as_list(keys))
        if not count:
            return Rows(np.empty(0, np.int64), np.arange(0), objects=[])
        columns = {name: each if isinstance(each, np.ndarray) else list(map(plain_value, as_list(each)))
                   for name, each in values.items()}  # fmt: skip
        groups = Rows(np.full(count, ts_ms), np.arange(count), columns={
            "key": keys, "window.start_ms": np.full(count, window.start_ms),
            "window.end_ms": np.full(count, window.end_ms), **columns,
        })  # fmt: skip
        decision, _ = self.followed_result
        if decision is not None:
            return mapped(decision, struct_of(decision), groups)
        assert self.result is not None
        rows = zip(as_list(keys), zip(*map(as_list, columns.values()), strict=True), strict=True)
        made = [ReadGroup(key, window, dict(zip(columns, row, strict=True)), self.names) for key, row in rows]
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


@dataclass(eq=False)
class Top(Step):
    """The ``n`` rows of a window that are largest by a function; of equal ones all, or those of the first keys."""

    n: int = 1
    by: Callable[[Any], Any] = bool
    ties: Literal["all", "first"] = "first"

    verb = "top"

    def take(self, rows: Rows, target: Target) -> None:
        values = list(map(self.by, rows.objects()))
        order = sorted(range(len(values)), key=values.__getitem__, reverse=True)
        # Sorting backwards keeps equal rows in their order.
        kept = order[: self.n]
        if self.ties == "all" and len(order) > self.n:
            last = values[order[self.n - 1]]
            kept += [place for place in order[self.n :] if values[place] == last]
        self.pass_on(rows.take(np.array(kept, np.intp)), target)


@dataclass(eq=False)
class Sink(Step):
    """An output topic; ``key`` gives the record's key, by which it is routed."""

    topic: str = ""
    key: Callable[[Any], Any] | None = None

    verb = "sink"

    def take(self, rows: Rows, target: Target) -> None:
        target.emit(self, rows)
