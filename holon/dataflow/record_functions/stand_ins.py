"""Placeholders of what ``process`` is called with: itself, the event and the context. They note what it inserts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from holon.dataflow.code_scan import Untraceable, is_constant
from holon.dataflow.expressions import Constant, Expression, Field, Leaf
from holon.dataflow.following.path import Path
from holon.dataflow.tracing import Placeholder, leaf_of
from holon.program.states import StateDeclaration, Windowed

EVENT_TIME = " event time"
"""The column of event times, beside those of fields, whose names have no blanks."""


class Insert(NamedTuple):
    """One insert into a state, by its full name: the element and its event time in ms."""

    state: str
    element: Leaf
    ts_ms: Leaf


@dataclass(frozen=True, slots=True, eq=False)
class Effects(Leaf):
    """The inserts of one way through the function. ``raises``: it may raise there."""

    inserts: tuple[Insert, ...] = ()
    raises: bool = False


RAISES = Effects((), raises=True)
"""A way whose records are for the function itself."""


def effects_of(result: Any, path: Path, inserts: list[Insert]) -> Effects:
    """The leaf of a way. Raises ``Untraceable`` for a result, or for what is computed and not inserted."""
    if result is not None:
        raise Untraceable("it returns something")
    made = Effects([part for one in inserts for part in (one.element, one.ts_ms)], inserts=tuple(inserts))
    path.check_used(made)
    return made


class StateStandIn:
    """In place of a state's handle."""

    __slots__ = ("_inserts", "_name", "_path")

    def __init__(self, name: str, path: Path, inserts: list[Insert]) -> None:
        self._name = name
        self._path = path
        self._inserts = inserts

    def insert(self, element: Any, ts_ms: Any) -> Unknown:
        """Note it."""
        made = leaf_of(element, self._path)
        shape_of(made)
        self._inserts.append(Insert(self._name, made, leaf_of(ts_ms, self._path)))
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
    """In place of the context: the event time, and the states of a job's function form."""

    __slots__ = ("_inserts", "_path", "_states")

    def __init__(self, states: Mapping[StateDeclaration, str], path: Path, inserts: list[Insert]) -> None:
        self._states = states
        self._path = path
        self._inserts = inserts

    @property
    def timestamp_ms(self) -> Placeholder:
        """The event time of each record."""
        return Placeholder(Field((EVENT_TIME,)), self._path, int)

    def __getitem__(self, state: Any) -> StateStandIn:
        if not isinstance(state, Windowed) or state not in self._states:
            raise Untraceable("it uses `ctx[...]` of what takes no inserts by columns")
        return StateStandIn(self._states[state], self._path, self._inserts)

    def __getattr__(self, name: str) -> NoReturn:
        raise Untraceable(f"it uses ctx.{name}")


class FunctionStandIn:
    """In place of a ``ProcessingFunction``: its states by their names, and its attributes that never change."""

    __slots__ = ("_function", "_inserts", "_path", "_states")

    def __init__(self, function: Any, states: Mapping[str, str], path: Path, inserts: list[Insert]) -> None:
        self._function = function
        self._states = states
        self._path = path
        self._inserts = inserts

    def __getattr__(self, name: str) -> Any:
        if name in self._states:
            return StateStandIn(self._states[name], self._path, self._inserts)
        value = getattr(self._function, name)
        if not is_constant(value):
            raise Untraceable(f"it uses self.{name}, a {type(value).__name__}")
        return value


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
