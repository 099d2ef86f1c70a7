"""Stand-ins for functions that take the items of a row: ``sum``, ``any``, ``all``, ``min`` and ``max``."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import GeneratorType
from typing import Any

from holon.dataflow.code_scan import Untraceable
from holon.dataflow.following.column_functions import ColumnFunction, MadeAnew
from holon.dataflow.following.loops.comprehensions import MadeList
from holon.dataflow.following.loops.loop import Carries, Computed, Loop, Note, Yield, notes_in
from holon.dataflow.following.loops.reducing import Reduction, loop_of_list, made_anew
from holon.dataflow.following.loops.turns import Turns, consumes
from holon.dataflow.following.loops.views import Loopable
from holon.dataflow.following.path import Path
from holon.dataflow.following.placeholders import Placeholder, expression_of, leaf_of
from holon.dataflow.following.stand_ins import NotAValue, StandInType
from holon.formats.batch import Column

_FURTHER = {"sum": "start", "min": "default", "max": "default"}
"""The names of further arguments."""


def stand_in_of(name: str, otherwise: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """In place of the builtin of this name. ``otherwise``: of what has no items."""
    function = getattr(builtins, name)

    def called(*given: Any, **named: Any) -> Any:
        items = _items_of(given, named, name) if name != "len" else None
        if items is None and given and type(given[0]) is MadeList:
            items = given[0]
        if items is None:
            return (otherwise or function)(*given, **named)
        further = dict(named)
        if len(given) > 1:
            further["start"] = given[1]
        return _reduced(name, function, items, further)

    return called


def making_stand_in_of(name: str) -> Callable[..., Any]:
    """In place of a builtin that makes a list or set of all items. Of ``sorted`` constants may say ``reverse``."""
    function = getattr(builtins, name)

    def called(*given: Any, **named: Any) -> Any:
        if len(given) != 1 or not all(type(one) is bool for one in named.values()):
            return function(*given, **named)
        make = partial(function, **named) if named else function
        if isinstance(given[0], Placeholder):
            return given[0]._holon_apply(name, MadeAnew(make), type=_MADE[name])
        items = given[0] if type(given[0]) is MadeList else _items_of(given, {}, name)
        if items is None:
            return make(*given)
        path = Path.current()
        return Placeholder(made_anew(name, make, loop_of(items, path), path), path, _MADE[name])

    return called if name == "sorted" else StandInType.of(function, called)


_MADE: dict[str, type] = {"frozenset": frozenset, "list": list, "set": set, "sorted": list, "tuple": tuple}


class JoinStandIn(NotAValue):
    """In place of a constant text whose ``join`` is called."""

    def __init__(self, separator: str) -> None:
        self._join = separator.join

    def join(self, texts: Any, /) -> Any:
        """As of the text."""
        if isinstance(texts, Placeholder):
            return texts._holon_apply("join", self._join, type=str)
        if type(texts) in (list, tuple) and any(isinstance(one, Placeholder) for one in texts):
            path = Path.current()
            return Placeholder(path.apply("join", JoinParts(self._join), *map(expression_of, texts)), path, str)
        items = texts if type(texts) is MadeList else _items_of((texts,), {}, "join")
        if items is None:
            return self._join(texts)
        path = Path.current()
        loop = loop_of(items, path)
        made = path.interned("join", Reduction(self._join, loop, None, is_list=True), *loop.expressions)
        path.made.append((made,))
        return Placeholder(made, path, str)


class JoinParts(ColumnFunction):
    """``join`` of so many values of a row."""

    def __init__(self, join: Callable[[Iterable[str]], str]) -> None:
        self._join = join
        self.key = (join,)

    def __call__(self, *values: Any) -> Any:
        return self._join(values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """They are joined row by row."""
        return None


def _items_of(given: Sequence[Any], named: Mapping[str, Any], name: str) -> Iterable[Any] | None:
    """The turns of the one argument, where it is the items of a field, or a generator expression over such."""
    if not given or len(given) > 1 + (name == "sum"):
        return None
    if isinstance(given[0], Placeholder):
        return Turns(given[0]._holon_over())
    if isinstance(given[0], Loopable):
        return Turns(given[0].over())
    if isinstance(given[0], GeneratorType) and given[0].gi_frame is not None:
        return given[0] if isinstance(given[0].gi_frame.f_locals.get(".0"), Turns) else None
    return None


def _reduced(name: str, function: Callable[..., Any], items: Iterable[Any], further: Mapping[str, Any]) -> Placeholder:
    path = Path.current()
    loop = loop_of(items, path)
    if name == "len":
        assert type(items) is MadeList and items.length is not None, "others are asked for their length"
        return Placeholder(items.length, path, int)
    if any(one != _FURTHER.get(name) for one in further):
        raise Untraceable(f"it uses `{name}` with {next(iter(further))}=")
    (argument,) = map(expression_of, further.values()) if further else (None,)
    reduction = Reduction(function, loop, argument, *further, is_list=type(items) is MadeList)
    arguments = (*loop.expressions, *(() if argument is None else (argument,)))
    made = path.interned(name, reduction, *arguments)
    path.made.append((made,))
    return Placeholder(made, path, bool if name in ("any", "all") else None)


def notes_of(results: Any, path: Path) -> Sequence[Note]:
    """The results of a function that gives any number of them: items of a row, or so many values."""
    refuse_loops(path)
    items = results if type(results) is MadeList else _items_of((results,), {}, "")
    if items is not None:
        return [loop_of(items, path)]
    if type(results) not in (list, tuple):
        raise Untraceable(f"it gives a {type(results).__name__}, and no list of results")
    return [Yield(leaf_of(one, path)) for one in results]


def refuse_loops(path: Path) -> None:
    """Raise ``Untraceable`` where a loop has been followed that has no effect; one that is left decides of the way."""
    if not all(type(note) is Loop and note.exits for note in path.notes):
        raise Untraceable("it has a loop of which nothing follows")


def loop_of(items: Iterable[Any], path: Path) -> Loop:
    """The loop over turns, each of which yields what it gives."""
    if type(items) is MadeList:
        return loop_of_list(items, path)
    begin = len(path.notes)
    _take_all(items, path)
    made = path.notes[begin:]
    del path.notes[begin:]
    if len(made) != 1 or not isinstance(made[0], Loop) or made[0].exits:
        raise Untraceable("it has a generator expression over what is no list of the record")
    if not all(isinstance(note, Carries | Yield | Computed | Loop) for note in notes_in(made[0].body)):
        raise Untraceable("it inserts or emits within an expression")
    return made[0]


@consumes
def _take_all(items: Iterable[Any], path: Path) -> None:
    for value in items:
        path.notes.append(Yield(leaf_of(value, path)))
