"""Stand-ins for ``enumerate``, ``zip``, ``reversed`` and ``range`` of what a row has: loops may go over them."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from typing import Any

from holon.dataflow.code_scan import Untraceable, is_constant
from holon.dataflow.expressions import Apply, Constant, Expression, Field
from holon.dataflow.following.loops.loop import ItemOf, PlaceOf
from holon.dataflow.following.loops.sources import FewInts, PartOfZip, Range, Reversed, Zipped
from holon.dataflow.following.loops.turns import Over
from holon.dataflow.following.loops.views import Loopable
from holon.dataflow.following.path import Path
from holon.dataflow.following.placeholders import VALUES, Placeholder, expression_of, holds
from holon.dataflow.following.stand_ins import StandInType


class Looped(Loopable):
    """The result of such a function: an iterator, of which one loop takes the items."""

    __slots__ = ("_is_taken", "_over", "_scope")

    def __init__(self, over: Over) -> None:
        self._over, self._scope, self._is_taken = over, over.path.scope, False

    def over(self) -> Over:
        """Its items, for a loop."""
        if self._is_taken or self._scope is not self._over.path.scope:
            raise Untraceable("it goes over an iterator more than once (zip, enumerate, reversed)")
        self._is_taken = True
        return self._over


def looped_stand_in_of(name: str) -> Any:
    """In place of the builtin of this name: of values that are there it gives what Python gives."""
    function, of_rows = getattr(builtins, name), _OF_ROWS[name]

    def called(*given: Any, **named: Any) -> Any:
        is_of_rows = any(isinstance(one, Placeholder | Loopable) for one in (*given, *named.values()))
        return of_rows(*given, **named) if is_of_rows else function(*given, **named)

    return StandInType.of(function, called)


def _over_of(items: Any, function: str) -> Over:
    if isinstance(items, Placeholder):
        return items._holon_over()
    if isinstance(items, Loopable):
        return items.over()
    raise Untraceable(f"it uses `{function}` of a {type(items).__name__} beside what a record has")


def _enumerated(items: Any, start: Any = 0) -> Looped:
    over = _over_of(items, "enumerate")
    if not (type(start) is int or (isinstance(start, Placeholder) and start._holon_type is int)):
        raise Untraceable("it uses `enumerate` from what is no int")

    def item(field: Field) -> Any:
        place = _place_at(field, over.path, start)
        return Placeholder(place, over.path, int), over.item(field)

    return Looped(over._replace(item=item))


def _place_at(field: Field, path: Path, start: Any) -> Expression:
    (first, *_) = field.path
    assert isinstance(first, ItemOf), "only items are enumerated"
    place = Field((PlaceOf.at(first.depth),))
    return place if start == 0 and type(start) is int else path.interned("+", operator.add, place, expression_of(start))


def _zipped(*given: Any, strict: Any = False) -> Looped:
    if type(strict) is not bool:
        raise Untraceable("it uses `zip` with a `strict` that is no constant")
    found = [None if _is_of_constants(one) else _over_of(one, "zip") for one in given]
    if any(one is not None and _is_strict(one.iterable) for one in found):
        raise Untraceable("it uses `zip` of a strict zip")  # its error may come, or not
    path = next(one.path for one in found if one is not None)
    overs = [_constants(items, path) if one is None else one for items, one in zip(given, found, strict=True)]
    made = path.interned("zip", Zipped(strict), *(one.iterable for one in overs))

    def item(field: Field) -> Any:
        return tuple(one.item(Field((*field.path, PartOfZip.at(number)))) for number, one in enumerate(overs))

    return Looped(Over(path, made, item, VALUES))


def _is_strict(iterable: Expression) -> bool:
    return isinstance(iterable, Apply) and isinstance(iterable.function, Zipped) and iterable.function.is_strict


def _is_of_constants(items: Any) -> bool:
    return type(items) in (list, range, tuple) and not holds(items) and all(map(is_constant, items))


def _constants(items: Sequence[Any], path: Path) -> Over:
    if path.asks_none and None in items:
        raise Untraceable("it uses `is None` where a list may hold None")
    kind = type(items[0]) if len({type(one) for one in items}) == 1 else None
    return Over(path, Constant(list(items)), lambda field: Placeholder(field, path, kind), VALUES)


def _in_reverse(items: Any) -> Looped:
    if not isinstance(items, Placeholder | _RangeOf):
        raise Untraceable("it uses `reversed` of what is no list")
    over = _over_of(items, "reversed")
    return Looped(over._replace(iterable=over.path.interned("reversed", Reversed(), over.iterable)))


class _RangeOf(Looped):
    """The result of ``range``, which is no iterator: any number of loops may go over it."""

    __slots__ = ()

    def over(self) -> Over:
        """Its items, for a loop."""
        return self._over


def _range_of(*given: Any) -> Looped:
    if len(given) > 3:
        raise Untraceable("it uses `range` of more than three values")
    path = next(one._holon_path for one in given if isinstance(one, Placeholder))
    if not path.decide(path.interned("few", FewInts(), *map(expression_of, given))):
        path.has_raised = True
        raise OverflowError("a range of many ints")  # so the function is called
    made = path.apply("range", Range(), *map(expression_of, given))
    return _RangeOf(Over(path, made, lambda field: Placeholder(field, path, int), VALUES))


_OF_ROWS: dict[str, Callable[..., Looped]] = {
    "enumerate": _enumerated, "range": _range_of, "reversed": _in_reverse, "zip": _zipped,
}  # fmt: skip
