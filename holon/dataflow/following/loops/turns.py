"""The turns of a loop while a function is followed: one for each way through the loop's body.

The body runs anew at each turn, so the loop itself takes it along all of its ways. No turn may know another: the code
is read for that (``reading.py``).
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from inspect import CO_GENERATOR, currentframe
from types import CodeType, FrameType
from typing import Any, NamedTuple

from holon.dataflow.code_scan import Untraceable, is_constant
from holon.dataflow.expressions import Apply, Expression, Field, Leaf
from holon.dataflow.following.loops.carrying import PartOf
from holon.dataflow.following.loops.comprehensions import MadeList, list_of
from holon.dataflow.following.loops.ends import Ends, LeftBy
from holon.dataflow.following.loops.locals import give
from holon.dataflow.following.loops.loop import RAISES, CarriedOf, Carries, ItemOf, Loop, Yield, has_effects
from holon.dataflow.following.loops.reading import hands_on, read_body
from holon.dataflow.following.loops.reducing import Folded, Reduction
from holon.dataflow.following.loops.ways import MAX_WAYS, Taken, decision_of, further_ways, partings_of
from holon.dataflow.following.parts import parts_at_none
from holon.dataflow.following.path import Path, expressions_of

_GET_ITER, _FOR_ITER = dis.opmap["GET_ITER"], dis.opmap["FOR_ITER"]
_CONSUMERS: set[CodeType] = set()
LEFT = "it leaves a loop before its last item (break, return)"


def consumes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes each value of a generator expression, and knows that turns are ways."""
    _CONSUMERS.add(function.__code__)
    return function


def begins_loop(called: FrameType | None) -> bool:
    """Whether the caller of this frame asks there for the turns of a loop or of a generator expression."""
    frame = None if called is None else called.f_back
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == _GET_ITER


class Values(NamedTuple):
    """Values of a followed function as leaves; whether expressions are in them; and placeholders of expressions."""

    leaf: Callable[[Any, Path], Leaf]
    holds: Callable[[Any], bool]
    placeholder: Callable[[Expression, Path], Any]


class Over(NamedTuple):
    """The items of a loop: of lists that rows have. ``item`` makes the item anew, from its place among fields."""

    path: Path
    iterable: Expression
    item: Callable[[Field], Any]
    values: Values


class Turns:
    """An iterator of the one item that stands for all, as often as there are ways."""

    def __init__(self, over: Over) -> None:
        over.path.refuse_within_try("has a loop")
        self._path, self._iterable, self._make, self._values = over
        self._made: MadeList | None = None
        self._is_inner = False
        """Whether the loop is within another one of the same comprehension."""
        self._scope = over.path.scope
        self._frame: FrameType | None = None
        """Of a loop that a turn may leave."""
        self._inside: frozenset[int] = frozenset()
        """The places of its code from which another turn may come."""
        self.at: Any = None
        """The way to it, the same each time that this way is followed."""
        self._waiting: list[tuple[bool, ...]] | None = None
        self._ways: list[tuple[list[Taken], Leaf]] = []
        self._answers: tuple[bool, ...] | None = None

    def __iter__(self) -> Turns:
        return self

    def __next__(self) -> Any:
        made = _check_consumer(called := currentframe())
        frame = None if called is None else called.f_back
        assert frame is not None
        if self._waiting is None:
            self._begin(made, frame)
        else:
            self._end_turn(frame)
        self._next_answers()
        if self._answers is None:
            self._end(frame)
            raise StopIteration
        self._path.enter(self._answers)
        found = (Field((CarriedOf.at(self._item.depth, number),)) for number in range(len(self._names)))
        give(frame, {name: self._value(field) for name, field in zip(self._names, found, strict=True)})
        return self._make(Field((self._item,)))

    @property
    def turn(self) -> Any:
        """The identity of the turn that goes on."""
        return self.at, self._answers

    def is_left(self) -> bool:
        """Whether the function has gone on to code behind the loop, within a turn."""
        return self._frame is not None and self._frame.f_lasti not in self._inside

    def leave(self) -> None:
        """The way of this turn goes on behind the loop."""
        path, loop = self._path, self._loop
        known = path.turned.left.get(self.turn)
        number = len(loop.exits) if known is None else known.number
        left = path.go_on_behind(self._left_by(number), loop, number)
        if known is None:
            path.turned.left[self.turn] = left
            loop.exits.append(partings_of(left.taken))
        self._frame = None

    def _left_by(self, number: int) -> Apply:
        return self._path.interned("left", LeftBy(self._loop, number), *self._expressions)

    def _end(self, frame: FrameType) -> None:
        loop = self._loop
        loop.body = decision_of(self._ways)
        loop.has_effects, self._frame = has_effects(loop.body), None
        self._path.loops.pop()
        self._path.depth -= 1
        if self._names:
            self._hand_on(loop, frame)
        if self._made is not None and not self._is_inner:
            # Its length is computed, which fails where the values do.
            self._made.close(loop, self._path.apply("len", Reduction(len, loop, None), *loop.expressions))
        elif loop.has_effects or not (self._names or loop.exits):
            self._path.notes.append(loop)

    def _hand_on(self, loop: Loop, frame: FrameType) -> None:
        """Give names what the last turn has left in them."""
        folded = self._path.interned("loop", Folded(loop), *self._expressions)
        self._path.made.append((folded,))
        found = (self._path.interned("name", PartOf(number), folded) for number in range(len(self._names)))
        give(frame, {name: self._value(one) for name, one in zip(self._names, found, strict=True)})

    def _value(self, expression: Expression) -> Any:
        """The placeholder of a name that is handed on; None where it is that on this way."""
        return None if parts_at_none(expression, self._path) else self._values.placeholder(expression, self._path)

    def fills(self, made: MadeList) -> bool:
        """Whether its turns append to this list."""
        return self._made is made

    def _next_answers(self) -> None:
        """Those of the next turn that neither raises nor leaves the loop; None: there is none."""
        assert self._waiting is not None
        turned = self._path.turned
        self._answers = None
        while self._answers is None and self._waiting:
            self._answers = answers = self._waiting.pop()
            left = turned.left.get(self.turn)
            taken = None if turned.raising is None else turned.raising.get(self.turn)
            if taken is not None:
                self._keep_way(answers, taken, RAISES)
            elif left is not None and self._path.stays(self._left_by(left.number)):
                self._keep_way(answers, left.taken, left.leaf)
            else:
                return
            self._answers = None

    def _begin(self, made: MadeList | None, frame: FrameType) -> None:
        self._path.leave_loops()
        is_function = not frame.f_code.co_flags & CO_GENERATOR and made is None
        self._names, inside = read_body(frame.f_code, frame.f_lasti) if is_function else ((), frozenset())
        self._carried = tuple(one for leaf in self._left_in(frame) for one in expressions_of(leaf))
        if made is not None:
            self._made, self._is_inner = made, any(loop.fills(made) for loop in self._path.loops)
            if not self._is_inner and self._path.is_within(made.scope):
                raise Untraceable("it makes the list of a comprehension twice")
            if not self._is_inner:
                made.taken()
                made.scope = self._path.scope
        if self._path.scope is not self._scope:
            raise Untraceable("it uses what a loop goes over within another loop")
        self._waiting = [()]
        path = self._path
        path.begun += 1
        self._item = ItemOf.at(path.depth)
        self._loop = Loop(self._item, self._iterable, RAISES, path.computed_before(), self._carried)
        self._expressions = self._loop.expressions  # of this way, so that it has used them
        around = path.loops[-1].at if path.loops else None
        self.at = around, tuple(one.answer for one in path.taken), path.begun
        if inside:
            self._frame, self._inside = frame, inside
            self._loop = path.turned.loops.setdefault(self.at, self._loop)
            self._loop.ends = path.interned("ends", Ends(self._loop), *self._expressions)
        path.loops.append(self)
        path.depth += 1

    def _left_in(self, frame: FrameType) -> list[Leaf]:
        """The values of the names that are handed on."""
        names, found = frame.f_locals, []
        for name in self._names:
            value = names.get(name, frame)  # no value of a function
            is_made = type(value) in (dict, list, set, MadeList)
            is_plain = not is_made and (self._values.holds(value) or is_constant(value))
            leaf = self._values.leaf(value, self._path) if is_plain else None
            if leaf is None or not isinstance(leaf.result, Expression):
                raise Untraceable(str(hands_on(name)))
            found.append(leaf)
        return found

    def _end_turn(self, frame: FrameType) -> None:
        path = self._path
        assert self._answers is not None
        path.leave_loops()
        if path.loops[-1] is not self:
            raise Untraceable(LEFT)
        if self._made is not None:
            path.notes.extend(Yield(self._values.leaf(value, path)) for value in self._made.taken())
        if self._names:
            path.notes.append(Carries(self._left_in(frame)))
        leaf = path.effects()
        self._keep_way(self._answers, path.leave(), leaf)

    def _keep_way(self, answers: tuple[bool, ...], taken: list[Taken], leaf: Leaf) -> None:
        assert self._waiting is not None
        self._ways.append((taken, leaf))
        self._waiting += further_ways(answers, taken)
        if len(self._ways) + len(self._waiting) > MAX_WAYS:
            raise Untraceable(f"its loop has more than {MAX_WAYS} ways through it")


def _check_consumer(called: FrameType | None) -> MadeList | None:
    """The list that the items go into, of a comprehension.

    Raises ``Untraceable`` where something else takes them than that, a loop, or a function that knows of turns.
    """
    frame = None if called is None else called.f_back
    if frame is not None and frame.f_code.co_code[frame.f_lasti] == _FOR_ITER:
        if not frame.f_code.co_flags & CO_GENERATOR:
            return list_of(frame.f_code)
        if frame.f_back is not None and frame.f_back.f_code in _CONSUMERS:
            return None
    raise Untraceable("it goes over items by something else than a loop, sum, any, all, min or max")
