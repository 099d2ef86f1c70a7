"""The windows of one shard that are open: they take in the rows of a slice after the other, and close.

Two rules for this file: what closes is a function of the rows so far in their order, and neither where slices came from
nor their form changes bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np

from holon.dataflow.data_driven.rows import Partials, SliceRows, together
from holon.dataflow.data_driven.slices import LAST_MS, DrivenSlices
from holon.errors import USER_ERRORS, HolonError, JobError
from holon.program.checkpointable import OwnBytes
from wcrdt import RecordOf
from wcrdt.codec import element_from_wire, element_to_wire
from wcrdt.elements import order_key, ordered, plain
from wcrdt.lattices.keyed.keys import Unfit
from wcrdt.windows.assigners import END_OF_TIME_MS
from wcrdt.windows.data_driven import Change, Count

Failing = Callable[[Any, int, Sequence[Any], BaseException], None]
"""Takes a row whose ``next`` raises: key, time and marks."""


class Result(NamedTuple):
    """A window at the end of a slice; ``values`` are those of the parts that were asked for."""

    key: Any
    first_ms: int
    end_ms: int
    values: list[Any]
    timed_out: bool = False
    final: bool = True
    retracted: bool = False


class Open:
    """The window of a key that is open: the times of its first and last row, the state of ``next``, and its rows."""

    __slots__ = ("came", "first_ms", "is_known", "last_ms", "record", "state")

    def __init__(self, first_ms: int, last_ms: int, state: Any, record: RecordOf) -> None:
        self.first_ms = first_ms
        self.last_ms = last_ms
        self.state = state
        self.record = record
        self.came: list[int] = []  # the places of rows of the slice in hand, which the record has not yet
        self.is_known = False  # from a slice before the one in hand


class OpenWindows(OwnBytes, dict=True):
    """``windows``: their bytes, as restored or as made last for a checkpoint."""

    windows: bytes = b""

    def to_bytes(self) -> bytes:
        held = vars(self).get("known")
        if held is not None and not self.windows and held.windows:
            self.windows = held.to_bytes()
        return msgspec.msgpack.encode(self)

    def held(self, slices: DrivenSlices, bottom: RecordOf) -> Held:
        """The windows, to be read and written. ``bottom``: the state of no rows."""
        held = vars(self).get("known")
        if held is None:
            held = vars(self)["known"] = Held(slices, bottom, self.windows)
        self.windows = b""
        return held


class Held:
    """Windows by key, and by end of slice the keys that are due in it, but for windows that have closed since."""

    def __init__(self, slices: DrivenSlices, bottom: RecordOf, data: bytes) -> None:
        self._slices, self._bottom = slices, bottom
        self.windows: dict[Any, Open] = {}
        self._due: defaultdict[int, list[Any]] = defaultdict(list)
        for key, first_ms, last_ms, state, record in msgspec.msgpack.decode(data) if data else ():
            window = Open(first_ms, last_ms, element_from_wire(state), cast(RecordOf, bottom.from_wire(record)))
            window.is_known = True
            self._opened(element_from_wire(key), window)

    def to_bytes(self) -> bytes:
        """Of all windows, in the order of keys."""
        found = [(key, self.windows[key]) for key in ordered(self.windows)]
        rows = [
            (element_to_wire(key), one.first_ms, one.last_ms, element_to_wire(one.state), one.record.to_wire())
            for key, one in found
        ]
        return msgspec.msgpack.encode(rows)

    def _opened(self, key: Any, window: Open) -> None:
        self.windows[key] = window
        if self._slices.timeout_ms is not None:
            self._due[self._slices.end_of(self._last_ms(window))].append(key)

    def _last_ms(self, window: Open) -> int:
        """The last time at which a row still belongs to the window."""
        timeout_ms = self._slices.timeout_ms
        return LAST_MS if timeout_ms is None else min(window.first_ms + timeout_ms - 1, LAST_MS)

    # --- a slice ------------------------------------------------------------------------------------------------------

    def take(self, rows: SliceRows, end_ms: int, names: Sequence[str], failing: Failing | None = None) -> list[Result]:
        """Take in the slice that ends at ``end_ms``: what leaves there by key, retractions first.

        ``names``: the parts of which values are wanted. ``failing`` None: ``next`` may raise.
        """
        taken = _Taken(self._slices.retracts, names)
        take_key = self._count_key if type(self._slices.windows) is Count else self._take_key
        keys, begin = rows.keys, 0
        for place in range(1, len(keys) + 1):
            if place == len(keys) or keys[place] != keys[begin]:
                take_key(taken, keys[begin], range(begin, place), rows, failing)
                begin = place
        self._close_due(taken, end_ms)
        taken.put_together(rows)
        return taken.results(self.windows if self._slices.early else {})

    def _count_key(self, taken: _Taken, key: Any, places: range, rows: SliceRows, failing: Failing | None) -> None:
        """As ``_take_key``, for windows by count: as many rows at once as one window takes."""
        size, times = cast(Count, self._slices.windows).size, rows.times
        begin, stop = places.start, places.stop
        while begin < stop:
            window = self.windows.get(key)
            if window is not None and times[begin] > self._last_ms(window):
                self._time_out(taken, key, window)
                window = None
            if window is None:
                window = self._begun(key, times[begin])
            count = window.state or 0
            end = min(stop, begin + size - count)
            end = bisect_right(times, self._last_ms(window), begin, end)
            taken.rows(key, window, range(begin, end))
            window.last_ms, window.state = times[end - 1], count + end - begin
            if window.state == size:
                self._close(taken, key, window)
            begin = end

    def _take_key(self, taken: _Taken, key: Any, places: range, rows: SliceRows, failing: Failing | None) -> None:
        """Take in the rows of one key, in their order."""
        window = self.windows.get(key)
        last_ms = LAST_MS if window is None else self._last_ms(window)
        for place in places:
            ts_ms = rows.times[place]
            if window is not None and ts_ms > last_ms:
                self._time_out(taken, key, window)
                window = None
            try:
                state, takes, closes = self._change(window, rows.marks[place])
            except USER_ERRORS as error:
                if failing is None or isinstance(error, HolonError):
                    raise
                failing(key, ts_ms, rows.marks[place], error)
                continue
            if closes and window is not None:
                self._close(taken, key, window)
                window = None
            if takes:
                if window is None:
                    window = self._begun(key, ts_ms)
                    last_ms = self._last_ms(window)
                taken.rows(key, window, (place,))
                window.last_ms = ts_ms
            if window is not None:
                window.state = state
                if state is None:
                    self._close(taken, key, window)
                    window = None

    def _begun(self, key: Any, ts_ms: int) -> Open:
        """A window that begins with a row at this time."""
        window = Open(ts_ms, ts_ms, None, self._bottom.bottom())
        self._opened(key, window)
        return window

    def _change(self, window: Open | None, marks: Sequence[Any]) -> Change:
        """By a row with these marks, in the one form of a state. Raises what ``next`` does, and for a misuse of it."""
        windows = self._slices.windows
        change = windows.next(None if window is None else window.state, *marks)
        if type(change) is not Change:
            raise JobError(f"next() of {windows!r} gives a Change, got {change!r:.100}")
        if change.state is None:
            return change
        if not change.takes and (window is None or change.closes):
            raise JobError(f"next() of {windows!r} gives a state, and no window is open: {change!r:.100}")
        return change if type(change.state) is int else change._replace(state=plain(change.state))

    def _close_due(self, taken: _Taken, end_ms: int) -> None:
        """Close what is open too long at the end of a slice; at the end of the input, all."""
        due: Iterable[Any] = self._due.pop(end_ms, ())
        for key in ordered(self.windows) if end_ms >= END_OF_TIME_MS else due:
            window = self.windows.get(key)
            if window is not None and self._last_ms(window) < end_ms:
                self._time_out(taken, key, window)

    def _time_out(self, taken: _Taken, key: Any, window: Open) -> None:
        last_ms = window.last_ms if self._slices.timeout_ms is None else self._last_ms(window)
        self._close(taken, key, window, last_ms + 1, timed_out=True)

    def _close(self, taken: _Taken, key: Any, window: Open, end_ms: int | None = None, timed_out: bool = False) -> None:
        taken.closed.append((key, window, window.last_ms + 1 if end_ms is None else end_ms, timed_out))
        taken.changes(key, window)
        del self.windows[key]


class _Taken:
    """Windows that a slice changes and closes; records have its rows once they are put together."""

    def __init__(self, retracts: bool, names: Sequence[str]) -> None:
        self._retracts, self._names = retracts, names
        self.closed: list[tuple[Any, Open, int, bool]] = []
        self._came: list[tuple[Any, Open]] = []
        self._before: dict[Any, Result] = {}

    def rows(self, key: Any, window: Open, places: Iterable[int]) -> None:
        """The rows at these places of the slice belong to a window."""
        if not window.came:
            self._came.append((key, window))
            self.changes(key, window)
        window.came.extend(places)

    def changes(self, key: Any, window: Open) -> None:
        """The first window of a key that changes has had an early result before, if it was open before."""
        if self._retracts and window.is_known and key not in self._before:
            values = self._values(window)
            self._before[key] = Result(key, window.first_ms, window.last_ms + 1, values, False, False, True)

    def put_together(self, rows: SliceRows) -> None:
        """Give records the rows that came."""
        found = [window for _, window in self._came]
        if found:
            combine_rows(found, rows.states)
        for window in found:
            window.came, window.is_known = [], True

    def results(self, open_windows: dict[Any, Open]) -> list[Result]:
        """Retractions by key, then results by key in the order of windows; ``open_windows`` of which some are early."""
        found = [
            Result(key, window.first_ms, end_ms, self._values(window), timed_out)
            for key, window, end_ms, timed_out in self.closed
        ]
        found += [
            Result(key, window.first_ms, window.last_ms + 1, self._values(window), final=False)
            for key, window in self._came
            if open_windows.get(key) is window
        ]
        return [*sorted(self._before.values(), key=_by_key), *sorted(found, key=_by_key)]

    def _values(self, window: Open) -> list[Any]:
        return [window.record[name].value for name in self._names]


def _by_key(result: Result) -> Any:
    return order_key(result.key)


def combine_rows(windows: Sequence[Open], states: Partials | Sequence[Any]) -> None:
    """Let each window's record have the rows that came."""
    if isinstance(states, Partials):
        came = [states.places[window.came] for window in windows]
        try:
            leaf = together(states.leaf.taken(np.concatenate(came)), np.array(list(map(len, came))))
            parts = leaf.lattices(np.arange(len(windows)))
        except Unfit:
            rows = iter(states.leaf.lattices(np.concatenate(came)))
            for window in windows:
                _combine(window, [next(rows) for _ in window.came])
        else:
            for window, part in zip(windows, parts, strict=True):
                _combine(window, [part])
    else:
        for window in windows:
            _combine(window, [states[place] for place in window.came])


def _combine(window: Open, parts: Iterable[Any]) -> None:
    for part in parts:
        window.record.combine(part)
