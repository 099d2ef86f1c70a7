"""Handles: what a running processing function holds of its states. One for each state and partition."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from holon.errors import TrackError
from holon.program.access import DeclaredTrack, PartitionAccess
from wcrdt.lattice import Lattice
from wcrdt.windows.assigners import Assigner, Window
from wcrdt.windows.held_longer import HeldLonger

E = TypeVar("E")
V = TypeVar("V")
T = TypeVar("T")


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
        held = handle.held(self.window)
        scope.begin_await(handle.name, held)
        while not self.ready:
            yield self  # the partition waits until the frontier has passed the window
        return scope.final_value(handle.name, held)

    @property
    def ready(self) -> bool:
        """True once the await would return at once."""
        return self._handle._scope.is_final(self._handle.name, self._handle.held(self.window))


class WindowedHandle(Generic[E, V]):
    """A WCRDT or WLocal of the partition that is being processed."""

    __slots__ = ("_later", "_scope", "name")

    def __init__(self, scope: PartitionAccess, name: str) -> None:
        self._scope = scope
        self.name = name
        self._later: HeldLonger | None = None

    def of_windows(self, windows: Assigner) -> Self:
        """Itself, as that of a state of these windows, of which functions see the times that they have declared."""
        self._later = windows if isinstance(windows, HeldLonger) else None
        return self

    def held(self, window: Window) -> Window:
        """A window as all else knows it."""
        return window if self._later is None else self._later.held(window)

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
        return self._scope.window_state(self.name, self.held(window))

    def peek(self, window: Window) -> V | None:
        """The unsafe read: the value if the window is complete here and now, else None.

        On the record track the answer depends on timing: what is computed from it may only go to
        ``Context.emit_nondeterministic``.
        """
        return self._scope.peek(self.name, self.held(window))

    def increment_watermark(self, ts_ms: int) -> None:
        """Promise that this partition brings no event time below ``ts_ms`` any more (Holon, Table 1)."""
        self._scope.increment_watermark(ts_ms)

    @property
    def global_watermark_ms(self) -> int:
        """The minimum watermark over all partitions, as known here and now: depends on timing, as ``peek``."""
        return self._scope.global_watermark()


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
