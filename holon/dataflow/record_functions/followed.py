"""Jobs whose ``process`` can be followed: large runs of their records go by columns, with the same results.

A function is followed as those of flows are, with placeholders of the record, the context and itself. So its inserts
and results become expressions of the record's fields. A function that does anything else is called for each record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holon.columnar.event_types import why_not_plain
from holon.columnar.structs.plan import event_types_of
from holon.dataflow.arithmetic import truth
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.compiling import FieldFunction
from holon.dataflow.errors import FlowError
from holon.dataflow.expressions import Decision, Field, Leaf
from holon.dataflow.following.declared import field_types, kinds_of, may_be_none
from holon.dataflow.following.loops.loop import RAISES, notes_in
from holon.dataflow.following.path import Path
from holon.dataflow.following.placeholders import row_of
from holon.dataflow.record_functions.effects import RecordEffects
from holon.dataflow.record_functions.stand_ins import (
    AsksNone,
    ContextStandIn,
    FunctionStandIn,
    Insert,
    Methods,
    end_of,
    shape_of,
)
from holon.dataflow.steps import followed
from holon.dataflow.tracing import trace_effects
from holon.errors import USER_ERRORS, JobError, described
from holon.formats.batch import Column, Columns
from holon.formats.formats import Json
from holon.formats.json_columns import JsonColumns
from holon.job import DEAD, LATE, UNSTABLE, ColumnForm, Job, encode_json
from holon.program.function import ProcessingFunction
from holon.program.program import own_states, paths
from holon.program.states import StateDeclaration, Windowed
from holon.source import ManualWatermarks, Source
from wcrdt.windows.assigners import GlobalWindow, Sliding, Tumbling

_WINDOWS = (Tumbling, Sliding, GlobalWindow)
"""Assigners that have windows for each time, and code of no user."""


class FollowedSource(NamedTuple):
    """A topic's records by columns, or why they become objects."""

    topic: str
    form: ColumnForm | None
    why_not: str = ""


def with_column_forms(job: Job) -> Job:
    """The same job, of which records go by columns where ``process`` can be followed."""
    forms = {one.topic: one.form for one in followed_sources(job) if one.form is not None}
    return job.by_columns(forms) if forms else job


def followed_sources(job: Job) -> list[FollowedSource]:
    """Of each topic whose records ``process`` takes one by one."""
    if job.program.record_function is None:
        return []
    found = []
    for source in job.sources:
        try:
            found.append(FollowedSource(source.topic, _form(job, source)))
        except (Untraceable, FlowError, JobError) as error:
            found.append(FollowedSource(source.topic, None, str(error)))
        except USER_ERRORS as error:  # of an object that the function names: the job runs without all this
            found.append(FollowedSource(source.topic, None, f"reading it raised {described(error)}"))
    return found


def _form(job: Job, source: Source[Any]) -> ColumnForm:
    if job.program.is_async:
        raise Untraceable("process is async")
    if isinstance(source.watermarks, ManualWatermarks):
        raise Untraceable("process moves the watermark")
    structs = event_types_of(source.format.type) if type(source.format) is Json else ()
    if len(structs) != 1:
        raise Untraceable(f"its format is not Json of a Struct, dataclass or TypedDict{_why(source)}")
    (struct,) = structs
    if hasattr(struct, "__post_init__"):
        raise Untraceable(f"{struct.__name__} checks itself (__post_init__)")
    read = JsonColumns(struct)
    if not read.is_compiled:
        raise Untraceable(f"no compiled loop reads {struct.__name__}")
    decision = _effects(job, struct)
    columnar = dataclasses.replace(
        source,
        format=read,
        timestamp=None if source.timestamp is None else _timestamp(source.timestamp, struct),
        filter=None if source.filter is None else _Filter(source.filter, struct),
    )
    return ColumnForm(columnar, RecordEffects(decision, struct))


def _why(source: Source[Any]) -> str:
    """Why the type of a format is none of these, where that is no matter of its kind."""
    why = why_not_plain(source.format.type) if type(source.format) is Json else ""
    return f": {why}" if why else ""


def _effects(job: Job, struct: type) -> Decision:
    """The effects of ``process`` for a record."""
    program = job.program
    function, root = program.record_function, program.root
    if isinstance(function, MethodType) and function.__self__ is root:
        function = function.__func__
    if not isinstance(function, FunctionType):
        raise Untraceable(f"process is a {type(function).__name__}, and no function written in Python")
    try:
        return _followed(job, function, root, struct, asks_none=False)
    except AsksNone:
        return _followed(job, function, root, struct, asks_none=True)


def _followed(
    job: Job, function: FunctionType, root: ProcessingFunction[Any] | None, struct: type, *, asks_none: bool
) -> Decision:
    program, reserved = job.program, (LATE, DEAD, UNSTABLE)
    outputs = [name for name, one in job.outputs.items() if one.encode is encode_json and name not in reserved]
    declared = {bound.decl: name for name, bound in program.bound.items() if not bound.path and _by_columns(bound.decl)}
    states = [bound.decl for bound in program.bound.values()]
    names = {} if root is None else {at: _states_at(at, each) for at, each in paths(root)}
    methods = Methods(names, states, asks_none)

    def arguments(path: Path) -> tuple[Any, ...]:
        given = row_of(path, struct, kinds_of(struct)), ContextStandIn(declared, outputs, path)
        return given if root is None else (FunctionStandIn(root, methods, path), *given)

    found = trace_effects(function, arguments, end_of, RAISES, states, asks_none=asks_none)
    _check_shapes(found)
    return found


def _states_at(path: str, function: ProcessingFunction[Any]) -> dict[str, str]:
    """The full names of its states that take columns, by the names of its attributes."""
    return {name: f"{path}{state.name}" for name, state in own_states(function) if _by_columns(state)}


def _by_columns(state: StateDeclaration) -> bool:
    """Whether elements may all be checked before the first is inserted, into windows that each time has."""
    return isinstance(state, Windowed) and state.stage == 0 and state.bottom.gathers and type(state.windows) in _WINDOWS


def _check_shapes(decision: Decision) -> None:
    """Raise ``Untraceable`` where elements of one state are tuples of different lengths."""
    shapes: dict[str, Any] = {}
    for one in notes_in(decision):
        if isinstance(one, Insert) and shapes.setdefault(one.state, shape_of(one.element)) != shape_of(one.element):
            raise Untraceable(f"it inserts tuples of different lengths into {one.state!r}")


def _timestamp(function: Callable[[Any], Any] | str, struct: type) -> Callable[[Columns], Column] | str:
    assert not isinstance(function, str), "of a format that gives events"
    if isinstance(function, attrgetter):
        _, (name, *others) = function.__reduce__()
        if not others and name in field_types(struct) and not may_be_none(struct, name):
            return name
    decision, why_not = followed(function, struct, checked=True)
    if decision is None:
        raise Untraceable(f"the function of its event time cannot be followed: {why_not}")
    if isinstance(decision, Leaf) and isinstance(decision.result, Field):
        return ".".join(decision.result.path)
    return FieldFunction(function, struct)


class _Filter:
    """A source's filter as a function of columns."""

    def __init__(self, function: Callable[[Any], Any], struct: type) -> None:
        decision, why_not = followed(function, struct, checked=True)
        if decision is None:
            raise Untraceable(f"the filter of its source cannot be followed: {why_not}")
        self._column = FieldFunction(function, struct)

    def __call__(self, columns: Columns) -> NDArray[np.bool_]:
        return truth(self._column(columns))
