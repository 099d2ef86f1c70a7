"""The scope: what the handles of one partition read and write, with the rules that keep results deterministic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from holon.errors import TrackError, refuse_returned
from holon.program import window_read_errors as window_reads
from holon.program.checkpointable import CheckpointableLocals
from holon.program.insert_arguments import RowWatermarks, check_heights, checked_time, checked_times, take_rows
from holon.program.insert_buffer import GatheredRows, gathering, is_lasting
from holon.program.late_inserts import LateInserts
from holon.program.own_windows import OwnWindows
from holon.program.placing import Columns, places, places_for
from holon.program.program import JobProgram
from holon.program.shared_windows import SharedWindows
from holon.time.units import MAX_TS_MS
from wcrdt.replica.replica import actor_of
from wcrdt.replica.slots import RECORD_START, OwnTrack, PrivateTrack, start_of_stage
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS, Window
from wcrdt.windows.held_longer import held_longer_ms, shown

if TYPE_CHECKING:
    from holon.program.handles import SafeRead

SafeReadPosition = tuple[int, int, int, int]
"""The position of a record at a safe read: entered_ms, watermark_ms, next_watermark_ms, awaits."""
LOWEST_MS, NEVER_MS = 1 - MAX_TS_MS, END_OF_TIME_MS
"""The first time that an event can have, and one that is later than any."""


class Scope:
    """State of one partition and the position of the code that runs on it.

    ``entered_ms`` is the watermark before the record in hand, ``next_watermark_ms`` the one after it, and
    ``watermark_ms`` the one that lateness is judged by. An await inside of the record moves it from one to the other.

    ``gathered``: the inserts of records since they were applied last. ``wrote``: the record in hand has written into a
    window itself.
    """

    def __init__(self, program: JobProgram, partition: int, shared: SharedWindows, window_retention_ms: int) -> None:
        self.program = program
        self.partition = partition
        self.shared = shared
        self.replica = shared.replica
        self.window_retention_ms = window_retention_ms
        self.windowed = program.windowed()
        states = self.windowed.items()
        self.record = OwnTrack(RECORD_START, {n: d.bottom for n, d in states if d.shared and d.stage == 0})
        self.answers = [
            OwnTrack(start_of_stage(stage), {n: d.bottom for n, d in states if d.stage > stage})
            for stage in range(program.last_stage + 1)
        ]
        self.private = PrivateTrack(RECORD_START, {n: d.bottom for n, d in states if not d.shared})
        self.own = OwnWindows(self.windowed, self.private)
        found = {name: gathering(decl.bottom) for name, decl in states if decl.stage == 0}
        self.gathered: dict[str, GatheredRows] = {name: rows for name, rows in found.items() if rows is not None}
        self.open_from_ms, self.touched, self.wrote = NEVER_MS, True, True
        self.locals: dict[str, Any] = {}
        self.checkpointable = CheckpointableLocals(program.locals())
        self.reset_locals({})
        self.track_name: Literal["record", "window"] = "record"
        self.watermark_ms = BEFORE_TIME_MS
        self.next_watermark_ms = BEFORE_TIME_MS
        self.entered_ms = BEFORE_TIME_MS
        self.row_watermarks: NDArray[np.int64] | None = None
        self.awaits = 0
        self.late = LateInserts(self.replica.lateness_ms)
        self.now: tuple[Window, int] = (Window(BEFORE_TIME_MS, BEFORE_TIME_MS), 0)
        self._taint = ""
        self.reads: dict[SafeRead[Any], None] = {}
        self._record_reads = self.reads  # a window may be answered while a record waits

    # --- positions ------------------------------------------------------------------------------------------------

    def enter_record(self, watermark_ms: int, next_watermark_ms: int) -> None:
        """The next record (or, with ``enter_rows``, batch) is in hand."""
        self.track_name = "record"
        self.reads = self._record_reads
        self.reads.clear()  # of a record that has failed
        self.watermark_ms = self.entered_ms = watermark_ms
        self.next_watermark_ms = next_watermark_ms
        self.row_watermarks = None
        self.awaits = 0
        self._taint = ""
        self.touched = self.wrote = False
        self.open_from_ms = self.always_open_from(watermark_ms)

    def always_open_from(self, watermark_ms: int) -> int:
        """An event of this time or a later one is late for no window: each ends after the event."""
        if watermark_ms >= END_OF_TIME_MS:
            return NEVER_MS
        return max(watermark_ms - self.replica.lateness_ms, LOWEST_MS)

    def leave_record(self) -> SafeReadPosition:
        """The values that ``resume_record`` needs to go on with the record in hand."""
        return (self.entered_ms, self.watermark_ms, self.next_watermark_ms, self.awaits)

    def resume_record(self, position: SafeReadPosition) -> None:
        """The record that waited for a safe read is in hand again."""
        reads = {**self._record_reads}
        self.enter_record(position[0], position[2])
        self.reads.update(reads)
        _, self.watermark_ms, _, self.awaits = position
        self.open_from_ms = self.always_open_from(self.watermark_ms)
        self.touched = True

    def enter_rows(self, watermarks: NDArray[np.int64], next_watermark_ms: int) -> None:
        """A batch is in hand; ``watermarks`` are those before each of its rows."""
        self.enter_record(int(watermarks[0]), next_watermark_ms)
        self.row_watermarks = watermarks
        self._insert_at_once()

    def enter_window(self, window: Window, stage: int) -> None:
        """A completed window is in hand."""
        self.track_name = "window"
        self.now = (window, stage)
        self.reads = {}
        self.row_watermarks = None
        self._taint = ""
        self._insert_at_once()

    def _insert_at_once(self) -> None:
        """No record is in hand."""
        self.open_from_ms, self.touched = NEVER_MS, True

    # --- writing --------------------------------------------------------------------------------------------------

    def insert(self, name: str, element: Any, ts_ms: int) -> bool:
        decl = self.windowed[name]
        track, actor = self._writable(name)
        ts = checked_time(name, ts_ms)
        rows = self.gathered.get(name) if self.row_watermarks is None else None
        if rows is not None and not is_lasting(element):
            self.apply(name)
            rows = None
        late = taken = 0
        for window in places_for(decl.windows, decl.panes, ts, self._is_closed, name):
            if self._is_closed(name, window):
                late += 1
                self._count_late(1)
                continue
            taken += 1
            if rows is None:
                self.wrote = self.touched = True
                track.insert(name, window, element, actor)
            elif taken == 1:
                decl.bottom.check(element)
        if rows is not None and taken:
            rows.add(element, ts, self.watermark_ms if late else None)
        if late and not taken and self.track_name == "record":
            self._keep_late(name, np.array([ts]), None, None, True)
        return not late

    def insert_many(self, name: str, elements: Any, ts_ms: NDArray[np.int64], rows: NDArray[np.intp] | None) -> int:
        (track, actor), times = self._writable(name), checked_times(name, ts_ms)
        check_heights(name, elements, len(times))
        of_rows = RowWatermarks(name, self.row_watermarks, len(times), rows)
        self.apply(name)
        closing = of_rows.where_closed(self.windowed[name].windows, times, self.replica.lateness_ms)
        late = self._insert_rows(name, track, actor, elements, times, closing)
        self._count_late(late)
        if late and self.track_name == "record":
            self._keep_late(name, times, of_rows.each(), rows, True)
        return late

    def insert_if_open(self, name: str, elements: Callable[[], Any], ts_ms: NDArray[np.int64], rows: Any) -> bool:
        (track, actor), of_rows = self._writable(name), RowWatermarks(name, self.row_watermarks, len(ts_ms), rows)
        if not of_rows.leave_open(self.windowed[name].windows, ts_ms, self.replica.lateness_ms, 0):
            return False
        made = elements()
        check_heights(name, made, len(ts_ms))
        self.apply(name)
        self._insert_rows(name, track, actor, made, ts_ms, None)
        return True

    def take_late(
        self, name: str, ts_ms: Any, rows: NDArray[np.intp] | None, letters: bool, judged_ms: Any
    ) -> NDArray[np.intp]:
        self._writable(name)
        if self.track_name == "window":
            raise TrackError(f"take_late of {name!r} in a handler, where insert gives False")
        of_rows = RowWatermarks(name, self.row_watermarks, len(ts_ms), rows)
        windows, by = self.windowed[name].windows, ts_ms if judged_ms is None else judged_ms
        if of_rows.leave_open(windows, by, self.replica.lateness_ms, -1):
            return np.empty(0, np.intp)  # wrong rows and times are refused by their insert
        times = checked_times(name, ts_ms)
        late = self._keep_late(name, times, of_rows.each(), rows, letters, judged_ms)
        self._count_late(sum(map(len, map(windows.windows_for, times[late].tolist()))))
        return late

    def _keep_late(
        self, name: str, times: Any, watermarks: NDArray[np.int64] | None, rows: Any, letters: bool, judged: Any = None
    ) -> NDArray[np.intp]:
        at_ms = self.watermark_ms if watermarks is None else watermarks
        return self.late.add(name, self.windowed[name].windows, times, at_ms, rows, letters, judged)

    def in_order(self, name: str, ts_ms: Any, rows: NDArray[np.intp] | None) -> NDArray[np.int64]:
        if self.track_name == "window":
            return ts_ms
        each = RowWatermarks(name, self.row_watermarks, len(ts_ms), rows).each()
        lateness_ms = self.replica.lateness_ms + held_longer_ms(self.windowed[name].windows)
        return np.maximum(ts_ms, (self.watermark_ms if each is None else each) - lateness_ms)

    def _insert_rows(
        self, name: str, track: OwnTrack, actor: int, elements: Any, times: Any, watermarks: NDArray[np.int64] | None
    ) -> int:
        """Insert into the windows that are open at each row's watermark; returns how many are not."""
        self.wrote = self.touched = True
        decl, columns = self.windowed[name], Columns(times, watermarks, self.replica.lateness_ms)
        parts, late = places(decl.windows, decl.panes, columns, partial(self._is_closed, name, highest=True))
        for window, taken in parts:
            track.insert_many(name, window, take_rows(elements, taken, len(times)), actor)
        return late

    def _count_late(self, count: int) -> None:
        self.touched = True
        self.late.count(count, self.track_name)

    def apply(self, name: str) -> None:
        """Put what was gathered of a state into its windows."""
        rows = self.gathered.get(name)
        if rows is not None and rows.times:
            track = self.record if self.windowed[name].shared else self.private
            self._insert_rows(name, track, actor_of(self.partition, None), *rows.take())

    def forget_gathered(self) -> None:
        """Those inserts have not been."""
        for rows in self.gathered.values():
            rows.cut_back(0)

    def apply_all(self) -> None:
        """The same for all states."""
        for name in self.gathered:
            self.apply(name)

    def _writable(self, name: str) -> tuple[OwnTrack, int]:
        decl = self.windowed[name]
        self.refuse_if_tainted(f"inserting into {name!r}")
        stage = self.now[1] if self.track_name == "window" else None
        if (stage is not None) != (decl.stage > 0) or (stage is not None and decl.stage <= stage):
            window_reads.refuse_write(name, decl.stage, stage)
        if stage is not None:
            return self.answers[stage], actor_of(self.partition, stage)
        return self.record if decl.shared else self.private, actor_of(self.partition, None)

    def _is_closed(self, name: str, window: Window, highest: bool = False) -> bool:
        """True if the window takes nothing any more; with ``highest`` if that holds for some row of the batch."""
        if self.track_name == "window":
            now, stage = self.now
            return (window.end_ms, self.windowed[name].stage) <= (now.end_ms, stage)
        watermark = self.watermark_ms
        if highest and self.row_watermarks is not None:
            watermark = int(self.row_watermarks[-1])  # watermarks ascend
        return self._closed_at(window, watermark)

    def _closed_at(self, window: Window, watermark_ms: int) -> bool:
        if watermark_ms >= END_OF_TIME_MS:
            return True
        return window.end_ms + self.replica.lateness_ms <= watermark_ms

    # --- reading --------------------------------------------------------------------------------------------------

    def begin_await(self, name: str, window: Window) -> None:
        """Check that a safe read can complete, before anything waits for it."""
        self._check_readable(name, window)
        if self.track_name == "record":
            self.refuse_if_tainted("an await")  # whether it waits here would depend on timing
            self.awaits += 1
            self.touched = True
            self.watermark_ms = self.next_watermark_ms  # what is promised by waiting holds for the rest of the record
            self.open_from_ms = self.always_open_from(self.watermark_ms)

    def is_final(self, name: str, window: Window) -> bool:
        """True once the window's value can be read here."""
        decl = self.windowed[name]
        return self.shared.is_complete(name, window) if decl.shared else True

    def final_value(self, name: str, window: Window) -> Any:
        return self._final_state(name, window).value

    def window_state(self, name: str, window: Window) -> Any:
        if self.track_name != "window":
            window_reads.refuse_record_track(name)
        self._check_readable(name, window)
        return self._final_state(name, window)

    def _final_state(self, name: str, window: Window) -> Any:
        if self.windowed[name].shared:
            return self.shared.final_value(name, window)
        self.apply(name)
        return self.own.value(name, window, lasting=self.track_name == "window")

    def peek(self, name: str, window: Window) -> Any:
        shared = self.windowed[name].shared
        if self.track_name == "window" and self._reads_past(name, window):
            return self.final_value(name, window)
        window_reads.check_whole(name, self.windowed[name].sharded)
        self.taint("peek")
        if not shared:
            self.apply(name)
            readable = self._closed_at(window, self.watermark_ms) and window in self.own.ended(
                name, window.end_ms - 1, window.end_ms
            )
            return self.final_value(name, window) if readable else None
        if not self.replica.is_complete(name, window) or window.end_ms <= self.replica.dropped_through_ms:
            return None
        return self.replica.final_value(name, window).value

    def _check_readable(self, name: str, window: Window) -> None:
        decl = self.windowed[name]
        if self.track_name == "window":
            if not self._reads_past(name, window):
                self._refuse_window_read(name, window)
            return
        window_reads.check_awaited(name, decl.stage, decl.sharded)
        named, closes_ms = shown(decl.windows, window), window.end_ms + self.replica.lateness_ms
        if not self._closed_at(window, self.next_watermark_ms):
            window_reads.refuse_open(self.partition, self.next_watermark_ms, name, named, closes_ms)
        if self._closed_at(Window(0, window.end_ms + self.window_retention_ms), self.entered_ms):
            window_reads.refuse_old(
                self.partition, f"watermark {self.entered_ms}", name, named, self.window_retention_ms
            )

    def _reads_past(self, name: str, window: Window) -> bool:
        now, stage = self.now
        if self.windowed[name].stage > stage or window.end_ms > now.end_ms:
            return False
        return window.end_ms + self.window_retention_ms >= now.end_ms

    def _refuse_window_read(self, name: str, window: Window) -> None:
        (now, stage), decl = self.now, self.windowed[name]
        named = shown(decl.windows, window)
        if decl.stage <= stage and window.end_ms <= now.end_ms:
            window_reads.refuse_old(self.partition, f"window {tuple(now)}", name, named, self.window_retention_ms)
        window_reads.refuse_later_window(self.partition, self.now, name, decl.stage, named)

    # --- watermarks and taint -------------------------------------------------------------------------------------

    def increment_watermark(self, ts_ms: int) -> None:
        if self.track_name == "window" or self.row_watermarks is not None:
            window_reads.refuse_increment()
        self.refuse_if_tainted("increment_watermark")
        self.next_watermark_ms = max(self.next_watermark_ms, checked_time("increment_watermark", ts_ms))
        self.touched = True

    def known_watermark(self) -> int:
        """The watermark of ``Context.watermark_ms``: a value that a replay shows too."""
        if self.track_name == "window":
            return self.now[0].end_ms
        if self.row_watermarks is not None:
            window_reads.refuse_watermark_of_batch()
        return self.watermark_ms

    def global_watermark(self) -> int:
        self.taint("global_watermark_ms")
        return self.replica.frontier_ms

    def taint(self, source: str) -> None:
        """From here to the end of the record, batch or window nothing may flow into state or results."""
        self._taint = source
        self.open_from_ms, self.touched = NEVER_MS, True  # inserts are refused

    def refuse_if_tainted(self, what: str) -> None:
        if self._taint:
            window_reads.refuse_tainted(what, self._taint, self.partition)

    # --- locals ---------------------------------------------------------------------------------------------------

    def reset_locals(self, encoded: Mapping[str, bytes]) -> None:
        """Set every Local from its encoded value, or to its initial value."""
        self.locals = self.decode_locals({**self.checkpointable.initials, **encoded})

    def decode_locals(self, encoded: Mapping[str, bytes]) -> dict[str, Any]:
        """Values of encoded Locals; a name that the program does not have is an error of the caller."""
        return self.checkpointable.decode(encoded)

    def encode_locals(self, track: str) -> dict[str, bytes]:
        """Encoded values of the Locals of one track. Raises ``UnserializableState``."""
        return self.checkpointable.encode(self.locals, track)

    def left(self, function: str, outcome: Any = None) -> None:
        """A function has ended: it awaits nothing any more, returns nothing, and leaves what can be checkpointed."""
        if self.reads:
            window_reads.refuse_forgotten_reads(self.partition, function, self.reads)
        if outcome is not None:
            refuse_returned(outcome, function)
        if self.checkpointable.used:
            self.checkpointable.check(self.locals)
