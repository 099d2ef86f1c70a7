"""Functions of a row, followed with a placeholder in place of the row: what they compute, as expressions.

Where a placeholder is used as a condition, the function is followed both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from holon.dataflow.code_scan import Untraceable, global_of, scan
from holon.dataflow.errors import FlowError, LacksAttribute
from holon.dataflow.expressions import Apply, Constant, Decision, Field, Leaf
from holon.dataflow.following.calls import replaced
from holon.dataflow.following.declared import kinds_of
from holon.dataflow.following.loops.comprehensions import Misused
from holon.dataflow.following.loops.loop import RAISES, ItemOf, Loop, Yield, effects_of
from holon.dataflow.following.loops.stand_ins import notes_of, refuse_loops
from holon.dataflow.following.loops.ways import MAX_WAYS, decision_of, further_ways
from holon.dataflow.following.path import Path, Turned
from holon.dataflow.following.placeholders import leaf_of, row_of
from holon.dataflow.following.whole_texts import keeps_texts_whole
from holon.errors import USER_ERRORS


def trace(function: Callable[[Any], Any], row_type: Any, *, checked: bool = False) -> Decision:
    """The result of a function for a row of this type (None: not known).

    ``checked``: fields have their declared types, since a format has read them. A Struct that a function makes may hold
    None anywhere. Raises ``Untraceable``, and ``FlowError`` for a field that the type does not have.
    """
    asks_none, row = _asked(function, row_type, checked)
    follow = partial(_follow, function, row, used_leaf, called=_called(function), is_checked=checked)
    return _with_or_without_none(follow, asks_none, checked)


def trace_flat(function: Callable[[Any], Any], row_type: Any, *, checked: bool = False) -> Decision:
    """As ``trace``, of a function that gives any number of results: the leaves are ``Effects`` that yield these."""
    asks_none, row = _asked(function, row_type, checked)
    item = ItemOf.at(0)
    results = Apply("called", lambda row: list(function(row)), (Field(()),))
    called = effects_of([Loop(item, results, effects_of([Yield(Leaf(Field((item,))))]), ())])
    follow = partial(_follow, function, row, _yielding_leaf, called=called, is_checked=checked)
    return _with_or_without_none(follow, asks_none, checked)


def _asked(function: Callable[[Any], Any], row_type: Any, checked: bool) -> tuple[bool, Callable[[Path], Any]]:
    """Whether a function asks for None, and its one argument on a way."""
    asks_none = scan(function)
    if asks_none and not checked:
        raise Untraceable("it uses `is None` on rows that a function has made")
    kinds = kinds_of(row_type) if checked else ()
    return asks_none, lambda path: (row_of(path, row_type, kinds),)


def _with_or_without_none(follow: Callable[[bool], Decision], asks_none: bool, checked: bool) -> Decision:
    """The ways of a function; where it is not followed else, each value that may be None is so on ways of its own."""
    try:
        return follow(asks_none)
    except Untraceable as error:
        if asks_none or not checked:
            raise
        try:
            return follow(True)
        except (FlowError, Untraceable):
            raise error from None


def _yielding_leaf(result: Any, path: Path) -> Leaf:
    path.notes.extend(notes_of(result, path))
    return path.effects()


def constant_leaf(result: Any, *, is_flat: bool = False) -> Leaf:
    """The result of a function that was called for one row, as that row's leaf; ``is_flat``: it is an iterable."""
    path = Path((), False, lambda: False, True, {}, Turned(may_raise=False))
    return _yielding_leaf(list(result), path) if is_flat else leaf_of(result, path)


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
    end_of: Callable[[Any, Path], Leaf],
    failing: Leaf,
    known: Sequence[Any] = (),
    *,
    asks_none: bool = False,
) -> Decision:
    """The effects of a function of records, as a format has read them, by the way that each goes.

    ``end_of`` makes a way's leaf of what the function has given; ``failing`` is that of a way on which it raises.
    ``known``: objects that the function may name, since ``arguments`` know what becomes of them. ``asks_none``: one
    that it calls by them asks whether something is None. Raises as ``trace``.
    """
    asks_none |= scan(function, known)
    follow = partial(_follow, function, arguments, end_of, called=failing, is_checked=True)
    return _with_or_without_none(follow, asks_none, checked=True)


def prepared(function: Callable[..., Any], known: Sequence[Any]) -> tuple[Callable[..., Any], bool]:
    """A function that a followed one calls by an attribute, as it is called; and whether it asks for None.

    Raises ``Untraceable``.
    """
    asks_none = scan(function, known, may_change=False)
    return replaced(function), asks_none


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
    turned = Turned(may_raise=called is RAISES)
    while waiting:
        answers = waiting.pop()
        path = Path(answers, asks_none, may_format, is_checked, interned, turned)
        try:
            with path.being_followed():
                result = with_others(*arguments(path))
                path.leave_loops()
                assert not path.loops, "a loop goes on behind its function"
                leaf = end_of(result, path)
        except Untraceable as error:
            raise _placed(error) from None
        except Misused as error:
            raise _placed(Untraceable(str(error)).with_traceback(error.__traceback__)) from None
        except FlowError:
            raise
        except USER_ERRORS as error:
            path.leave_loops()
            is_of_rows = path.has_none or path.has_raised or isinstance(error, LacksAttribute)
            if is_of_rows and path.loops and turned.raising is not None:
                path.keep_raising()
                waiting.append(answers)  # once more, without that turn
                continue
            if path.has_raised and path.loops:
                raise Untraceable("it has a try in a loop, which other errors may leave") from error
            if called is None or path.loops or not is_of_rows:
                raise Untraceable(f"with a placeholder it raises {type(error).__name__}: {error}") from error
            leaf = called  # rows of this way, if there are any, raise it
        paths.append((path, leaf))
        waiting += further_ways(answers, path.taken)
        if len(paths) + len(waiting) > MAX_WAYS:
            raise Untraceable(f"it has more than {MAX_WAYS} ways through it")
    return decision_of([(path.taken, leaf) for path, leaf in paths])


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


def used_leaf(result: Any, path: Path) -> Leaf:
    """A result as a leaf. Raises ``Untraceable`` where the function has computed what nothing follows from."""
    leaf = leaf_of(result, path)
    refuse_loops(path)
    path.check_used(leaf)
    return leaf
