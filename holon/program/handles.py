"""Handles: what a running processing function holds of its states. One for each state and partition."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from holon.errors import TrackError
from holon.program.access import DeclaredTrack, PartitionAccess
from holon.program.insert_buffer import GatheredPairs, GatheredRows
from holon.time.units import MAX_TS_MS
from wcrdt.lattice import Lattice
from wcrdt.lattices.maps import KeyedMap
from wcrdt.lattices.records import PairOf, Product, RecordOf
from wcrdt.windows.assigners import Assigner, GlobalWindow, Sliding, Tumbling, Window

E = TypeVar("E")
V = TypeVar("V")
T = TypeVar("T")

_KEYS = frozenset({int, str})
"""Keys that are their own identities, and equal no other ones."""
_LASTING = (Tumbling, Sliding, GlobalWindow)
"""Assigners whose windows end after each event that they take."""


class SafeRead(Generic[V]):
    """``await`` it: the value of a window once the window is complete, the same on every partition."""

    __slots__ = ("_handle", "window")

    def __init__(self, handle: WindowedHandle[Any, V], window: Window) -> None:
        self._handle = handle
        self.window = window
        handle._scope.reads[self] = None
        handle._scope.touched = True

    @property
    def state(self) -> str:
        """Name of the state that is read."""
        return self._handle.name

    def __await__(self) -> Generator[SafeRead[V], None, V]:
        handle, scope = self._handle, self._handle._scope
        scope.reads.pop(self, None)
        scope.begin_await(handle.name, self.window)
        while not self.ready:
            yield self  # the partition waits until the frontier has passed the window
        return scope.final_value(handle.name, self.window)

    @property
    def ready(self) -> bool:
        """True once the await would return at once."""
        return self._handle._scope.is_final(self._handle.name, self.window)


class WindowedHandle(Generic[E, V]):
    """A WCRDT or WLocal of the partition that is being processed."""

    __slots__ = ("_scope", "name")

    def __init__(self, scope: PartitionAccess, name: str) -> None:
        self._scope = scope
        self.name = name

    def insert(self, element: E, ts_ms: int) -> bool:
        """Insert for event time ``ts_ms`` (ms since 1970 UTC); False if it is too late for some of its windows.

        Raises ``TrackError`` when called from the track that does not write this state.
        """
        return self._scope.insert(self.name, element, ts_ms)

    def insert_many(self, elements: Any, ts_ms: NDArray[np.int64], rows: NDArray[np.intp] | None = None) -> int:
        """Insert a column (or a tuple of columns) with a column of times; returns how many were too late.

        ``rows`` names each element's row of the batch; it is needed only where the columns are not as long
        as the batch, because lateness is decided record by record.
        """
        return self._scope.insert_many(self.name, elements, ts_ms, rows)

    def insert_if_open(
        self, elements: Callable[[], Any], ts_ms: NDArray[np.int64], rows: NDArray[np.intp] | None = None
    ) -> bool:
        """Insert what ``elements`` makes, if all windows of all times are open; False: nothing was made.

        False, too, where that is seen row by row only. The times are event times of the batch in hand, ``rows`` as in
        ``insert_many``. So there is one look at them where ``take_late`` and ``insert_many`` each have one.
        """
        return self._scope.insert_if_open(self.name, elements, ts_ms, rows)

    def take_late(
        self,
        ts_ms: NDArray[np.int64],
        rows: NDArray[np.intp] | None = None,
        *,
        letters: bool = False,
        judged_ms: NDArray[np.int64] | None = None,
    ) -> NDArray[np.intp]:
        """The places of the times that no window of this state takes any more, for the function to route.

        They count as late for the state, as if they had been inserted: insert the others. Without ``letters`` their
        records do not go to the late output for that. ``rows`` as in ``insert_many``. ``judged_ms``: the times for
        which they are inserted, where these are others. Raises ``TrackError`` in an ``on_window`` handler, where no
        record is in hand.
        """
        return self._scope.take_late(self.name, ts_ms, rows, letters, judged_ms)

    def in_order(self, ts_ms: NDArray[np.int64], rows: NDArray[np.intp] | None = None) -> NDArray[np.int64]:
        """The times, or the watermark before the row (less allowed lateness) where that is later.

        So none of them is late, and none is for a window that others have read. ``rows`` as in ``insert_many``.
        """
        return self._scope.in_order(self.name, ts_ms, rows)

    def window_value(self, window: Window) -> SafeRead[V]:
        """The safe read (Holon, section 3.1): ``await`` gives the completed window's value.

        Without ``await`` the function ends with ``WindowNotAwaited``. Raises ``WindowReadDeadlock`` if this
        partition's own watermark has not passed the window, and
        ``WindowExpired`` if the window is older than the job's ``window_retention_ms``.
        """
        return SafeRead(self, window)

    def window_state(self, window: Window) -> Lattice[E, V]:
        """In an ``on_window`` handler: the lattice of a window, of which ``window_value`` reads the value.

        It is shared: combine it into another one, but do not write it. Raises ``TrackError`` elsewhere, and what
        ``window_value`` raises.
        """
        return self._scope.window_state(self.name, window)

    def peek(self, window: Window) -> V | None:
        """The unsafe read: the value if the window is complete here and now, else None.

        On the record track the answer depends on timing: what is computed from it may only go to
        ``Context.emit_nondeterministic``.
        """
        return self._scope.peek(self.name, window)

    def increment_watermark(self, ts_ms: int) -> None:
        """Promise that this partition brings no event time below ``ts_ms`` any more (Holon, Table 1)."""
        self._scope.increment_watermark(ts_ms)

    @property
    def global_watermark_ms(self) -> int:
        """The minimum watermark over all partitions, as known here and now: depends on timing, as ``peek``."""
        return self._scope.global_watermark()


def is_key(key: Any) -> bool:
    """Whether this is a text or an int, or a tuple of these: such keys are their own identities."""
    return type(key) in _KEYS or (type(key) is tuple and _KEYS.issuperset(map(type, key)))


class NumberHandle(WindowedHandle[E, V]):
    """The handle of a state of numbers while elements are gathered: most inserts end in two lists.

    Whatever is unusual about an insert goes to ``Scope.insert``, which knows all the rules.
    """

    __slots__ = ("_append", "_append_time", "_kinds", "_least")

    def __init__(self, scope: PartitionAccess, name: str, kinds: frozenset[type], least: float, rows: Any) -> None:
        super().__init__(scope, name)
        self._kinds, self._least = kinds, least
        self._append, self._append_time = rows.elements.append, rows.times.append

    def insert(self, element: E, ts_ms: int) -> bool:
        if (
            type(element) in self._kinds
            and element >= self._least  # type: ignore[operator]  # NaN is not
            and type(ts_ms) is int
            and self._scope.open_from_ms <= ts_ms < MAX_TS_MS
        ):
            self._append(element)
            self._append_time(ts_ms)
            return True
        return self._scope.insert(self.name, element, ts_ms)


class NumbersByKeyHandle(NumberHandle[E, V]):
    """The same for a map from texts or ints to numbers."""

    __slots__ = ("_append_code", "_numbers")

    def __init__(self, scope: PartitionAccess, name: str, kinds: frozenset[type], least: float, rows: Any) -> None:
        super().__init__(scope, name, kinds, least, rows)
        self._append_code, self._numbers = rows.codes.append, rows.numbers

    def insert(self, element: E, ts_ms: int) -> bool:
        if (
            type(element) is tuple
            and len(element) == 2
            and type(element[1]) in self._kinds
            and element[1] >= self._least
            and (type(element[0]) in _KEYS or is_key(element[0]))
            and type(ts_ms) is int
            and self._scope.open_from_ms <= ts_ms < MAX_TS_MS
        ):
            self._append_code(self._numbers[element[0]])  # first, since it refuses a text without bytes
            self._append(element[1])
            self._append_time(ts_ms)
            return True
        return self._scope.insert(self.name, element, ts_ms)


def numbers_check(parts: Sequence[Lattice[Any, Any]]) -> Callable[[Any], bool]:
    """Whether an element is a tuple of numbers, of which each part takes its own without a ``check``.

    Records of two and three parts have code of their own: a loop takes twice as long.
    """
    kinds, least = [part.kinds for part in parts], [part.least for part in parts]
    if len(parts) == 2:
        return _pair_check(kinds, least)
    if len(parts) == 3:
        return _triple_check(kinds, least)

    def are_numbers(record: Any) -> bool:
        if type(record) is not tuple or len(record) != len(kinds):
            return False
        each = zip(record, kinds, least, strict=True)
        return all(type(number) in known and number >= lowest for number, known, lowest in each)  # NaN is not

    return are_numbers


def _pair_check(all_kinds: Sequence[frozenset[type]], all_least: Sequence[float]) -> Callable[[Any], bool]:
    (kinds, kinds_2), (least, least_2) = all_kinds, all_least

    def are_numbers(record: Any) -> bool:
        if type(record) is not tuple or len(record) != 2:
            return False
        a, b = record
        return type(a) in kinds and type(b) in kinds_2 and a >= least and b >= least_2

    return are_numbers


def _triple_check(all_kinds: Sequence[frozenset[type]], all_least: Sequence[float]) -> Callable[[Any], bool]:
    (kinds, kinds_2, kinds_3), (least, least_2, least_3) = all_kinds, all_least

    def are_numbers(record: Any) -> bool:
        if type(record) is not tuple or len(record) != 3:
            return False
        a, b, c = record
        if type(a) not in kinds or type(b) not in kinds_2 or type(c) not in kinds_3:
            return False
        return a >= least and b >= least_2 and c >= least_3

    return are_numbers


class RecordHandle(WindowedHandle[E, V]):
    """The handle of a record of numbers, which is a tuple of as many, while elements are gathered."""

    __slots__ = ("_append", "_append_time", "_are_numbers")

    def __init__(self, scope: PartitionAccess, name: str, parts: Sequence[Lattice[Any, Any]], rows: Any) -> None:
        super().__init__(scope, name)
        self._are_numbers = numbers_check(parts)
        self._append, self._append_time = rows.elements.append, rows.times.append

    def insert(self, element: E, ts_ms: int) -> bool:
        if self._are_numbers(element) and type(ts_ms) is int and self._scope.open_from_ms <= ts_ms < MAX_TS_MS:
            self._append(element)
            self._append_time(ts_ms)
            return True
        return self._scope.insert(self.name, element, ts_ms)


class RecordsByKeyHandle(RecordHandle[E, V]):
    """The same for a map from keys to records of numbers."""

    __slots__ = ("_append_code", "_numbers")

    def __init__(self, scope: PartitionAccess, name: str, parts: Sequence[Lattice[Any, Any]], rows: Any) -> None:
        super().__init__(scope, name, parts, rows)
        self._append_code, self._numbers = rows.codes.append, rows.numbers

    def insert(self, element: E, ts_ms: int) -> bool:
        if (
            type(element) is tuple
            and len(element) == 2
            and self._are_numbers(element[1])
            and (type(element[0]) in _KEYS or is_key(element[0]))
            and type(ts_ms) is int
            and self._scope.open_from_ms <= ts_ms < MAX_TS_MS
        ):
            self._append_code(self._numbers[element[0]])  # first, since it refuses a text without bytes
            self._append(element[1])
            self._append_time(ts_ms)
            return True
        return self._scope.insert(self.name, element, ts_ms)


def windowed_handle(
    scope: PartitionAccess, name: str, bottom: Lattice[Any, Any], windows: Assigner, rows: GatheredRows | None
) -> WindowedHandle[Any, Any]:
    """The quickest handle of a state, of which ``rows`` gathers elements (None: nothing does)."""
    inner = bottom.inner if isinstance(rows, GatheredPairs) and isinstance(bottom, KeyedMap) else bottom
    if rows is None or type(windows) not in _LASTING:
        return WindowedHandle(scope, name)
    by_key = isinstance(rows, GatheredPairs)
    if isinstance(inner, Product) and type(inner) in (RecordOf, PairOf) and all(part.kinds for part in inner.parts):
        return (RecordsByKeyHandle if by_key else RecordHandle)(scope, name, inner.parts, rows)
    if not inner.kinds:
        return WindowedHandle(scope, name)
    return (NumbersByKeyHandle if by_key else NumberHandle)(scope, name, inner.kinds, inner.least, rows)


class LocalHandle(Generic[T]):
    """A Local of the partition that is being processed; read or assign ``value``, or change it in place."""

    __slots__ = ("_decl", "_scope", "name")

    def __init__(self, scope: PartitionAccess, name: str, decl: DeclaredTrack) -> None:
        self._scope = scope
        self._decl = decl
        self.name = name

    @property
    def value(self) -> T:
        self._check()
        return self._scope.locals[self.name]

    @value.setter
    def value(self, value: T) -> None:
        self._check()
        self._scope.refuse_if_tainted(f"setting Local {self.name!r}")
        self._scope.locals[self.name] = value

    def _check(self) -> None:
        self._scope.checkpointable.before_use(self.name, self._scope.locals)
        self._scope.touched = True
        if self._decl.track != self._scope.track_name:
            raise TrackError(
                f"Local {self.name!r} belongs to the {self._decl.track} track and was used on the "
                f"{self._scope.track_name} track; the two run at different times, so the result would depend on "
                f'timing: declare it with track="{self._scope.track_name}" or share through a WCRDT'
            )
        stage = self._decl.stage
        if stage is not None and stage != self._scope.now[1]:
            raise TrackError(
                f"Local {self.name!r} belongs to handlers of stage {stage} and was used by one of stage "
                f"{self._scope.now[1]}; stages run at different times, so the result would depend on timing: declare "
                f"it without stage= or share through a WCRDT"
            )
