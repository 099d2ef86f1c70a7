"""All ways through a function, or through a turn of a loop, as one decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holon.dataflow.arithmetic import is_there
from holon.dataflow.expressions import Apply, Branch, Constant, Decision, Expression, Leaf
from holon.dataflow.following.column_functions import Parting

MAX_WAYS = 64
"""A function, or a turn of a loop, with more ways through it runs row by row."""


class Taken(NamedTuple):
    """A condition of a way, its answer there, and what was computed before it."""

    condition: Expression
    answer: bool
    before: tuple[Apply, ...]


def partings_of(taken: Sequence[Taken]) -> list[Parting]:
    """The conditions of a way behind which rows have more fields."""
    found = (one.condition.function for one in taken if one.answer and isinstance(one.condition, Apply))
    return [one for one in found if isinstance(one, Parting)]


def further_ways(answers: tuple[bool, ...], taken: Sequence[Taken]) -> list[tuple[bool, ...]]:
    """The answers of ways that part from one which began with ``answers``: each gives one other answer behind these."""
    given = [one.answer for one in taken]
    return [(*given[:number], False) for number in range(len(answers), len(given))]


def decision_of(ways: list[tuple[list[Taken], Leaf]]) -> Decision:
    """The decision between ways, of which each combination of answers is there."""
    taken, leaf = ways[0]
    if not taken:
        return leaf
    sides: dict[bool, list[tuple[list[Taken], Leaf]]] = {True: [], False: []}
    for way, end in ways:
        sides[way[0].answer].append((way[1:], end))
    then, otherwise = decision_of(sides[True]), decision_of(sides[False])
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
