"""The two sides of a join within windows: one stays on its partitions, the other is sent to all of them.

Rows of either side are kept as columns until the window is complete. Then each partition makes the pairs of its own
rows of the left side: a broadcast join. So pairs leave on several partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np

from holon.columnar.event_types import field_names
from holon.dataflow.aggregations import Aggregation
from holon.dataflow.dict_rows import have_fields
from holon.dataflow.expressions import Field, Leaf
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.joins.pairs import PairColumns, pairs_of
from holon.dataflow.rows import Rows, types_of
from holon.dataflow.steps import OBJECTS, ROW_BY_ROW, Followed
from holon.formats.batch import Column
from holon.program.context import Context
from holon.program.function import HandlerScope
from holon.program.states import Windowed
from wcrdt import RowLog
from wcrdt.elements import plain
from wcrdt.lattices.columns import are_known_elements, rows_of
from wcrdt.windows.assigners import Window

L = TypeVar("L")
R = TypeVar("R")

_PLAIN = (int, float, bool, str, bytes, Decimal, NoneType, Any)


class Joined(msgspec.Struct, Generic[L, R], frozen=True):
    """Two rows with the same key in the same window."""

    left: L
    right: R


@dataclass(eq=False)
class JoinSide(Aggregation):
    """The rows of one side, within windows. Those of the left side have no handler: the right one's reads them."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of rows, which are kept."""
        assert self.above is not None
        return tuple(field_names(self.above.row_type))

    def bottom(self) -> RowLog:
        return RowLog(len(self.fields))

    def check(self) -> None:
        assert self.above is not None
        if self.stage > 0:
            raise self.error("a join takes rows of records, not rows of windows; join before window()")
        if self.is_parted:
            raise self.error(
                "pairs leave in the order of their records, and rows behind union() have none; join each stream"
            )
        row_type = self.above.row_type
        if row_type is OBJECTS or not have_fields(row_type):
            _, _, why = self.above.how().partition(ROW_BY_ROW)
            raise self.error(f"it keeps the columns of Structs{f' ({why})' if why else ''}; put a map to one before it")
        if not self.fields:
            raise self.error(f"{row_type.__name__} has no fields; put a map to a Struct with some before it")
        for name, kind in types_of(row_type).items():
            if not _is_plain(kind):
                raise self.error(
                    f"it keeps numbers, texts, bytes and tuples of these, and {name} is {kind}; put a map to a Struct "
                    f"without it, or with its parts, before it"
                )
        super().check()

    def elements(self, rows: Rows) -> tuple[Column, ...]:
        """The columns of the fields. Raises what a row's key does, and where a value cannot be kept."""
        found = tuple(_kept(rows.field((name,))) for name in self.fields)
        self._bottom.check_many(found)
        if not self._key_is_field:
            keys = self.keys(rows)
            if not are_known_elements(keys):
                for key in rows_of(keys):
                    plain(key)
        return found

    @cached_property
    def _key_is_field(self) -> bool:
        decision = self._followed["key"][0]
        return isinstance(decision, Leaf) and isinstance(decision.result, Field) and len(decision.result.path) == 1

    def keys(self, rows: Rows) -> Column:
        """The key of each row."""
        assert self.key is not None
        return self._column("key", self.key, rows)

    @cached_property
    def _state(self) -> Windowed[Any, Any]:
        return super().declared()

    def declared(self) -> Windowed[Any, Any]:
        """As of any; the same one each time."""
        return self._state

    async def kept(self, ctx: Context, window: Window) -> Rows:
        """The rows of a complete window, in the order of their records."""
        columns = await ctx[self._state].window_value(window)
        count = len(columns[0])
        places, named = np.arange(count), dict(zip(self.fields, columns, strict=True))
        assert self.above is not None
        return Rows(np.full(count, ctx.timestamp_ms), places, columns=named, struct=self.above.row_type)


@dataclass(eq=False)
class Join(JoinSide):
    """The side that all partitions hold, and the pairs of its rows with those of ``left``."""

    left: JoinSide | None = None

    is_parting = True

    @cached_property
    def _pair(self) -> type:
        """The Struct of pairs."""
        assert self.left is not None and self.left.above is not None and self.above is not None
        sides = [("left", self.left.above.row_type), ("right", self.above.row_type)]
        return msgspec.defstruct("Joined", sides, bases=(Joined,), frozen=True)

    @cached_property
    def followed_result(self) -> Followed:
        """Pairs as they are."""
        return Leaf({name: Leaf(Field((name,))) for name in ("left", "right")}, self._pair), ""

    def answered(self, state: Windowed[Any, Any]) -> tuple[Windowed[Any, Any], HandlerScope]:
        return state, "partition"

    async def read(self, ctx: Context, state: Windowed[Any, Any], window: Window) -> Rows:
        """The pairs of this partition, by the left row, then by the right one."""
        assert self.left is not None
        left, right = await self.left.kept(ctx, window), await self.kept(ctx, window)
        keys = self.left.keys(left)
        ours, theirs = pairs_of(keys, self.keys(right))
        columns = PairColumns({"left": (_columns(left), ours), "right": (_columns(right), theirs)}, (keys, ours))
        return Rows(np.full(len(ours), ctx.timestamp_ms), np.arange(len(ours)), columns=columns, struct=self._pair)

    def results(self, groups: Rows) -> Rows:
        return groups


def _columns(rows: Rows) -> Mapping[str, Any]:
    assert rows.columns is not None
    return rows.columns


def _kept(column: Column) -> Column:
    return column if isinstance(column, np.ndarray) else as_list(column)


def _is_plain(kind: Any) -> bool:
    """Whether values of a declared type can be kept, as far as that is known."""
    if get_origin(kind) is Annotated:
        return _is_plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return all(map(_is_plain, get_args(kind)))
    return kind in _PLAIN or kind is tuple or get_origin(kind) in (tuple, Literal)
