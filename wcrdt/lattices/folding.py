"""Lattices whose elements can be folded before they are added: the base of the column-wise ones.

Law: for any cut of the elements into groups, absorbing the fold of each group gives the same state as inserting the
elements one by one. That is what lets a map add thousands of rows with one step for each key.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

from wcrdt.lattice import E, Lattice, V
from wcrdt.lattices.columns import Groups, height, rows_of


class Folding(Lattice[E, V]):
    """A lattice with ``fold`` and ``absorb``; ``insert`` and ``insert_many`` follow from them.

    ``folds`` False turns the column-wise way off for a value (a record with a part that cannot fold).
    """

    __slots__ = ()
    gathers: ClassVar[bool] = True

    @property
    def folds(self) -> bool:
        return True

    @abstractmethod
    def fold(self, element: E) -> Any:
        """The element as a partial; raises ``TypeError`` or ``ValueError`` for one that is refused."""

    @abstractmethod
    def absorb(self, partial: Any, actor: int) -> bool:
        """Add a partial as the actor's; True if this value changed."""

    @abstractmethod
    def own(self, actor: int) -> Self:
        """The actor's contribution to this value, as a new value (all of it for types without actors)."""

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        """One partial for each group of rows, or None if this column must go row by row."""
        return None

    def check(self, element: E) -> None:
        self.fold(element)

    def insert(self, element: E, *, actor: int = 0) -> Self:
        self.absorb(self.fold(element), actor)
        return self.own(actor)

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        rows = height(elements)
        if rows == 0:
            return self.bottom()
        partials = self.fold_groups(elements, Groups.whole(rows))
        if partials is None:
            partials = [self.fold(element) for element in rows_of(elements)]
        for partial in partials:
            self.absorb(partial, actor)
        return self.own(actor)


def require_combining(mine: Lattice[Any, Any], other: Lattice[Any, Any]) -> None:
    """The same for ``combine``, also where a part has none."""
    require_same(mine, other)
    if not mine.combines:
        raise TypeError(f"a {mine.tag} of shape {mine.shape()} cannot be combined with one of other elements")


def require_same(mine: Lattice[Any, Any], other: Lattice[Any, Any]) -> None:
    """Raise ``TypeError`` for a merge of two types or shapes; it would give a value without a meaning."""
    if type(mine) is not type(other):
        raise TypeError(f"a {mine.tag} cannot be merged with a {getattr(other, 'tag', type(other).__name__)}")
    if mine.shape() != other.shape():
        raise TypeError(f"a {mine.tag} of shape {mine.shape()} cannot be merged with one of shape {other.shape()}")
