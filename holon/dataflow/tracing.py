"""Functions of a row, followed with a placeholder in place of the row: what they compute, as expressions.

Where a placeholder is used as a condition, the function is followed both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from holon.dataflow.arithmetic import is_there
from holon.dataflow.code_scan import Untraceable, global_of, scan
from holon.dataflow.errors import FlowError, LacksAttribute
from holon.dataflow.expressions import Apply, Branch, Constant, Decision, Expression, Field, Leaf
from holon.dataflow.following.calls import replaced
from holon.dataflow.following.declared import kinds_of
from holon.dataflow.following.formats import is_marked
from holon.dataflow.following.path import Path, Taken
from holon.dataflow.following.placeholders import Placeholder, holds
from holon.dataflow.following.whole_texts import keeps_texts_whole
from holon.errors import USER_ERRORS

MAX_PATHS = 64
"""A function with more ways through it runs row by row."""


def trace(function: Callable[[Any], Any], row_type: Any, *, checked: bool = False) -> Decision:
    """The result of a function for a row of this type (None: not known).

    ``checked``: fields have their declared types, since a format has read them. A Struct that a function makes may hold
    None anywhere. Raises ``Untraceable``, and ``FlowError`` for a field that the type does not have.
    """
    asks_none = scan(function)
    if asks_none and not checked:
        raise Untraceable("it uses `is None` on rows that a function has made")
    kinds = kinds_of(row_type) if checked else ()
    row: Callable[[Path], Any] = lambda path: (Placeholder(Field(()), path, row_type, kinds),)  # noqa: E731
    return _follow(function, row, used_leaf, asks_none, called=_called(function), is_checked=checked)


def trace_with(function: Callable[[Any], Any], argument: Callable[[Path], Any]) -> Decision:
    """As ``trace``, with an argument that is made for each way through the function."""
    return _follow(function, lambda path: (argument(path),), used_leaf, scan(function))


def follow_all_ways(function: Callable[[Any], Any], argument: Callable[[Path], Any]) -> None:
    """Call a function once for each way through it, with an argument that is made for each; its results are nothing.

    Raises as ``trace``.
    """
    leaf = Leaf(Constant(None))
    _follow(function, lambda path: (argument(path),), lambda *_: leaf, scan(function), called=leaf)


def trace_effects(
    function: Callable[..., Any],
    arguments: Callable[[Path], tuple[Any, ...]],
    effects_of: Callable[[Any, Path], Leaf],
    failing: Leaf,
    known: Sequence[Any] = (),
    *,
    asks_none: bool = False,
) -> Decision:
    """The effects of a function of records, as a format has read them, by the way that each goes.

    ``effects_of`` makes a way's leaf of what the function has given; ``failing`` is that of a way on which it raises.
    ``known``: objects that the function may name, since ``arguments`` know what becomes of them. ``asks_none``: one
    that it calls by them asks whether something is None. Raises as ``trace``.
    """
    asks_none |= scan(function, known)
    return _follow(function, arguments, effects_of, asks_none, called=failing, is_checked=True)


def prepared(function: Callable[..., Any], known: Sequence[Any]) -> tuple[Callable[..., Any], bool]:
    """A function that a followed one calls by an attribute, as it is called; and whether it asks for None.

    Raises ``Untraceable``.
    """
    asks_none = scan(function, known)
    return replaced(function), asks_none


def row_of(path: Path, row_type: Any) -> Placeholder:
    """The placeholder of a row as a format has read it."""
    return Placeholder(Field(()), path, row_type, kinds_of(row_type))


def _called(function: Callable[[Any], Any]) -> Leaf:
    """Calls of the function with the rows of a way on which it raises."""
    return Leaf(Apply("called", function, (Field(()),)))


def _follow(
    function: Callable[..., Any],
    arguments: Callable[[Path], tuple[Any, ...]],
    end_of: Callable[[Any, Path], Leaf],
    asks_none: bool,
    *,
    called: Leaf | None = None,
    is_checked: bool = False,
) -> Decision:
    """``called``: of a way that fails since a value is None, or a Struct that lacks a field; None: there is none."""
    paths: list[tuple[Path, Leaf]] = []
    waiting: list[tuple[bool, ...]] = [()]
    with_others = replaced(function)
    may_format = cache(partial(keeps_texts_whole, function, global_of))
    interned: dict[Any, Apply] = {}
    while waiting:
        answers = waiting.pop()
        path = Path(answers, asks_none, may_format, is_checked, interned)
        try:
            with path.being_followed():
                leaf = end_of(with_others(*arguments(path)), path)
        except Untraceable as error:
            raise _placed(error) from None
        except FlowError:
            raise
        except USER_ERRORS as error:
            if called is None or not (path.has_none or path.has_raised or isinstance(error, LacksAttribute)):
                raise Untraceable(f"with a placeholder it raises {type(error).__name__}: {error}") from error
            leaf = called  # rows of this way, if there are any, raise it
        paths.append((path, leaf))
        taken = [one.answer for one in path.taken]
        waiting += [(*taken[:number], False) for number in range(len(answers), len(taken))]
        if len(paths) + len(waiting) > MAX_PATHS:
            raise Untraceable(f"it has more than {MAX_PATHS} ways through it")
    return _tree([(path.taken, leaf) for path, leaf in paths])


def _placed(error: Untraceable) -> Untraceable:
    """At the last line of a function that is followed."""
    trace = error.__traceback__
    while trace is not None:
        code, name = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", ""))
        if not name.startswith("holon."):
            error.place = ""  # that function has called others
            error.placed(code, trace.tb_lineno)
        trace = trace.tb_next
    return error


def _tree(paths: list[tuple[list[Taken], Leaf]]) -> Decision:
    taken, leaf = paths[0]
    if not taken:
        return leaf
    sides: dict[bool, list[tuple[list[Taken], Leaf]]] = {True: [], False: []}
    for way, end in paths:
        sides[way[0].answer].append((way[1:], end))
    then, otherwise = _tree(sides[True]), _tree(sides[False])
    condition, _, before = taken[0]
    return then if _never_differ(condition, then, otherwise) else Branch(condition, then, otherwise, before)


def _never_differ(condition: Expression, then: Decision, otherwise: Decision) -> bool:
    """Whether both ways give one constant, and the condition cannot fail."""
    if not (isinstance(condition, Apply) and condition.function is is_there):
        return False
    if not (isinstance(then, Leaf) and isinstance(otherwise, Leaf)):
        return False
    one, other = then.result, otherwise.result
    return isinstance(one, Constant) and isinstance(other, Constant) and one.value is other.value


def used_leaf(result: Any, path: Path) -> Leaf:
    """A result as a leaf. Raises ``Untraceable`` where the function has computed what nothing follows from."""
    leaf = leaf_of(result, path)
    path.check_used(leaf)
    return leaf


def leaf_of(result: Any, path: Path) -> Leaf:
    """The same, of a part of a result."""
    if isinstance(result, Placeholder):
        return Leaf(result._holon_expression)
    if type(result) is str and is_marked(result):
        return Leaf(path.formatted(result))
    if isinstance(result, msgspec.Struct) and type(result).__struct_fields__:  # without fields it is a constant
        fields = {name: leaf_of(getattr(result, name), path) for name in type(result).__struct_fields__}
        return Leaf(fields, type(result))
    if type(result) is tuple:
        return Leaf(tuple(leaf_of(one, path) for one in result))
    if holds(result):
        raise Untraceable(f"it gives a {type(result).__name__} of expressions")
    return Leaf(Constant(result))
