"""Matches of regular expressions: each text is matched once, and gives the groups that the function uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import methodcaller
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.structs.lazy import ObjectColumn
from holon.dataflow.following.column_functions import ColumnFunction, Same, as_list, packed
from holon.formats.batch import Column

Group = int | str
METHODS = ("fullmatch", "match", "search")
_AT_ONCE = 256
"""Rows whose groups are there as tuples; more live so long that the garbage collector looks at them again and again."""


class Matches(ObjectColumn):
    """The groups of each match, and which rows have one. The matches themselves are made again when they are read."""

    __slots__ = ("_find", "_groups", "_index", "_rows", "_texts", "there")

    def __init__(self, find: Find, texts: list[Any], there: NDArray[np.bool_], groups: dict[Group, list[Any]]) -> None:
        super().__init__()
        self._find, self._texts, self.there, self._groups = find, texts, there, groups

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        places = np.arange(len(self))[index].tolist()
        groups = {name: [column[place] for place in places] for name, column in self._groups.items()}
        return type(self)(self._find, [self._texts[place] for place in places], self.there[index], groups)

    def nones(self) -> NDArray[np.bool_]:
        """The rows without a match."""
        return ~self.there

    def group(self, group: Group) -> list[Any] | None:
        """A group of all rows; None where a row has no match."""
        return self._groups[group] if bool(self.there.all()) and group in self._groups else None

    def _made(self) -> list[Any]:
        return list(map(self._find, self._texts))

    def _row(self, row: int) -> Any:
        return self._find(self._texts[row])

    def __len__(self) -> int:
        return len(self._texts)


class Find(ColumnFunction):
    """A method of a regular expression. ``wanted``: the groups that functions use of its matches."""

    is_total = True

    def __init__(self, pattern: re.Pattern[Any], method: str) -> None:
        self.pattern = pattern
        self._of = getattr(pattern, method)
        self.key = (Same(pattern), method)
        self.wanted: list[Group] = []

    def __call__(self, *values: Any) -> Any:
        return self._of(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Groups, a column for each."""
        texts, wanted = as_list(given[0]), self.wanted or [0]
        groups_of = methodcaller("group", *wanted)
        there = np.ones(rows, np.bool_)
        groups: list[list[Any]] = [[] for _ in wanted]
        for first in range(0, rows, _AT_ONCE):
            found = list(map(self._of, texts[first : first + _AT_ONCE]))
            if None in found:
                there[first : first + _AT_ONCE] = [match is not None for match in found]
                nothing = None if len(wanted) == 1 else (None,) * len(wanted)
                made = [nothing if match is None else groups_of(match) for match in found]
            else:
                made = list(map(groups_of, found))
            parts = [made] if len(wanted) == 1 else zip(*made, strict=True)
            for column, part in zip(groups, parts, strict=True):
                column += part
        return Matches(self, texts, there, dict(zip(wanted, groups, strict=True)))


class OfMatch(ColumnFunction):
    """A group of a match, as the function asks for it: without a match these raise different errors."""

    def __init__(self, group: Group, way: Literal["item", "group", "groups"]) -> None:
        self._group = group
        self._way = way
        self.key = (type(group), group, way)

    def __call__(self, *values: Any) -> Any:
        (match,) = values
        if self._way == "item":
            return match[self._group]
        if self._way == "groups":
            return match.groups()[int(self._group) - 1]
        return match.group(self._group)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """The column, where each row has a match."""
        found = given[0].group(self._group) if isinstance(given[0], Matches) else None
        return None if found is None else packed(found)
