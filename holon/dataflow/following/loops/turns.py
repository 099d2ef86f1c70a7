"""The turns of a loop while a function is followed: one for each way through the loop's body.

The body runs anew at each turn, so the loop itself takes it along all of its ways. No turn may know another: the code
is read for that (``reading.py``).
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from inspect import CO_GENERATOR, currentframe
from types import CodeType, FrameType
from typing import Any

from holon.dataflow.code_scan import Untraceable
from holon.dataflow.expressions import Expression, Field, Leaf
from holon.dataflow.following.loops.comprehensions import MadeList, list_of
from holon.dataflow.following.loops.loop import RAISES, ItemOf, Loop, Yield
from holon.dataflow.following.loops.reducing import Reduction
from holon.dataflow.following.loops.ways import MAX_WAYS, Taken, decision_of, further_ways
from holon.dataflow.following.path import Path

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


class Turns:
    """An iterator of the one item that stands for all, as often as there are ways. ``item`` makes it anew."""

    def __init__(
        self, path: Path, iterable: Expression, item: Callable[[Field], Any], yields: Callable[[Any, Path], Yield]
    ) -> None:
        """``yields``: what a value of a comprehension becomes."""
        path.refuse_within_try("has a loop")
        self._path, self._iterable, self._make, self._yields = path, iterable, item, yields
        self._made: MadeList | None = None
        self._is_inner = False
        """Whether the loop is within another one of the same comprehension."""
        self._scope = path.scope
        self._waiting: list[tuple[bool, ...]] | None = None
        self._ways: list[tuple[list[Taken], Leaf]] = []
        self._answers: tuple[bool, ...] | None = None

    def __iter__(self) -> Turns:
        return self

    def __next__(self) -> Any:
        made = _check_consumer(currentframe())
        if self._waiting is None:
            self._begin(made)
        else:
            self._end_turn()
        self._next_answers()
        if self._answers is None:
            body = decision_of(self._ways)
            self._path.loops.pop()
            loop = Loop(self._item, self._iterable, body, self._before)
            if self._made is None or self._is_inner:
                self._path.notes.append(loop)
            else:
                # Its length is computed, which fails where the values do.
                self._made.close(loop, self._path.apply("len", Reduction(len, loop, None), *loop.expressions))
            raise StopIteration
        self._path.enter(self._answers)
        return self._make(Field((self._item,)))

    def fills(self, made: MadeList) -> bool:
        """Whether its turns append to this list."""
        return self._made is made

    def _next_answers(self) -> None:
        """Those of the next turn that does not raise; None: there is none."""
        assert self._waiting is not None
        self._answers = None
        while self._answers is None and self._waiting:
            answers = self._waiting.pop()
            taken = None if self._path.raising is None else self._path.raising.get(self._path.turn(answers))
            if taken is None:
                self._answers = answers
            else:
                self._keep_way(answers, taken, RAISES)

    def _begin(self, made: MadeList | None) -> None:
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
        self._path.begun += 1
        self._item = ItemOf.at(len(self._path.loops))
        self._before = self._path.computed_before()
        self._path.loops.append(self)

    def _end_turn(self) -> None:
        path = self._path
        assert self._answers is not None
        if path.loops[-1] is not self:
            raise Untraceable(LEFT)
        if self._made is not None:
            path.notes += [self._yields(value, path) for value in self._made.taken()]
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
