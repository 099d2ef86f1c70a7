"""Some rows of others, whose columns are gathered when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holon.dataflow.expressions import Expression, Fields, Indices, KnownAbove, rows_of
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
        """The column of a field."""
        if path not in self._fields:
            self._fields[path] = rows_of(self._above.field(path), self.index)
        return self._fields[path]

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
