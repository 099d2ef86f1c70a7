"""The window of one shard that is open: it takes in a slice after the other.

Two rules for this file: values are a function of the slices so far, and the form changes neither these nor bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np

from holon.dataflow.following.column_functions import as_list
from holon.dataflow.sessions.open_sessions import columns_of_objects
from holon.dataflow.sliced.columns import plain_column
from holon.dataflow.sliced.shards import Arrived
from holon.formats.batch import Column
from holon.program.checkpointable import OwnBytes
from wcrdt import ColumnsOf, decode, encode
from wcrdt.elements import ordered
from wcrdt.lattices.keyed.columns import KeyedColumns, combined
from wcrdt.lattices.keyed.keys import Unfit
from wcrdt.lattices.keyed.records import RecordLeaf

Groups = ColumnsOf[Any, Any, Any]


class Read(NamedTuple):
    """Keys, in their order, and the values of the parts that were asked for."""

    keys: Column
    values: dict[str, Column]


class OpenWindow(OwnBytes, dict=True):
    """``groups``: the bytes of a map of all keys, as restored or as made last for a checkpoint."""

    groups: bytes = b""

    def to_bytes(self) -> bytes:
        known = vars(self).get("known")
        if known is not None and not self.groups and (groups := known.groups()):
            self.groups = encode(groups)
        return msgspec.msgpack.encode(self)

    def held(self, bottom: Groups) -> Held:
        """The keys, to be read and written. ``bottom`` is the map of none."""
        known = vars(self).get("known")
        if known is None:
            known = vars(self)["known"] = Held(bottom, decode(self.groups, bottom) if self.groups else bottom)
        self.groups = b""
        return known


class Held:
    """Keys as columns where a slice comes as such and these can hold them, else as objects."""

    def __init__(self, bottom: Groups, found: Groups) -> None:
        self._bottom = bottom
        self._columns = found.as_columns() if found.held_as_columns else None
        self._objects: dict[Any, Any] = {} if self._columns is not None else dict(found.entries())

    def groups(self) -> Groups:
        """All keys; not to be written."""
        if self._columns is not None:
            return self._bottom.of_columns(self._columns)
        return self._bottom.of_entries(self._objects)

    def settled(self, arrived: Arrived) -> Arrived:
        """The slice in the form that the window has, or goes over to."""
        if self._columns is None and not isinstance(arrived, KeyedColumns):
            return arrived
        try:
            come = arrived if isinstance(arrived, KeyedColumns) else columns_of_objects(arrived, self._bottom)
            mine = columns_of_objects(self._objects, self._bottom) if self._columns is None else self._columns
            if come is not None and mine is not None and come.index.form != mine.index.form:
                raise Unfit
        except Unfit:
            self._to_objects()
            return arrived.objects() if isinstance(arrived, KeyedColumns) else arrived
        self._columns, self._objects = mine, {}
        return {} if come is None else come

    def take(self, come: Arrived) -> None:
        """Take in a slice, which is ``settled``, complete and one of the window's."""
        if isinstance(come, KeyedColumns):
            try:
                self._columns = combined(self._columns, come)
                return
            except Unfit:
                self._to_objects()
        for key, part in (come.objects() if isinstance(come, KeyedColumns) else come).items():
            if key not in self._objects:
                self._objects[key] = self._bottom.inner.bottom()
            self._objects[key].combine(part)

    def read(self, of: Arrived | None, names: Sequence[str]) -> Read:
        """Those keys of a slice that are held, or all (None); they have their values of now."""
        if self._columns is not None and (of is None or isinstance(of, KeyedColumns)):
            return _read_columns(self._columns, of, names)
        chosen = self._objects if of is None else of.keys().tolist() if isinstance(of, KeyedColumns) else of
        keys = [key for key in ordered(chosen) if key in self._objects]
        values = {name: plain_column([self._objects[key][name].value for key in keys]) for name in names}
        return Read(plain_column(keys), values)

    def clear(self) -> None:
        """The window is complete."""
        self._columns, self._objects = None, {}

    def _to_objects(self) -> None:
        if self._columns is not None:
            self._objects, self._columns = self._columns.objects(), None


def _read_columns(held: KeyedColumns, of: KeyedColumns | None, names: Sequence[str]) -> Read:
    if of is None:
        keys, rows = held.ordered()
    else:
        keys, _ = of.ordered()
        rows = held.rows_of(keys)
        there = np.flatnonzero(rows >= 0)
        keys, rows = keys.take(there), rows[there]
    leaf = cast(RecordLeaf, held.leaf)
    found = {name: leaf.part(name).columns(rows) for name in names}
    values = {name: c if isinstance(c, np.ndarray) else plain_column(as_list(c)) for name, c in found.items()}
    return Read(keys.parts[0] if keys.form == "i" else keys.tolist(), values)  # type: ignore[arg-type]
