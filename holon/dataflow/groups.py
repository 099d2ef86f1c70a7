"""Groups: what a window's function sees of the rows of one key, and the lattices that hold it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from types import FunctionType
from typing import Any, Generic, TypeVar

import msgspec

from holon.dataflow.code_scan import Untraceable, is_constant
from holon.dataflow.errors import FlowError, NoSuchField, not_callable
from holon.dataflow.expressions import Apply, Decision, Field, Leaf
from holon.dataflow.following.path import Path
from holon.dataflow.following.placeholders import Placeholder
from holon.dataflow.following.stand_ins import as_written
from holon.dataflow.tracing import follow_all_ways
from wcrdt import Average, CountDistinct, GCounter, Lattice, Max, Min, Sum
from wcrdt.windows.assigners import Window

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")
E = TypeVar("E")

Identity = tuple[Hashable, ...]

GROUP_COLUMNS = ("key", "window.start_ms", "window.end_ms")
UPDATE_COLUMNS = ("final", "retracted")
TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A lattice of what ``of`` gives of each row (None: 1)."""

    label: str
    lattice: Lattice[Any, Any]
    of: Callable[[Any], Any] | None


class Group(Generic[K, T]):
    """The rows of one key in one window. Values are those of the whole window, over all partitions."""

    key: K
    window: Window
    final: bool = True
    """Of early results: whether the window is complete, so that no other result of it comes for this key."""
    retracted: bool = False
    """Of early results with ``updates="retract"``: the result before, which is not the key's any more."""
    timed_out: bool = False
    """Of windows driven by data: whether the timeout, or the end of the input, has closed it, and no row."""

    def count(self) -> int:
        """How many rows there are."""
        return self._value("count", GCounter(), None)

    def sum(self, of: Callable[[T], V]) -> V:
        """The exact sum of ints, floats (rounded once, at the end) or Decimals."""
        return self._value("sum", Sum(), of)

    def mean(self, of: Callable[[T], float]) -> float:
        """The exact mean of numbers, rounded once."""
        return self._value("mean", Average(), of)

    def max(self, of: Callable[[T], V]) -> V:
        """The largest value."""
        return self._value("max", Max(), of)

    def min(self, of: Callable[[T], V]) -> V:
        """The smallest value."""
        return self._value("min", Min(), of)

    def distinct(self, of: Callable[[T], Any]) -> int:
        """How many different values there are, counted exactly."""
        return self._value("distinct", CountDistinct(), of)

    def fold(self, lattice: Lattice[E, V], of: Callable[[T], E]) -> V:
        """The value of any lattice, given as its bottom, with what ``of`` gives of each row inserted."""
        return self._value(f"fold {lattice.tag}{lattice.shape()!r}", lattice, of)

    def _value(self, kind: str, lattice: Lattice[Any, Any], of: Callable[[Any], Any] | None) -> Any:
        raise NotImplementedError


class ReadGroup(Group[Any, Any]):
    """A group of a complete window; ``values`` by name, ``names`` by what is asked for."""

    def __init__(self, key: Any, window: Window, values: Mapping[str, Any], names: Mapping[Identity, str]) -> None:
        self.key = key
        self.window = window
        self._values = values
        self._names = names

    def _value(self, kind: str, lattice: Lattice[Any, Any], of: Callable[[Any], Any] | None) -> Any:
        return self._values[self._names[identity(kind, of)]]


class _WindowFields(msgspec.Struct):
    start_ms: int
    end_ms: int


class _GroupOfPlaceholders(Group[Any, Any]):
    """``parts``: how many a key has, where it is a tuple; ``flags``: which of ``final``, ``retracted`` and
    ``timed_out`` it has.

    Where the function asks for None, keys and values of folds may be that, each on a way of its own. Counts, sums,
    means, extremes and numbers of different values never are: there is a row.
    """

    _kind: type[Placeholder] = Placeholder

    def __init__(self, path: Path, parts: int | None = None, flags: Sequence[str] = ()) -> None:
        for name in flags:
            setattr(self, name, self._kind(Field((name,)), path, bool))
        self.window = self._kind(Field(("window",)), path, _WindowFields)  # type: ignore[assignment]
        self._path = path
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        has = sorted({one for one in (*dir(Group), "key", "window") if not one.startswith("_")})
        raise NoSuchField(f"a group has no {name!r}; it has {', '.join(has)}")

    @property
    def key(self) -> Any:  # type: ignore[override]
        """A tuple where the key is one, so that it can be unpacked."""
        if self._parts is None:
            return self._maybe("key")
        return tuple(self._maybe("key", str(part)) for part in range(self._parts))

    def _maybe(self, *path: str) -> Any:
        """A value that may be None."""
        found = Field(path)
        return None if self._path.asks_none and self._path.is_none(found) else self._kind(found, self._path)

    def _placed(self, kind: str, name: str) -> Any:
        """The value of an aggregate."""
        return self._maybe(name) if kind.startswith("fold ") else self._kind(Field((name,)), self._path)


class ColumnGroup(_GroupOfPlaceholders):
    """All groups of a window as columns: ``key``, ``window.start_ms``, ``window.end_ms`` and one of each value.

    ``flags`` are columns, too.
    """

    def __init__(
        self, path: Path, names: Mapping[Identity, str], parts: int | None = None, flags: Sequence[str] = ()
    ) -> None:
        super().__init__(path, parts, flags)
        self._names = names

    def _value(self, kind: str, lattice: Lattice[Any, Any], of: Callable[[Any], Any] | None) -> Any:
        return self._placed(kind, self._names[identity(kind, of)])


class FreePlaceholder(Placeholder):
    """A value of which only the conditions matter that follow from it: its attributes, items and calls are such too."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return self._holon_maybe(f".{name}")

    def __getitem__(self, item: Any) -> Any:
        return self._holon_maybe(f"[{item!r:.60}]")

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._holon_maybe("()")

    def _holon_maybe(self, name: str) -> Any:
        """One that may be None; where the function asks for that, on a way of its own."""
        asked = self._holon_path.asks_none and self._holon_path.is_none(Field((repr(self._holon_expression), name)))
        return None if asked else self._holon_further(name)

    def __round__(self, digits: int = 0) -> Any:
        return self._holon_further("round")

    def _holon_further(self, name: str) -> FreePlaceholder:
        return FreePlaceholder(Apply(name, operator.pos, (self._holon_expression,)), self._holon_path)

    def _holon_apply(self, name: str, function: Callable[..., Any], *others: Any, type: Any = None) -> FreePlaceholder:
        return self._holon_further(name)

    def _holon_swapped(self, name: str, function: Callable[..., Any], left: Any, type: Any = None) -> FreePlaceholder:
        return self._holon_further(name)

    def _holon_divmod(self, left: Any, right: Any) -> tuple[Placeholder, Placeholder]:
        return self._holon_further("divmod"), self._holon_further("divmod")


class FollowedGroup(_GroupOfPlaceholders):
    """Notes what a function asks for."""

    _kind = FreePlaceholder

    def __init__(
        self, path: Path, found: dict[Identity, Aggregate], parts: int | None = None, flags: Sequence[str] = ()
    ) -> None:
        super().__init__(path, parts, flags)
        self._found = found

    def _value(self, kind: str, lattice: Lattice[Any, Any], of: Callable[[Any], Any] | None) -> Any:
        if of is not None and not callable(of):
            raise Untraceable(not_callable("", of))
        held = getattr(of, "__closure__", None) or ()
        if not all(is_constant(cell.cell_contents) for cell in held):
            raise Untraceable(f"the function in {kind}() uses what only the function around it knows")
        asked = identity(kind, of)
        self._found.setdefault(asked, Aggregate(kind, lattice, as_written(of)))
        return self._placed(kind, f"{kind} {list(self._found).index(asked)}")


def parts_of_key(decision: Decision | None) -> int | None:
    """How many parts the keys have that a function makes of rows; None: they are no tuples, or that is not known."""
    made = decision.result if isinstance(decision, Leaf) else None
    return len(made) if isinstance(made, tuple) else None


def plain_value(value: Any) -> Any:
    """As a function gets it: the mean of ints, which is exact until here, as a float."""
    return float(value) if isinstance(value, Fraction) else value


def aggregates_of(
    function: Callable[[Any], Any], parts: int | None = None, flags: Sequence[str] = ()
) -> dict[Identity, Aggregate]:
    """All aggregates that a function of a group asks for, whichever way it goes. Raises ``FlowError``.

    ``parts``: how many its key has, where it is a tuple; ``flags`` as of ``ColumnGroup``.
    """
    found: dict[Identity, Aggregate] = {}
    try:
        follow_all_ways(function, lambda path: FollowedGroup(path, found, parts, flags))
    except Untraceable as error:
        raise FlowError(
            f"which aggregates the function needs cannot be known: {error}. Compute values of rows by map before key_by"
        ) from error
    return found


class _MarkedGroup(FollowedGroup):
    """Notes, too, whether a function reads which results are retracted: as an aggregate of no lattice."""

    @property
    def retracted(self) -> Any:  # type: ignore[override]
        self._found["retracted",] = Aggregate("retracted", GCounter(), None)
        return self._retracted

    @retracted.setter
    def retracted(self, placeholder: Any) -> None:  # type: ignore[override]
        self._retracted = placeholder


def check_marks_retractions(function: Callable[[Any], Any], parts: int | None, flags: Sequence[str]) -> None:
    """Raise ``FlowError`` where results and their retractions could not be told apart."""
    found: dict[Identity, Aggregate] = {}
    with suppress(Untraceable):  # which is refused with its reason
        follow_all_ways(function, lambda path: _MarkedGroup(path, found, parts, flags))
        if ("retracted",) not in found:
            raise FlowError(
                'with updates="retract" a result is taken back by itself with g.retracted, which the function does not '
                'read: put it into the row, or use updates="upsert"'
            )


def identity(kind: str, of: Callable[[Any], Any] | None) -> Identity:
    """The identity of an aggregate. A function that is written at one place is one, each time it is made."""
    if not isinstance(of, FunctionType):
        return kind, of
    held = tuple(cell.cell_contents for cell in of.__closure__ or ())
    return kind, of.__code__, held, of.__defaults__
