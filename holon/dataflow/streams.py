"""Streams: what steps are written with. Each verb gives the stream behind it, with the type of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, TypeVar, overload

from holon.dataflow.adding import NEEDED_BY_KEYS, FlowSteps, Hinting, LateVerb, RowVerbs, Windowing
from holon.dataflow.early.slices import with_early
from holon.dataflow.groups import Group
from holon.dataflow.joins.step import Joined
from holon.dataflow.steps import Step
from holon.files import Files
from holon.formats.batch import Columns
from wcrdt import Lattice
from wcrdt.windows.assigners import Assigner
from wcrdt.windows.data_driven import DataDriven
from wcrdt.windows.sessions import Session

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
E = TypeVar("E")
V = TypeVar("V")

Updates = Literal["upsert", "retract"]


class Stream(RowVerbs, Generic[T]):
    """Rows of type ``T``. Functions see one row, are pure, and are called in any grouping of rows.

    ``columnar=True`` makes a step that cannot work on columns an error.
    """

    def filter(self, function: Callable[[T], bool], *, columnar: bool = False) -> Stream[T]:
        """The rows for which the function is true."""
        return Stream(self._flow, self._row_step("filter", function, columnar))

    def map(self, function: Callable[[T], U], *, columnar: bool = False) -> Stream[U]:
        """The function's result for each row."""
        return Stream(self._flow, self._row_step("map", function, columnar))

    def filter_map(self, function: Callable[[T], U | None], *, columnar: bool = False) -> Stream[U]:
        """The function's result for each row of which it is not None."""
        return Stream(self._flow, self._row_step("filter_map", function, columnar))

    def flat_map(self, function: Callable[[T], Iterable[U]]) -> Stream[U]:
        """All that the function makes of each row."""
        return Stream(self._flow, self._row_step("flat_map", function, False))

    def split(self, function: Callable[[T], bool], *, columnar: bool = False) -> tuple[Stream[T], Stream[T]]:
        """The rows for which the function is true, and the others."""
        steps = self._row_step("filter", function, columnar), self._row_step("reject", function, columnar)
        return Stream(self._flow, steps[0]), Stream(self._flow, steps[1])

    def of(self, kind: type[U]) -> Stream[U]:
        """The rows of one Struct, where rows are one of several: ``Json(Bid | Auction)``."""
        return Stream(self._flow, self._of(kind))

    def union(self, *others: Stream[T]) -> Stream[T]:
        """The rows of all these streams of one flow; all before a window, or behind equally many."""
        return Stream(self._flow, self._union(others))

    def map_columns(self, function: Callable[[Columns], Columns], row: type[U]) -> Stream[U]:
        """A function of the columns of some rows, which gives the fields of the Struct ``row`` as columns, row for row.

        Columns are called as fields, those of inner Structs by their path: ``"place.city"``. Each row's result depends
        on that row alone, for rows come in any grouping.
        """
        return Stream(self._flow, self._map_columns(function, row))

    def key_by(self, function: Callable[[T], K], *, sharded: bool = False) -> KeyedStream[K, T]:
        """Group rows by an int, a text, bytes or a tuple of these.

        ``sharded``: for many keys. Each partition answers for its share of them, and holds no others.
        """
        return KeyedStream(self._flow, self._step, function, sharded)

    def window(
        self,
        windows: Assigner | Session | DataDriven[T],
        *,
        lateness: int | str | None = None,
        early: int | str | None = None,
        updates: Updates | None = None,
    ) -> WindowedStream[None, T]:
        """Windows over all rows.

        ``lateness``: how long after its end, in event time, a window still takes rows; None: as the flow says.
        ``early``: results at ends of slices so long, too, each of the rows that came in time before. They are marked
        by ``g.final``, and replace each other (``updates="upsert"``) or are taken back first (``"retract"``).
        """
        return WindowedStream(self._flow, self._step, None, with_early(windows, early, updates), lateness)

    def per_partition(self) -> PartitionStream[T]:
        """The same rows, where windows are those of each partition by itself."""
        return PartitionStream(self._flow, self._step)

    def top(
        self, n: int, *, by: Callable[[T], Any], ties: Literal["all", "first"] = "first", columnar: bool = False
    ) -> Stream[T]:
        """Of each window the ``n`` rows that are largest by a function, the largest first.

        Of equal rows those with the first keys, or with ``ties="all"`` all that equal the last one taken.
        """
        return Stream(self._flow, self._top(n, by, ties, columnar))

    def sink(self, to: str | Files, *, key: Callable[[T], str | bytes | int | None] | None = None) -> None:
        """Write the rows to a topic as JSON; by ``key``, as Kafka's default partitioner routes it.

        To ``Files``: ``holon sink`` writes them, from a topic between.
        """
        self._sink(to, key)


class KeyedStream(Hinting, Generic[K, T]):
    """Rows by key; windows make groups of them."""

    _needed = NEEDED_BY_KEYS

    def __init__(self, flow: FlowSteps, step: Step, key: Callable[[T], K], sharded: bool) -> None:
        self._flow = flow
        self._step = step
        self._key = key
        self._sharded = sharded

    def window(
        self,
        windows: Assigner | Session | DataDriven[T],
        *,
        lateness: int | str | None = None,
        early: int | str | None = None,
        updates: Updates | None = None,
    ) -> WindowedStream[K, T]:
        """A group for each key and window.

        ``lateness``: how long after its end, in event time, a window still takes rows; None: as the flow says.
        ``early``: results at ends of slices so long, too, each of the rows that came in time before. They are marked
        by ``g.final``, and replace each other (``updates="upsert"``) or are taken back first (``"retract"``).
        """
        return WindowedStream(
            self._flow, self._step, self._key, with_early(windows, early, updates), lateness, self._sharded
        )


class ResultStream(LateVerb, Stream[U], Generic[U, T]):
    """Rows of complete windows over rows of type ``T``."""

    @property
    def late(self) -> Stream[T]:
        """The rows that no window took any more, in place of letters in the flow's late output.

        They are counted for the step. A record that only steps behind ``late`` take counts as late.
        """
        return Stream(self._flow, self._late())


class WindowedStream(Windowing, Generic[K, T]):
    """Groups of rows, by window and key, over all partitions."""

    _key: Callable[[T], K] | None

    def agg(self, function: Callable[[Group[K, T]], U], *, columnar: bool = False) -> ResultStream[U, T]:
        """One row for each group, when its window is complete.

        The function says which aggregates it needs by calling the group's methods; it is followed at once, and called
        with the values later.
        """
        return ResultStream(self._flow, self._agg(function, columnar))

    @overload
    def fold(
        self: WindowedStream[None, T], lattice: Lattice[E, V], of: Callable[[T], E], *, columnar: bool = False
    ) -> ResultStream[V, T]: ...
    @overload
    def fold(
        self, lattice: Lattice[E, V], of: Callable[[T], E], *, columnar: bool = False
    ) -> ResultStream[tuple[K, V], T]: ...
    def fold(
        self, lattice: Lattice[Any, Any], of: Callable[[T], Any], *, columnar: bool = False
    ) -> ResultStream[Any, Any]:
        """The value of any lattice, given as its bottom, with what ``of`` gives of each row inserted; with its key."""
        return ResultStream(self._flow, self._fold(lattice, of, columnar))

    @overload
    def distinct(
        self: WindowedStream[None, T], of: Callable[[T], U], *, columnar: bool = False
    ) -> ResultStream[U, T]: ...
    @overload
    def distinct(self, of: Callable[[T], U], *, columnar: bool = False) -> ResultStream[tuple[K, U], T]: ...
    def distinct(self, of: Callable[[T], Any], *, columnar: bool = False) -> ResultStream[Any, Any]:
        """The values that ``of`` gives of the rows of a window, each once, in order, with its key; of a key's types."""
        return ResultStream(self._flow, self._distinct(of, columnar))

    def join(self, other: KeyedStream[K, U]) -> Stream[Joined[T, U]]:
        """All pairs of a row of this stream and one of the other, with equal keys, in the same window.

        Rows of this stream stay on their partition, those of the other are sent to all: let that be the smaller one.
        """
        return Stream(self._flow, self._join(other._flow, other._step, other._key, other._sharded))


class PartitionStream(RowVerbs, Generic[T]):
    """As ``Stream``, but windows and ``top`` see the rows of one partition, for each partition by itself."""

    _alone = True

    def filter(self, function: Callable[[T], bool], *, columnar: bool = False) -> PartitionStream[T]:
        """The rows for which the function is true."""
        return PartitionStream(self._flow, self._row_step("filter", function, columnar))

    def map(self, function: Callable[[T], U], *, columnar: bool = False) -> PartitionStream[U]:
        """The function's result for each row."""
        return PartitionStream(self._flow, self._row_step("map", function, columnar))

    def filter_map(self, function: Callable[[T], U | None], *, columnar: bool = False) -> PartitionStream[U]:
        """The function's result for each row of which it is not None."""
        return PartitionStream(self._flow, self._row_step("filter_map", function, columnar))

    def flat_map(self, function: Callable[[T], Iterable[U]]) -> PartitionStream[U]:
        """All that the function makes of each row."""
        return PartitionStream(self._flow, self._row_step("flat_map", function, False))

    def split(
        self, function: Callable[[T], bool], *, columnar: bool = False
    ) -> tuple[PartitionStream[T], PartitionStream[T]]:
        """The rows for which the function is true, and the others."""
        steps = self._row_step("filter", function, columnar), self._row_step("reject", function, columnar)
        return PartitionStream(self._flow, steps[0]), PartitionStream(self._flow, steps[1])

    def of(self, kind: type[U]) -> PartitionStream[U]:
        """The rows of one Struct, where rows are one of several: ``Json(Bid | Auction)``."""
        return PartitionStream(self._flow, self._of(kind))

    def union(self, *others: PartitionStream[T]) -> PartitionStream[T]:
        """The rows of all these streams of one flow; all before a window, or behind equally many."""
        return PartitionStream(self._flow, self._union(others))

    def map_columns(self, function: Callable[[Columns], Columns], row: type[U]) -> PartitionStream[U]:
        """A function of the columns of some rows, which gives the fields of the Struct ``row`` as columns, row for row.

        Columns are called as fields, those of inner Structs by their path: ``"place.city"``. Each row's result depends
        on that row alone, for rows come in any grouping.
        """
        return PartitionStream(self._flow, self._map_columns(function, row))

    def key_by(self, function: Callable[[T], K]) -> PartitionKeyedStream[K, T]:
        """Group rows by an int, a text, bytes or a tuple of these."""
        return PartitionKeyedStream(self._flow, self._step, function)

    def window(
        self,
        windows: Assigner | Session | DataDriven[T],
        *,
        lateness: int | str | None = None,
        early: int | str | None = None,
        updates: Updates | None = None,
    ) -> PartitionWindowedStream[None, T]:
        """Windows over all rows.

        ``lateness``: how long after its end, in event time, a window still takes rows; None: as the flow says.
        ``early``: results at ends of slices so long, too, each of the rows that came in time before. They are marked
        by ``g.final``, and replace each other (``updates="upsert"``) or are taken back first (``"retract"``).
        """
        return PartitionWindowedStream(self._flow, self._step, None, with_early(windows, early, updates), lateness)

    def all_partitions(self) -> Stream[T]:
        """The same rows, where windows are those of all partitions together."""
        return Stream(self._flow, self._step)

    def top(
        self, n: int, *, by: Callable[[T], Any], ties: Literal["all", "first"] = "first", columnar: bool = False
    ) -> PartitionStream[T]:
        """Of each window the ``n`` rows that are largest by a function, the largest first.

        Of equal rows those with the first keys, or with ``ties="all"`` all that equal the last one taken.
        """
        return PartitionStream(self._flow, self._top(n, by, ties, columnar))

    def sink(self, to: str | Files, *, key: Callable[[T], str | bytes | int | None] | None = None) -> None:
        """Write the rows to a topic as JSON; by ``key``, as Kafka's default partitioner routes it.

        To ``Files``: ``holon sink`` writes them, from a topic between.
        """
        self._sink(to, key)


class PartitionKeyedStream(Hinting, Generic[K, T]):
    """Rows by key; windows make groups of them."""

    _needed = NEEDED_BY_KEYS

    def __init__(self, flow: FlowSteps, step: Step, key: Callable[[T], K]) -> None:
        self._flow = flow
        self._step = step
        self._key = key

    def window(
        self,
        windows: Assigner | Session | DataDriven[T],
        *,
        lateness: int | str | None = None,
        early: int | str | None = None,
        updates: Updates | None = None,
    ) -> PartitionWindowedStream[K, T]:
        """A group for each key and window.

        ``lateness``: how long after its end, in event time, a window still takes rows; None: as the flow says.
        ``early``: results at ends of slices so long, too, each of the rows that came in time before. They are marked
        by ``g.final``, and replace each other (``updates="upsert"``) or are taken back first (``"retract"``).
        """
        return PartitionWindowedStream(self._flow, self._step, self._key, with_early(windows, early, updates), lateness)


class PartitionResultStream(LateVerb, PartitionStream[U], Generic[U, T]):
    """Rows of complete windows of each partition over rows of type ``T``."""

    @property
    def late(self) -> PartitionStream[T]:
        """As ``ResultStream.late``."""
        return PartitionStream(self._flow, self._late())


class PartitionWindowedStream(Windowing, Generic[K, T]):
    """Groups of the rows of one partition, by window and key."""

    _alone = True
    _key: Callable[[T], K] | None

    def agg(self, function: Callable[[Group[K, T]], U], *, columnar: bool = False) -> PartitionResultStream[U, T]:
        """One row for each group, when its window is complete.

        The function says which aggregates it needs by calling the group's methods; it is followed at once, and called
        with the values later.
        """
        return PartitionResultStream(self._flow, self._agg(function, columnar))

    @overload
    def fold(
        self: PartitionWindowedStream[None, T], lattice: Lattice[E, V], of: Callable[[T], E], *, columnar: bool = False
    ) -> PartitionResultStream[V, T]: ...
    @overload
    def fold(
        self, lattice: Lattice[E, V], of: Callable[[T], E], *, columnar: bool = False
    ) -> PartitionResultStream[tuple[K, V], T]: ...
    def fold(
        self, lattice: Lattice[Any, Any], of: Callable[[T], Any], *, columnar: bool = False
    ) -> PartitionResultStream[Any, Any]:
        """The value of any lattice, given as its bottom, with what ``of`` gives of each row inserted; with its key."""
        return PartitionResultStream(self._flow, self._fold(lattice, of, columnar))

    @overload
    def distinct(
        self: PartitionWindowedStream[None, T], of: Callable[[T], U], *, columnar: bool = False
    ) -> PartitionResultStream[U, T]: ...
    @overload
    def distinct(self, of: Callable[[T], U], *, columnar: bool = False) -> PartitionResultStream[tuple[K, U], T]: ...
    def distinct(self, of: Callable[[T], Any], *, columnar: bool = False) -> PartitionResultStream[Any, Any]:
        """The values that ``of`` gives of the rows of a window, each once, in order, with its key; of a key's types."""
        return PartitionResultStream(self._flow, self._distinct(of, columnar))
