"""Steps of a pipeline: what each makes of rows. A step hands its rows to all that consume them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, Union

import numpy as np
from numpy.typing import NDArray

from holon.columnar.event_types import has_fields
from holon.dataflow.arithmetic import is_none, truth
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.dict_rows import TupleRow, in_common, never_changes, tuples_in_common
from holon.dataflow.errors import FlowError, Place, not_callable
from holon.dataflow.expressions import (
    Apply,
    Decision,
    Field,
    Leaf,
    column_of,
    evaluate,
)
from holon.dataflow.failing_rows import TakesFailing, called_itself, without_failing
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.declared import field_types, may_be_none, without_none
from holon.dataflow.following.results import filter_mapped, flat_mapped, gives_rows, mapped, struct_of
from holon.dataflow.rows import OBJECTS, Rows
from holon.dataflow.tracing import constant_leaf, trace, trace_flat
from holon.errors import USER_ERRORS
from holon.formats.batch import Column
from holon.outputs.partitioner import key_or_none

RowKind = Literal["filter", "reject", "map", "filter_map", "flat_map"]

ROW_BY_ROW = "row by row: "
Trace = Callable[..., Decision]


class Target(TakesFailing, Protocol):
    """Where rows leave a track: to an output, into a window, or to the dead letters."""

    def emit(self, step: Any, rows: Rows) -> None: ...
    def insert(self, step: Any, rows: Rows) -> None: ...


@dataclass(eq=False)
class Step:
    """``number`` counts the steps of a flow; ``above`` is the step that rows come from (None: the input).

    ``columnar``: the step must work on columns.
    """

    number: int
    place: Place
    above: Step | None
    consumers: list[Step] = field(default_factory=list)
    columnar: bool = False

    verb = "step"

    def join(self) -> None:
        """Become a consumer of the rows above."""
        if self.above is not None:
            self.above.consumers.append(self)

    @property
    def row_type(self) -> Any:
        """The Struct of the rows, None for other values, ``OBJECTS`` where they are no columns."""
        return OBJECTS if self.above is None else self.above.row_type

    @property
    def kinds(self) -> tuple[type, ...]:
        """The Structs of which each row is one, as the source has read it; () where that is not known."""
        return ()

    @property
    def takes_kinds(self) -> bool:
        """Whether rows that are one of several Structs need not be objects."""
        return False

    def follow(self, function: Callable[[Any], Any], trace: Trace = trace) -> Followed:
        """The expressions of a function of its rows."""
        are_kinds = self.row_type is OBJECTS and len(self.kinds) > 1
        of = Union[self.kinds] if are_kinds else self.row_type  # noqa: UP007 (of as many as there are)
        return followed(function, of, checked=self.is_checked, trace=trace)

    @property
    def stage(self) -> int:
        """How many windows are above."""
        return 0 if self.above is None else self.above.stage

    @property
    def after(self) -> int | None:
        """The number of the step that rows come from; None: they are the input."""
        return None if self.above is None else self.above.number

    @property
    def is_checked(self) -> bool:
        """Whether rows are Structs as a format has read them, so that their fields have the declared types."""
        return False

    @property
    def is_parted(self) -> bool:
        """Whether the rows of a window come in several parts, since streams were united."""
        return self.above is not None and self.above.is_parted

    def take(self, rows: Rows, target: Target) -> None:
        """Go on with rows of the step above."""
        raise NotImplementedError

    def pass_on(self, rows: Rows, target: Target) -> None:
        if len(rows):
            for consumer in self.consumers:
                consumer.take(rows, target)

    @property
    def label(self) -> str:
        """Its name in errors: with the line where it was written."""
        return f"step {self.number} ({self.verb}, {self.place})"

    def error(self, what: str) -> FlowError:
        return FlowError(f"{self.label}: {what}")

    def how(self) -> str:
        """Whether it works on columns, or why not."""
        return ""

    def check_functions(self) -> None:
        """Raise ``FlowError`` where something else is given than a function."""
        for name in ("function", "key", "by"):
            given = getattr(self, name, None)
            if given is not None and not callable(given):
                raise self.error(not_callable("" if name == "function" else name, given))

    def check(self) -> None:
        """Raise ``FlowError`` if it cannot work on the rows above, as far as their type is known."""
        try:
            how = self.how()
        except FlowError as error:
            raise self.error(str(error)) from error
        if self.columnar and how.startswith(ROW_BY_ROW):
            raise self.error(
                f"columnar=True, but it goes {how}; write it with fields, operators and constants, or leave "
                f"columnar=True out"
            )


@dataclass(eq=False)
class Entry(Step):
    """Where rows come from: the input, or the complete windows of an aggregation.

    ``kinds``: the Structs that rows are, where they are one of several; ``reads_kinds``: each has columns of its own.
    """

    struct: Any = OBJECTS
    kinds: tuple[type, ...] = ()  # type: ignore[assignment]
    reads_kinds: bool = False

    verb = "source"

    @property
    def row_type(self) -> Any:
        return self.struct

    @property
    def is_checked(self) -> bool:
        return self.struct is not OBJECTS or bool(self.kinds)


Followed = tuple[Decision | None, str]
"""Expressions, or None and the reason why a function is called for each row."""


def followed(function: Callable[[Any], Any], row_type: Any, *, checked: bool = False, trace: Trace = trace) -> Followed:
    """The expressions of a function of rows; ``checked``: rows as a format has read them."""
    if row_type is OBJECTS:
        return None, "its rows are objects"
    try:
        return trace(function, row_type, checked=checked), ""
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
        assert self.above is not None
        return self.above.follow(self.function, trace_flat if self.kind == "flat_map" else trace)

    @property
    def kinds(self) -> tuple[type, ...]:
        return self.above.kinds if self.kind in ("filter", "reject") and self.above is not None else ()

    @property
    def takes_kinds(self) -> bool:
        if self.decision is None or self.kind in ("filter", "reject"):
            return self.decision is not None and all(step.takes_kinds for step in self.consumers)
        return not gives_rows(self.decision)

    @property
    def is_checked(self) -> bool:
        if self._inner is not None:
            return True
        return self.kind in ("filter", "reject") and self.above is not None and self.above.is_checked

    @property
    def decision(self) -> Decision | None:
        return self._followed[0]

    def how(self) -> str:
        return "columns" if self.decision is not None else f"{ROW_BY_ROW}{self._followed[1]}"

    @cached_property
    def row_type(self) -> Any:  # type: ignore[override]
        assert self.above is not None
        if self.kind in ("filter", "reject"):
            return OBJECTS if self._may_change_rows else self.above.row_type
        if self._inner is not None:
            return self._inner[1]
        return OBJECTS if self.decision is None else struct_of(self.decision, without_none=self.kind == "filter_map")

    @property
    def _may_change_rows(self) -> bool:
        """Whether a filter is called with dicts, or with others of what may change, and these go on."""
        return self.decision is None and self.above is not None and not never_changes(self.above.row_type)

    @cached_property
    def _inner(self) -> tuple[Field, type] | None:
        """The field that the function gives as it is, if it is a Struct that a format has checked."""
        assert self.above is not None
        found = self.decision.result if isinstance(self.decision, Leaf) else None
        if self.kind in ("filter", "reject") or not isinstance(found, Field) or not found.path:
            return None
        if not self.above.is_checked or self.above.row_type is None:
            return None
        declared = type_at(self.above.row_type, found.path)
        around = type_at(self.above.row_type, found.path[:-1])
        if self.kind == "map" and may_be_none(around, found.path[-1]):
            return None
        kind = without_none(declared)
        return (found, kind) if has_fields(kind) and not hasattr(kind, "__post_init__") else None

    def take(self, rows: Rows, target: Target) -> None:
        made = without_failing(self, rows, target, self._made_of)
        if made is not None:
            self.pass_on(made, target)

    def _made_of(self, rows: Rows) -> Rows:
        try:
            return self._by_columns(rows)
        except USER_ERRORS as caught:
            if self.decision is None or len(rows) != 1 or self.kind in ("filter", "reject"):
                raise
            error = caught
        value = called_itself(self.function, rows, error)
        leaf = constant_leaf(value, is_flat=self.kind == "flat_map")
        make = {"map": mapped, "filter_map": filter_mapped, "flat_map": flat_mapped}[self.kind]
        return make(leaf, self.row_type, rows)

    def _by_columns(self, rows: Rows) -> Rows:
        if self.kind in ("filter", "reject"):
            mask = self.mask(rows)
            count = int(np.count_nonzero(mask))
            rows = rows if count == len(rows) else rows.take(mask.nonzero()[0])
        elif self.decision is None:
            rows = self._called(rows)
        elif self._inner is not None:
            field, struct = self._inner
            if self.kind == "filter_map":
                none = truth(evaluate(Apply("is None", is_none, (field,)), rows))
                rows = rows.take(np.flatnonzero(~none)) if none.any() else rows
            rows = rows.inner(field.path, struct)
        elif self.kind == "flat_map":
            rows = flat_mapped(self.decision, self.row_type, rows)
        elif self.kind == "map":
            rows = mapped(self.decision, self.row_type, rows)
        else:
            rows = filter_mapped(self.decision, self.row_type, rows)
        return rows

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
    try:
        return column_of(decision, rows)
    except USER_ERRORS as caught:
        if len(rows) != 1:
            raise
        error = caught
    return [called_itself(function, rows, error)]


def type_at(struct: Any, path: Sequence[str]) -> Any:
    """The declared type of a field of a Struct, or of one within it."""
    for name in path:
        struct = field_types(struct)[name]
    return struct


@dataclass(eq=False)
class United(Step):
    """The rows of several streams, as they come; ``others``: the streams beside the one above."""

    others: tuple[Step, ...] = ()

    verb = "union"

    def join(self) -> None:
        super().join()
        for other in self.others:
            other.consumers.append(self)

    @property
    def row_type(self) -> Any:
        assert self.above is not None
        found = [step.row_type for step in (self.above, *self.others)]
        if all(one is None or isinstance(one, TupleRow) for one in found):
            return tuples_in_common(found)
        common = in_common(found)
        return OBJECTS if common is None else common

    @property
    def kinds(self) -> tuple[type, ...]:
        assert self.above is not None
        each = [step.kinds for step in (self.above, *self.others)]
        return tuple(dict.fromkeys(kind for kinds in each for kind in kinds)) if all(each) else ()

    @property
    def is_checked(self) -> bool:
        assert self.above is not None
        return self.above.is_checked and all(other.is_checked for other in self.others)

    @property
    def is_parted(self) -> bool:
        return True

    def check(self) -> None:
        stages = {self.stage, *(other.stage for other in self.others)}
        if len(stages) > 1:
            raise self.error(
                f"streams behind {' and '.join(map(str, sorted(stages)))} windows cannot be united: a window takes "
                f"rows of records, or of windows; unite them before it, or give each a sink"
            )

    def take(self, rows: Rows, target: Target) -> None:
        self.pass_on(rows, target)


@dataclass(eq=False)
class Sink(Step):
    """An output topic; ``key`` gives the record's key, by which it is routed."""

    topic: str = ""
    key: Callable[[Any], Any] | None = None

    verb = "sink"

    @cached_property
    def _key(self) -> Followed:
        assert self.above is not None and self.key is not None
        return self.above.follow(self.key)

    def key_bytes(self, rows: Rows) -> list[bytes | None]:
        """The key of each row, as the record of the output has it."""
        assert self.key is not None
        return list(map(key_or_none, as_list(column(self._key[0], self.key, rows))))

    def take(self, rows: Rows, target: Target) -> None:
        target.emit(self, rows)
