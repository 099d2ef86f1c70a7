"""Placeholders for the arguments of ``process``: itself, the event and the context. They note inserts and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from inspect import getattr_static
from types import FunctionType
from typing import Any, NamedTuple, NoReturn

from holon.dataflow.code_scan import Untraceable, is_constant, is_table, runs_no_code
from holon.dataflow.dict_rows import are_names
from holon.dataflow.expressions import Constant, Expression, Field, Leaf
from holon.dataflow.following.loops.loop import Effects
from holon.dataflow.following.path import Path
from holon.dataflow.following.placeholders import Placeholder, leaf_of
from holon.dataflow.following.tables import PatternStandIn, SetStandIn, TableStandIn
from holon.dataflow.tracing import prepared
from holon.program.function import ProcessingFunction
from holon.program.states import StateDeclaration, Windowed

EVENT_TIME = " event time"
"""The column of event times, beside those of fields, whose names have no blanks."""


class Insert(NamedTuple):
    """One insert into a state, by its full name: the element and its event time in ms."""

    state: str
    element: Leaf
    ts_ms: Leaf

    @property
    def leaves(self) -> Sequence[Leaf]:
        """The element and its time."""
        return self.element, self.ts_ms


class Emit(NamedTuple):
    """One result for an output. ``key`` None: it has none."""

    output: str
    value: Leaf
    key: Leaf | None

    @property
    def leaves(self) -> Sequence[Leaf]:
        """The value and its key."""
        return (self.value,) if self.key is None else (self.value, self.key)


def end_of(result: Any, path: Path) -> Effects:
    """The leaf of a way. Raises ``Untraceable`` for a result."""
    if result is not None:
        raise Untraceable("it returns something")
    return path.effects()


class StateStandIn:
    """In place of a state's handle."""

    __slots__ = ("_name", "_path")

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._path = path

    def insert(self, element: Any, ts_ms: Any) -> Unknown:
        """Note it."""
        self._path.refuse_within_try("inserts")
        made = leaf_of(element, self._path)
        shape_of(made)
        self._path.notes.append(Insert(self._name, made, leaf_of(ts_ms, self._path)))
        return Unknown()

    def __getattr__(self, name: str) -> NoReturn:
        raise Untraceable(f"it uses {name!r} of the state {self._name!r}")


class Unknown:
    """Whether an insert was in time, which its record's watermark decides."""

    __slots__ = ()

    def _refused(self, *_: Any) -> NoReturn:
        raise Untraceable("it uses what insert gives")

    __bool__ = __eq__ = __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __hash__ = __index__ = _refused  # type: ignore[assignment]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __and__ = __or__ = __xor__ = __invert__ = _refused
    __str__ = __repr__ = __format__ = _refused  # type: ignore[assignment]


class ContextStandIn:
    """In place of the context: the event time, results, and the states of a job's function form.

    ``outputs``: the names of those that encode by JSON.
    """

    __slots__ = ("_outputs", "_path", "_states")

    def __init__(self, states: Mapping[StateDeclaration, str], outputs: Collection[str], path: Path) -> None:
        self._states = states
        self._outputs = outputs
        self._path = path

    @property
    def timestamp_ms(self) -> Placeholder:
        """The event time of each record."""
        return Placeholder(Field((EVENT_TIME,)), self._path, int)

    def __getitem__(self, state: Any) -> StateStandIn:
        if not isinstance(state, Windowed) or state not in self._states:
            raise Untraceable("it uses `ctx[...]` of what takes no inserts by columns")
        return StateStandIn(self._states[state], self._path)

    def emit(self, value: Any, *, output: str = "main", key: Any = None) -> None:
        """Note it."""
        self._path.refuse_within_try("emits")
        if output not in self._outputs:
            raise Untraceable(f"it emits to {output!r}, which has an encoding of its own, or is none of the job's")
        made = None if key is None else leaf_of(key, self._path)
        self._path.notes.append(Emit(output, row_leaf(value, self._path), made))

    def __getattr__(self, name: str) -> NoReturn:
        raise Untraceable(f"it uses ctx.{name}")


def row_leaf(value: Any, path: Path) -> Leaf:
    """A result as a leaf."""
    if type(value) is dict and not are_names(value):
        raise Untraceable("it emits a dict whose keys are no names")
    return leaf_of(value, path)


class AsksNone(Untraceable):
    """A method that the function calls asks whether something is None."""


class Methods:
    """Methods that the function calls, of itself and of those nested in it: each is read once.

    ``asks_none``: they may ask whether something is None. ``states``: by the path of a nested function their full
    names, by the names of attributes.
    """

    def __init__(self, states: Mapping[str, Mapping[str, str]], known: Sequence[Any], asks_none: bool) -> None:
        self.states = states
        self._known = known
        self._asks_none = asks_none
        self._prepared: dict[FunctionType, Callable[..., Any]] = {}

    def prepared(self, method: FunctionType) -> Callable[..., Any]:
        """The method as it is followed. Raises ``AsksNone``, and ``Untraceable``."""
        if method not in self._prepared:
            self._prepared[method], asks_none = prepared(method, self._known)
            if asks_none and not self._asks_none:
                raise AsksNone
        return self._prepared[method]


class FunctionStandIn:
    """In place of a ``ProcessingFunction``: its states, methods and nested functions, and what never changes.

    ``at``: its path among nested functions. Its own names are such that no function has one of them.
    """

    __slots__ = ("_holon_at", "_holon_function", "_holon_methods", "_holon_path")

    def __init__(self, function: Any, methods: Methods, path: Path, at: str = "") -> None:
        self._holon_function = function
        self._holon_methods = methods
        self._holon_path = path
        self._holon_at = at

    def __getattr__(self, name: str) -> Any:
        states = self._holon_methods.states[self._holon_at]
        if name in states:
            return StateStandIn(states[name], self._holon_path)
        member = getattr_static(self._holon_function, name)  # no property runs
        if isinstance(member, FunctionType):
            self._holon_path.refuse_formats()
            method = self._holon_methods.prepared(member)
            return method if name in vars(self._holon_function) else partial(method, self)
        if isinstance(member, ProcessingFunction):
            return FunctionStandIn(member, self._holon_methods, self._holon_path, f"{self._holon_at}{name}.")
        if isinstance(member, StateDeclaration):
            raise Untraceable(f"it uses the state {name!r}, which takes no inserts by columns")
        if type(member) is re.Pattern:
            return PatternStandIn(member)
        if is_table(member) and runs_no_code(member):
            return SetStandIn(member) if isinstance(member, frozenset | set) else TableStandIn(member)
        if not (is_constant(member) and runs_no_code(member)):
            raise Untraceable(f"it uses self.{name}, a {type(member).__name__}")
        return member


def shape_of(element: Leaf) -> Any:
    """How deep tuples lie in an element. Raises ``Untraceable`` for other values that have parts."""
    if isinstance(element.result, Constant) and not is_constant(element.result.value):
        raise Untraceable(f"it inserts a {type(element.result.value).__name__}")
    if isinstance(element.result, Field) and not element.result.path:
        raise Untraceable("it inserts the record itself")
    if isinstance(element.result, Expression):
        return None
    if element.struct is not None or isinstance(element.result, Mapping) or not element.result:
        raise Untraceable("it inserts a Struct, a dict or an empty tuple")
    return tuple(map(shape_of, element.result))
