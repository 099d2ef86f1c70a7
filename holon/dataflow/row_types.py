"""Steps that give rows another type: those of one Struct among several, and functions of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from holon.columnar.event_types import ITSELF
from holon.dataflow.dict_rows import TupleRow
from holon.dataflow.failing_rows import without_failing
from holon.dataflow.rows import Rows, columns_of
from holon.dataflow.steps import OBJECTS, ROW_BY_ROW, Step, Target
from holon.formats.batch import Column, Columns


@dataclass(eq=False)
class OfType(Step):
    """The rows of one Struct, where rows are one of several."""

    kind: type = object

    verb = "of"

    @property
    def row_type(self) -> Any:
        return self.kind

    @property
    def kinds(self) -> tuple[type, ...]:
        return (self.kind,)

    @property
    def takes_kinds(self) -> bool:
        return True

    @property
    def is_checked(self) -> bool:
        return self.above is not None and self.above.is_checked

    def how(self) -> str:
        return "columns"

    def check(self) -> None:
        known = () if self.above is None else self.above.kinds
        if not (isinstance(self.kind, type) and issubclass(self.kind, msgspec.Struct)):
            raise self.error(f"of() takes one of the Structs that rows are, got {self.kind!r:.100}")
        if known and self.kind not in known:
            names = ", ".join(kind.__name__ for kind in known)
            raise self.error(f"no row is a {self.kind.__name__}: rows are one of {names}")

    def take(self, rows: Rows, target: Target) -> None:
        if rows.are_of_kinds:
            self.pass_on(rows.of_kind(self.kind), target)
            return
        objects = rows.objects()
        places = [place for place, row in enumerate(objects) if type(row) is self.kind]
        found = [objects[place] for place in places]
        columns = columns_of(self.kind, found)
        self.pass_on(rows.replaced(np.array(places, np.intp), columns=columns, struct=self.kind, objects=found), target)


@dataclass(eq=False)
class MapColumns(Step):
    """A function of columns that gives the columns of a Struct, row for row."""

    function: Callable[[Columns], Mapping[str, Column]] = dict
    row: type = msgspec.Struct

    verb = "map_columns"

    @property
    def row_type(self) -> Any:
        return self.row

    def how(self) -> str:
        return "columns"

    def check(self) -> None:
        assert self.above is not None
        above = self.above.row_type
        if not (isinstance(self.row, type) and issubclass(self.row, msgspec.Struct)):
            raise self.error(f"its rows are those of a msgspec.Struct, got {self.row!r:.100}")
        if above is OBJECTS or above is None or isinstance(above, TupleRow):
            _, _, why = self.above.how().partition(ROW_BY_ROW)
            raise self.error(
                f"it needs rows that are columns of a Struct, and step {self.above.number} ({self.above.verb}) gives "
                f"{'objects' if above is OBJECTS else 'values'}{f' ({why})' if why else ''}; put a map to a Struct "
                f"before it"
            )

    def take(self, rows: Rows, target: Target) -> None:
        made = without_failing(self, rows, target, self._made_of)
        if made is not None:
            self.pass_on(made, target)

    def _made_of(self, rows: Rows) -> Rows:
        assert rows.columns is not None
        given = {name: column for name, column in rows.columns.items() if name != ITSELF}
        made = self.function(MappingProxyType(given))
        return rows.replaced(columns=self._checked(made, len(rows)), struct=self.row)

    def _checked(self, made: Mapping[str, Column], rows: int) -> dict[str, Column]:
        wanted = [field.name for field in msgspec.structs.fields(self.row)]
        if sorted(made) != sorted(wanted):
            raise self.error(
                f"it gave the columns {', '.join(sorted(made))}; {self.row.__name__} has {', '.join(wanted)}"
            )
        for name in wanted:
            if len(made[name]) != rows:
                raise self.error(f"its column {name!r} has {len(made[name])} rows, and it was given {rows}")
        return {name: _exact(made[name]) for name in wanted}


def _exact(column: Column) -> Column:
    """Arrays of 64 bits, as all columns of numbers are; other arrays as Python's objects."""
    if not isinstance(column, np.ndarray):
        return column
    if column.ndim == 1 and column.dtype.kind in "ifb":
        wide = {"i": np.int64, "f": np.float64, "b": np.bool_}[column.dtype.kind]
        return column.astype(wide, copy=False)
    return column.tolist()
