"""Leaves: the values of one lattice for all keys of a map, as columns by row: the part that all kinds share.

Every change is made in two steps. ``Unfit`` is raised by the first one alone, so that all leaves of a map change
together or not at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints, int_column
from wcrdt.lattices.keyed.keys import Unfit

Mask = NDArray[np.bool_]
AnyLattice = Lattice[Any, Any]
Folded = Any
"""The elements of each group together, as columns: ``fold`` of a leaf makes it, and ``prepare`` takes it."""


class Leaf(ABC):
    """Rows of values, all of the shape of ``inner``; rows that nothing was written to are at the bottom."""

    __slots__ = ("inner",)

    def __init__(self, inner: AnyLattice) -> None:
        self.inner = inner

    @abstractmethod
    def empty(self) -> Self:
        """A leaf of the same shape without a row."""

    @abstractmethod
    def fold(self, column: Any, groups: Groups) -> Folded:
        """The elements of each group of rows together. Raises ``Unfit``, also for what is to be refused."""

    @abstractmethod
    def prepare(self, rows: Indices, folded: Folded, actor: int, height: int) -> tuple[Any, Mask]:
        """Make ready for ``commit`` that these rows, each once, hold ``folded`` too; and return which of them change.

        ``height``: how many rows there are then. Raises ``Unfit``.
        """

    @abstractmethod
    def prepare_join(self, rows: Indices, other: Any, height: int) -> tuple[Any, bool]:
        """The same for a join with the other's rows, the first of which belongs to ``rows[0]``; and if some changes."""

    def of_one_actor(self, height: int) -> Self:
        """The same elements in these first rows as of actor 0; itself where there are no others. Raises ``Unfit``.

        Kinds without actors are themselves.
        """
        return self

    def prepare_combine(self, rows: Indices, other: Any, height: int) -> Any:
        """As ``prepare_join``, for states of other elements and of a leaf of one actor; raises ``Unfit``.

        Of kinds without actors, that is a join.
        """
        return self.prepare_join(rows, other, height)[0]

    @abstractmethod
    def commit(self, prepared: Any) -> None:
        """Write what was prepared last."""

    @abstractmethod
    def leq(self, rows: Indices, other: Any) -> bool:
        """Whether each row is below or equal to the other's at ``rows``. Raises ``Unfit``."""

    @abstractmethod
    def own(self, rows: Indices, actor: int) -> Self:
        """An independent leaf of the actor's contribution to these rows."""

    def taken(self, rows: Indices) -> Self:
        """An independent leaf of what actor 0 has added to these rows; what only other rows need is let go."""
        return self.own(rows, 0)

    def brought(self, prepared: Any, rows: Indices, actor: int) -> Self:
        """An independent leaf of what was committed last, for the delta: at least what is new, at most all of ``own``.

        ``rows``: those that changed, ascending; each is a row of the delta.
        """
        return self.own(rows, actor)

    @abstractmethod
    def copy(self, rows: int) -> Self:
        """An independent leaf of the first rows."""

    @abstractmethod
    def spread(self, rows: Indices, height: int) -> Self:
        """The same values in other rows, of ``height``: the first one in ``rows[0]``, and so on."""

    @abstractmethod
    def values(self, rows: Indices) -> list[Any]:
        """The value of each of these rows."""

    def columns(self, rows: Indices) -> Any:
        """The values of these rows as a column: an array where all of them are numbers of 64 bits."""
        return self.values(rows)

    @abstractmethod
    def to_wire(self, rows: Indices) -> type_of_wire:
        """These rows as columns; equal values give equal ones."""

    @abstractmethod
    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        """A leaf of ``height`` rows. Raises as decoders do, also for what ``to_wire`` cannot have made."""

    @abstractmethod
    def lattices(self, rows: Indices) -> list[AnyLattice]:
        """Each row as a lattice of its own."""

    @abstractmethod
    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        """A leaf with the values of these. Raises ``Unfit``."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """Memory of its columns."""


def numbers_of_column(column: Any) -> NDArray[Any]:
    """A column of ints or of floats as an array. Raises ``Unfit`` for any other."""
    if isinstance(column, np.ndarray):
        numbers = int_column(column)
        if numbers is not None:
            return numbers
        if column.ndim == 1 and column.dtype.kind == "f" and column.dtype.itemsize <= 8:
            return column.astype(np.float64, copy=False)
        raise Unfit
    if isinstance(column, tuple):
        raise Unfit
    rows = column.tolist() if hasattr(column, "tolist") else column
    kinds = set(map(type, rows))
    if kinds == {int}:
        try:
            return np.array(rows, np.int64)
        except OverflowError as error:
            raise Unfit from error
    if kinds != {float}:
        raise Unfit
    return np.array(rows, np.float64)


def two_columns(column: Any) -> tuple[Any, Any]:
    """A column of pairs as two columns. Raises ``Unfit`` for any other."""
    if not isinstance(column, tuple):
        rows = column.tolist() if hasattr(column, "tolist") else list(column)
        if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {2}:
            raise Unfit
        column = tuple(map(list, zip(*rows, strict=True)))
    if len(column) != 2:
        raise Unfit
    return column


def entries_of(owners: Ints, rows: Indices) -> tuple[Indices, Ints]:
    """The entries that belong to these rows, in the order of rows; and of each the place of its row among them.

    ``owners``: the row of each entry, ascending; there is one at least.
    """
    places = np.full(max(int(owners[-1]), int(rows.max(initial=0))) + 1, -1)
    places[rows] = np.arange(len(rows))
    place_of = places[owners]
    found = np.flatnonzero(place_of >= 0)
    order = found[np.argsort(place_of[found], kind="stable")]
    return order, place_of[order]
