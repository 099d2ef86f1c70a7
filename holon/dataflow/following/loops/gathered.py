"""Some rows of others, whose columns are gathered when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holon.dataflow.expressions import Expression, Fields, Indices, KnownAbove, rows_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.rows import part_of
from holon.errors import USER_ERRORS
from holon.formats.batch import Column

Path = tuple[str, ...]


class Gathered:
    """Some rows of others, in any order: their columns are gathered when they are asked for."""

    def __init__(self, above: Fields, index: Indices) -> None:
        self._above, self.index = above, index
        self.known: dict[Expression, Column] = KnownAbove(above.known, index)
        self._fields: dict[Path, Column] = {}

    def __len__(self) -> int:
        return len(self.index)

    def field(self, path: Path) -> Column:
        """The column of a field; only of these rows, since others may lack it."""
        if path not in self._fields:
            self._fields[path] = self._field(path)
        return self._fields[path]

    def _field(self, path: Path) -> Column:
        try:
            return rows_of(self._above.field(path), self.index)
        except USER_ERRORS:
            if len(path) == 1 or path[-1].startswith(" "):  # an item, or its place
                raise
        return part_of(as_list(self.field(path[:-1])), path[-1])

    def column_at(self, path: Path) -> Column | None:
        """The column of a field, if it takes no objects."""
        found = self._above.column_at(path)
        return None if found is None else rows_of(found, self.index)

    def names_within(self, path: Path) -> Sequence[str]:
        """The names of columns within a field."""
        return self._above.names_within(path)

    def take(self, index: Indices) -> Any:
        """Some of these rows."""
        return Gathered(self, index)
