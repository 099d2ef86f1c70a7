"""The formats for atoms of Arrow: ``from holon.arrow import Arrow, ArrowColumns``. They need the extra ``arrow``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import msgspec

from holon.columnar.atoms.writing import write_atom
from holon.columnar.structs.plan import structs_of
from holon.errors import JobError
from holon.formats.arrow.plan import KINDS, Rest, check_marks, check_struct, fit_rows, info_of, is_read_whole
from holon.formats.arrow.reading import ROWS, ColumnsOfAtoms, ReadsAtoms
from holon.formats.arrow.structs import NotInPlace
from holon.formats.arrow.writing import WritesAtoms
from holon.formats.formats import Decoded

__all__ = ["Arrow", "ArrowColumns", "write_atom"]

E = TypeVar("E")
T = TypeVar("T")

_MAX_WAYS = 16
"""Sets of columns left to msgspec that a format remembers; where there are more, all Structs, lists and maps are."""


class ArrowColumns(WritesAtoms, Generic[E]):
    """Each record is an atom, an Arrow IPC stream; one event a row of its batches, given as columns.

    ``ArrowColumns(Bid)`` gives the columns that ``JsonColumns(Bid)`` gives, for a Struct or a union of Structs with
    tags. ``ArrowColumns({"price": int, "bid.at": datetime})`` names the columns to read, by their path where they are
    within structs. Types may be any that msgspec knows; a ``datetime`` alone is given as epoch ms.

    Values are those of JSON with the same values: null is None, dictionaries and runs are their values, a time with a
    zone is UTC. An atom that is damaged, lacks a column, or has one of a type that its field does not take, is one dead
    letter. So is each row with a value that the field does not take: null without ``| None``, an int beyond 64 bits.
    """

    compiled = True

    def __init__(self, columns: Mapping[str, Any] | type[E] | Any) -> None:
        self.type: Any = None if isinstance(columns, Mapping) else columns
        self.columns: dict[str, Any] = dict(columns) if isinstance(columns, Mapping) else {}
        self.ways: dict[frozenset[str] | None, ColumnsOfAtoms[E]] = {}
        """Readers by the columns that are left to msgspec (None: all Structs, lists and maps)."""
        self._first = self._way(frozenset())

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        if self.type is not None:
            return f"arrow columns {self.type!r}"
        named = {name: of.__name__ if of in KINDS else repr(of) for name, of in self.columns.items()}
        return "arrow " + ", ".join(f"{name} {of}" for name, of in sorted(named.items()))

    def by_columns(self) -> ArrowColumns[E]:
        """As ``TypedFormat`` has it."""
        return self

    def by_events(self) -> Arrow[E]:
        """As ``TypedFormat`` has it."""
        return Arrow(self.type)

    def check_column(self, name: str) -> None:
        """Raise ``JobError`` if there is no such column."""
        names = [known for known, _, _ in self.columns_read()]
        if name not in names:
            raise JobError(f"the format reads no column {name!r}; it reads {', '.join(names)}")

    def columns_read(self) -> list[tuple[str, str, bool]]:
        """Name and kind of each column, and whether it is read where it lies; of others msgspec makes the values."""
        return self._first.columns_read()

    def events_in(self, payload: bytes) -> int:
        """How many rows an atom has; 1 if it is dead as a whole."""
        return self._by_first(lambda way: way.events_in(payload))

    def single(self, payload: bytes, place: int) -> bytes:
        """An atom of one row."""
        return self._first.single(payload, place)

    def decode(self, payloads: Sequence[bytes]) -> Decoded[E]:
        """Decode a run of payloads."""
        return self._by_first(lambda way: way.decode(payloads))

    def _by_first(self, read: Callable[[ColumnsOfAtoms[E]], T]) -> T:
        """The answer of the way that leaves to msgspec no more columns than these records demand."""
        by_msgspec: frozenset[str] | None = frozenset()
        while True:
            try:
                return read(self._way(by_msgspec))
            except NotInPlace as other:
                more = (by_msgspec or frozenset()) | {other.part}
                by_msgspec = more if more in self.ways or len(self.ways) < _MAX_WAYS else None

    def _way(self, by_msgspec: frozenset[str] | None) -> ColumnsOfAtoms[E]:
        way = self.ways.get(by_msgspec)
        if way is None:
            columns = self.columns if self.type is None else self.type
            way = self.ways[by_msgspec] = ColumnsOfAtoms[E](columns, by_msgspec)
        return way


class Arrow(ReadsAtoms, WritesAtoms, Generic[E]):
    """Each record is an atom, an Arrow IPC stream; one event a row of its batches, given as an object.

    ``Arrow(Bid)`` gives the events that ``Json(Bid)`` gives; ``Arrow(dict[str, Any])`` takes all columns as they come.
    Rows and atoms that cannot be read become dead letters as ``ArrowColumns`` has it.
    """

    compiled = False

    def __init__(self, type: type[E] | Any) -> None:
        self.type = type
        self.columns = {}
        check_marks(type)
        rest = [Rest(ROWS, ())]
        if structs_of(type) and not is_read_whole(type):
            check_struct(type)
            fields: Any = msgspec.structs.fields(type)  # type: ignore[arg-type]
            rest = [
                Rest(field.encode_name, (field.encode_name,), info_of(field.name, field.type), not field.required)
                for field in fields
            ] or rest
        super().__init__([], rest)

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return f"arrow {self.type!r}"

    def by_columns(self) -> ArrowColumns[E]:
        """As ``TypedFormat`` has it."""
        return ArrowColumns(self.type)

    def by_events(self) -> Arrow[E]:
        """As ``TypedFormat`` has it."""
        return self

    def decode(self, payloads: Sequence[bytes]) -> Decoded[E]:
        """Decode a run of payloads."""
        found = self._reader.read(payloads)
        events, unfit = self._objects(found.columns(), len(found), self.type)
        rows, places, bad = fit_rows(found, unfit)
        return Decoded(rows, events=cast(list[E], events), bad=found.bad, places=places, bad_events=bad)
