"""Loops over ``items()``, ``keys()`` and ``values()`` of a dict that a field holds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from inspect import currentframe
from itertools import chain
from typing import Any, NoReturn, Self, get_args

import numpy as np
from numpy.typing import NDArray

from holon.columnar.structs.lazy import ObjectColumn
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.expressions import Field
from holon.dataflow.following.column_functions import ColumnFunction, as_list, packed
from holon.dataflow.following.loops.turns import Over, Turns, Values, begins_loop
from holon.dataflow.following.parts import plain_type
from holon.dataflow.following.path import NEEDS_VALUE
from holon.dataflow.following.separated import Item
from holon.dataflow.following.stand_ins import NotAValue
from holon.formats.batch import Column

VIEWS = ("items", "keys", "values")


class Loopable(NotAValue):
    """A value that a loop may go over, and nothing else uses."""

    __slots__ = ()

    @abstractmethod
    def over(self) -> Over:
        """Its items, for a loop."""

    def __iter__(self) -> Turns:
        if not begins_loop(currentframe()):
            raise Untraceable(NEEDS_VALUE)
        return Turns(self.over())

    def _refused(self, *_: Any) -> NoReturn:
        raise Untraceable(NEEDS_VALUE)

    __bool__ = __len__ = __contains__ = __eq__ = __ne__ = __and__ = __or__ = __sub__ = __xor__ = _refused  # type: ignore[assignment]
    __hash__ = _refused  # type: ignore[assignment]


class DictView(Loopable):
    """The result of such a method. ``owner`` is the placeholder of the dict, of type ``of``."""

    __slots__ = ("_is_called", "_of", "_owner", "_values", "_view")

    def __init__(self, owner: Any, of: Any, view: str, values: Values) -> None:
        self._owner, self._of, self._view, self._values = owner, of, view, values
        self._is_called = False

    def __call__(self) -> DictView:
        """The view itself."""
        self._is_called = True
        return self

    def over(self) -> Over:
        """Its items, for a loop."""
        if not self._is_called:
            raise Untraceable(f"it goes over the method {self._view!r}")
        path = self._owner._holon_path
        made = path.apply(f".{self._view}", Entries(self._view), self._owner._holon_expression)
        return Over(path, made, self._item, self._values)

    def _item(self, field: Field) -> Any:
        path, kinds = self._owner._holon_path, get_args(self._of) or (None, None)
        key, value = map(plain_type, kinds)
        wanted = {"items": (key, value), "keys": (key,), "values": (value,)}[self._view]
        if path.asks_none and None in wanted:
            raise Untraceable("it uses `is None` where a dict may hold None")
        if self._view != "items":
            return type(self._owner)(field, path, wanted[0])
        parts = (path.interned(f"[{place}]", Item(place), field) for place in (0, 1))
        return tuple(type(self._owner)(part, path, kind) for part, kind in zip(parts, wanted, strict=True))


class Entries(ColumnFunction):
    """The keys, values or pairs of dicts, as lists."""

    def __init__(self, view: str) -> None:
        self._view = view
        self.key = (view,)

    def __call__(self, *values: Any) -> Any:
        (one,) = values
        return list(getattr(one, self._view)())

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Of pairs a column that has keys and values apart."""
        return Pairs([one.items() for one in as_list(given[0])]) if self._view == "items" else None


class Pairs(ObjectColumn):
    """Lists of the keys and values of dicts."""

    __slots__ = ("_views",)

    def __init__(self, views: list[Any]) -> None:
        super().__init__()
        self._views = views

    def flat(self) -> tuple[Column, NDArray[np.int64]]:
        """All keys and all values as a tuple of columns, and offsets, as of ``Lists``."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths())])
        pairs = list(chain.from_iterable(self._views))
        if not pairs:
            return ([], []), offsets
        keys, values = zip(*pairs, strict=True)
        return (packed(list(keys)), packed(list(values))), offsets

    def lengths(self) -> NDArray[np.int64]:
        """How many pairs each dict has."""
        return np.fromiter(map(len, self._views), np.int64, len(self._views))

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)([self._views[place] for place in np.arange(len(self))[index].tolist()])

    def _made(self) -> list[Any]:
        return list(map(list, self._views))

    def _row(self, row: int) -> Any:
        return list(self._views[row])

    def __len__(self) -> int:
        return len(self._views)
