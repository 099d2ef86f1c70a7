"""``sum``, ``any``, ``all``, ``min`` and ``max`` of the items of each row, as columns: with the values of Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.arithmetic import truth
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.expressions import (
    Apply,
    Branch,
    Decision,
    Expression,
    Fields,
    Indices,
    Leaf,
    decided,
    evaluate,
    in_order,
    joined,
    leaf_column,
)
from holon.dataflow.following.column_functions import RowsFunction, as_list, packed
from holon.dataflow.following.loops.comprehensions import MadeList
from holon.dataflow.following.loops.ends import endings_of, turns_of
from holon.dataflow.following.loops.items import Items
from holon.dataflow.following.loops.loop import Carries, Computed, Effects, Loop, WayRaises, Yield
from holon.dataflow.following.path import Path, key_of
from holon.errors import USER_ERRORS
from holon.formats.batch import Column

_BETTER = {min: operator.lt, max: operator.gt}
_MOST_TURNS = 64
"""Items of a row up to which NumPy goes over the items at each place."""
_ADDS_PLAINLY = sum([1e16, 1.0, -1e16]) == 0.0  # since Python 3.12 it keeps what rounding takes
_MOST = 2**63 - 1


class Reduction(RowsFunction):
    """A function of the values that a loop yields for a row. ``named``: of a further argument, which has this name.

    ``is_list``: Python computes all of them before it calls the function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        loop: Loop,
        further: Expression | None,
        named: str = "",
        *,
        is_list: bool = False,
    ) -> None:
        self._function, self._loop, self._further, self._named = function, loop, further, named
        self._is_list = is_list or function is len
        self.key = (function, is_list, _key_of(loop), None if further is None else _key_of(further), named)

    def of_rows(self, rows: Fields) -> Column:
        """The value of each row; raises what Python raises for the first row of which it does."""
        if not len(rows):
            return []
        try:
            return self._reduced(rows)
        except WayRaises:
            raise
        except USER_ERRORS:
            if len(rows) == 1:  # Python may stop before the item that fails
                return packed([self._alone(rows)])
        half = len(rows) // 2
        parts = np.arange(half), np.arange(half, len(rows))
        return joined([(part, self.of_rows(rows.take(part))) for part in parts], len(rows))

    def _reduced(self, rows: Fields) -> Column:
        values, offsets = yielded(self._loop, rows)
        if self._function is len:
            return np.diff(offsets)
        if self._function in (any, all):
            return _truths(truth(values), offsets, self._function is any)
        further = None if self._further is None else evaluate(self._further, rows)
        if further is None and isinstance(values, np.ndarray) and values.dtype.kind in "if":
            quick = _sums if self._function is sum else _extremes
            found = quick(values, offsets, self._function)
            if found is not None:
                return found
        items, ends = as_list(values), offsets.tolist()
        spans = pairwise(ends)
        if further is None:
            return packed([self._function(items[start:end]) for start, end in spans])
        each = zip(spans, as_list(further), strict=True)
        return packed([self._with_further(items[start:end], one) for (start, end), one in each])

    def _with_further(self, values: Any, further: Any) -> Any:
        return self._function(values, **{self._named: further})

    def _alone(self, row: Fields) -> Any:
        values: Any = _lazily(self._loop, row)
        if self._is_list:
            values = list(values)
        if self._further is None:
            return self._function(values)
        return self._with_further(values, as_list(evaluate(self._further, row))[0])


def loop_of_list(made: MadeList, path: Path) -> Loop:
    """The loop of a comprehension whose list something takes."""
    if made.loop is None:
        raise Untraceable("it has a comprehension over what is no list of the record")
    path.made[:] = [each for each in path.made if each[0] is not made.length]  # what takes it fails alike
    return made.loop


def made_anew(name: str, function: Callable[..., Any], loop: Loop, path: Path) -> Apply:
    """The expression of what a function makes of all items, which is another one wherever it stands."""
    found = Apply(name, Reduction(function, loop, None, is_list=True), tuple(loop.expressions))
    path.made.append((found,))
    return found


class Folded(RowsFunction):
    """The values that the turns of a loop leave in the names that they hand on: a tuple of columns."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.key = (_key_of(loop),)

    def of_rows(self, rows: Fields) -> Column:
        """Raises what a turn raises."""
        if not len(rows):
            return tuple([] for _ in self._loop.carried)
        return endings_of(self._loop, rows).behind() if self._loop.exits else Items(self._loop, rows).carried().behind


def _key_of(one: Any) -> Hashable:
    """Equal for loops, decisions and expressions that give equal values; holds what it compares."""
    if isinstance(one, Loop):
        before = (*one.before, None, *one.carried)
        return (_key_of(one.iterable), *(None if each is None else _key_of(each) for each in before), _key_of(one.body))
    if isinstance(one, Effects):
        notes = one.notes
        each = (_key_of(note) if isinstance(note, Loop) else tuple(map(_key_of, note.leaves)) for note in notes)
        return ("notes", one.exit, *map(type, notes), *each)
    if isinstance(one, Leaf):
        below = one.result
        if isinstance(below, Mapping):
            return (one.struct, *((name, _key_of(each)) for name, each in below.items()))
        return ("tuple", *map(_key_of, below)) if isinstance(below, tuple) else _key_of(below)
    if isinstance(one, Branch):
        return (_key_of(one.condition), _key_of(one.then), _key_of(one.otherwise))
    return key_of(one)


def yielded(loop: Loop, rows: Fields) -> tuple[Column, NDArray[np.int64]]:
    """All values that the loop yields, and offsets: those of row i are from ``offsets[i]`` to ``offsets[i+1]``."""
    items = Items(loop, rows)
    places, values = _of_body(loop.body, items)
    numbers = np.bincount(items.index[places], minlength=len(rows))
    return values, np.concatenate([np.zeros(1, np.int64), np.cumsum(numbers)])


def _of_body(body: Decision, items: Fields) -> tuple[Indices, Column]:
    """The values of all ways, in the order of the items, and the item of each."""
    parts: list[tuple[Indices, Column]] = []
    for places, leaf, taken in decided(body, items):
        assert isinstance(leaf, Effects)
        if leaf.raises and len(taken):
            raise WayRaises
        for note in leaf.notes if len(taken) else ():
            match note:
                case Computed():
                    for one in note.expressions:
                        evaluate(one, taken)
                case Yield():
                    parts.append((places, leaf_column(note.value, taken)))
                case Loop():
                    if not note.is_silent:
                        inner, index = turns_of(note, taken)
                        at, values = _of_body(note.body, inner)
                        parts.append((places[index[at]], values))
                case Carries():
                    pass
                case _:
                    raise AssertionError(note)
    parts = [part for part in parts if len(part[0])]
    if len(parts) < 2:
        return parts[0] if parts else (np.empty(0, np.intp), [])
    index, cuts = in_order([places for places, _ in parts])
    columns = [values for _, values in parts]
    if any(isinstance(one, tuple) for one in columns):
        columns = list(map(as_list, columns))
    return index, joined(list(zip(cuts, columns, strict=True)), len(index))


def _lazily(loop: Loop, row: Fields) -> Iterator[Any]:
    """The values of one row, one by one as Python computes them."""
    items = Items(loop, row, may_be_ragged=True)
    for place in range(len(items)):
        yield from _lazily_of(loop.body, items.take(np.array([place])))
    items.check_ends()


def _lazily_of(body: Decision, item: Fields) -> Iterator[Any]:
    for _, leaf, taken in decided(body, item):
        assert isinstance(leaf, Effects)
        if leaf.raises:
            raise WayRaises
        for note in leaf.notes:
            if isinstance(note, Loop):
                if not note.exits:  # others yield nothing
                    yield from _lazily(note, taken)
            elif isinstance(note, Yield):
                yield from as_list(leaf_column(note.value, taken))
            elif isinstance(note, Computed):
                for one in note.expressions:
                    evaluate(one, taken)


def _truths(values: NDArray[np.bool_], offsets: NDArray[np.int64], is_any: bool) -> NDArray[np.bool_]:
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    found = before[offsets[1:]] - before[offsets[:-1]]
    return found > 0 if is_any else found == np.diff(offsets)


def _sums(values: NDArray[Any], offsets: NDArray[np.int64], _: Callable[..., Any]) -> Column | None:
    """None where Python adds them up: beyond 64 bits, and where the sum of a row is the int 0 and others are floats."""
    lengths = np.diff(offsets)
    most = int(lengths.max())
    if values.dtype.kind == "i":
        largest = max(-int(values.min(initial=0)), int(values.max(initial=0)))
        if largest * most > _MOST:
            return None
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])  # may wrap: differences do not
        return before[offsets[1:]] - before[offsets[:-1]]
    if not _ADDS_PLAINLY or most > _MOST_TURNS or not int(lengths.min()):
        return None
    found = np.zeros(len(lengths))
    with np.errstate(all="ignore"):
        for rows, places in _turns(lengths, offsets, 0, most):
            found[rows] += values[places]
    return found


def _extremes(values: NDArray[Any], offsets: NDArray[np.int64], function: Callable[..., Any]) -> Column | None:
    """As Python: the first of those that no later one exceeds, each compared with the one before."""
    lengths = np.diff(offsets)
    most = int(lengths.max())
    if most > _MOST_TURNS or not int(lengths.min()):
        return None
    is_better = _BETTER[function]
    found = values[offsets[:-1]]
    for rows, places in _turns(lengths, offsets, 1, most):
        others = values[places]
        mine = found[rows]
        found[rows] = np.where(is_better(others, mine), others, mine)
    return found


def _turns(
    lengths: NDArray[np.int64], offsets: NDArray[np.int64], begin: int, end: int
) -> Iterator[tuple[Indices, Indices]]:
    """For each turn the rows that have so many items, and the places of those."""
    rows = np.arange(len(lengths))
    for turn in range(begin, end):
        rows = rows[lengths[rows] > turn]
        yield rows, offsets[rows] + turn
