"""Admission: a run of log records becomes rows with event times and watermarks, sorted into what becomes of each.

Every input record counts exactly once as accepted, filtered, late or dead, record by record: where the run was cut
means nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.batch import Batch
from holon.formats import Decoded
from holon.source import Source
from holon.states import Windowed
from wcrdt.windows import END_OF_TIME_MS

MAX_TS_MS = 2**53
"""Event times at or beyond this (year 287396) are refused; also keeps arithmetic far from overflow."""


class Counts(msgspec.Struct, array_like=True):
    """How many records became what; ``taken`` = accepted + filtered + late + dead."""

    accepted: int = 0
    filtered: int = 0
    late: int = 0
    dead: int = 0

    @property
    def taken(self) -> int:
        return self.accepted + self.filtered + self.late + self.dead


class Diverted(msgspec.Struct):
    """What the late and dead-letter outputs hold: the raw payload (base64 in JSON), where it came from, and why."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: str
    payload: bytes


@dataclass(slots=True)
class Admitted:
    """A run of records, decided.

    ``batch`` are the accepted rows; ``watermarks_ms`` the watermark before each of them, ``next_watermarks_ms`` after.
    ``late`` and ``dead`` are (index into the run, reason). ``watermark_ms`` is the one after the whole run.
    """

    batch: Batch[Any]
    watermarks_ms: NDArray[np.int64]
    next_watermarks_ms: NDArray[np.int64]
    index: NDArray[np.intp]
    late: list[tuple[int, str]]
    dead: list[tuple[int, str]]
    filtered: int
    watermark_ms: int


class Admission:
    """The rules of one job; pure, the same for all partitions."""

    def __init__(self, source: Source[Any], record_states: Sequence[Windowed[Any, Any]], lateness_ms: int) -> None:
        self.source = source
        self.assigners = [state.windows for state in record_states]
        self.lateness_ms = lateness_ms

    def admit(
        self,
        payloads: Sequence[bytes],
        offsets: NDArray[np.int64],
        log_ts_ms: NDArray[np.int64],
        watermark_ms: int,
    ) -> Admitted:
        """Decide a run, starting from the partition's watermark before it."""
        decoded = self.source.format.decode(payloads)
        rows = np.arange(len(payloads)) if decoded.rows is None else decoded.rows
        dead = list(decoded.bad)
        batch = self._batch(decoded, rows, offsets, log_ts_ms, dead)
        if len(batch) < len(rows):
            rows = rows[np.isin(offsets[rows], batch.offsets)]
        batch, rows = self._guard_time(batch, rows, log_ts_ms, dead)
        before, after = self._watermarks(batch.ts_ms, watermark_ms)
        keep = self._matching(batch)
        late = self._late(batch, before, keep, rows)
        dead.sort()
        filtered = len(rows) - int(np.count_nonzero(keep)) - len(late)
        index = np.flatnonzero(keep)
        last = int(after[-1]) if len(after) else watermark_ms
        if len(index) < len(rows):
            batch, before, after, rows = batch.take(index), before[index], after[index], rows[index]
        return Admitted(batch, before, after, rows, late, dead, filtered, last)

    def _batch(
        self,
        decoded: Decoded[Any],
        rows: NDArray[np.intp],
        offsets: NDArray[np.int64],
        log_ts_ms: NDArray[np.int64],
        dead: list[tuple[int, str]],
    ) -> Batch[Any]:
        """Rows with event times; rows whose time cannot be told are added to ``dead``."""
        timestamp = self.source.timestamp
        batch = Batch(offsets[rows], log_ts_ms[rows], decoded.columns, decoded.events)
        if timestamp is None or len(rows) == 0:
            return batch
        if isinstance(timestamp, str):
            return Batch(batch.offsets, np.asarray(decoded.columns[timestamp], np.int64), batch.columns, batch.events)
        if decoded.columns:
            return Batch(batch.offsets, np.asarray(timestamp(decoded.columns), np.int64), batch.columns, batch.events)
        times, good = [], []
        for position, event in enumerate(decoded.events):
            ts = _time_of(timestamp, event)
            if isinstance(ts, int):
                times.append(ts)
                good.append(position)
            else:
                dead.append((int(rows[position]), ts))
        if len(good) < len(rows):
            batch = batch.take(np.array(good, dtype=np.intp))
        return Batch(batch.offsets, np.array(times, dtype=np.int64), batch.columns, batch.events)

    def _guard_time(
        self, batch: Batch[Any], rows: NDArray[np.intp], log_ts_ms: NDArray[np.int64], dead: list[tuple[int, str]]
    ) -> tuple[Batch[Any], NDArray[np.intp]]:
        """Refuse absurd times: one record must not close all windows."""
        bad = (batch.ts_ms >= MAX_TS_MS) | (batch.ts_ms <= -MAX_TS_MS)
        guard = self.source.skew_guard_ms
        if guard is not None:
            bad |= batch.ts_ms > log_ts_ms[rows] + guard
        if not bad.any():
            return batch, rows
        for position in np.flatnonzero(bad).tolist():
            ahead = int(batch.ts_ms[position]) - int(log_ts_ms[rows[position]])
            reason = f"event time {int(batch.ts_ms[position])} is {ahead} ms ahead of the log's timestamp"
            dead.append((int(rows[position]), reason if guard is not None else "event time out of range"))
        return batch.take(~bad), rows[~bad]

    def _watermarks(self, ts_ms: NDArray[np.int64], start_ms: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Watermark before and after each row: the running maximum of what each row justifies."""
        after = np.maximum(np.maximum.accumulate(self.source.watermarks.candidates(ts_ms)), start_ms)
        before = np.empty_like(after)
        if len(after):
            before[0] = start_ms
            before[1:] = after[:-1]
        return before, after

    def _matching(self, batch: Batch[Any]) -> NDArray[np.bool_]:
        where = self.source.where
        if where is None or len(batch) == 0:
            return np.ones(len(batch), dtype=np.bool_)
        if batch.columns:
            return np.array(where(batch.columns), dtype=np.bool_)
        keep = np.zeros(len(batch), dtype=np.bool_)
        for position, event in enumerate(batch.events):
            keep[position] = bool(where(event))
        return keep

    def _late(
        self, batch: Batch[Any], before: NDArray[np.int64], keep: NDArray[np.bool_], rows: NDArray[np.intp]
    ) -> list[tuple[int, str]]:
        """Rows that no window takes any more; they are cleared from ``keep``."""
        if not self.assigners or len(batch) == 0:
            return []
        late = []
        behind = keep & (batch.ts_ms < before)
        for position in np.flatnonzero(behind).tolist():
            ts = int(batch.ts_ms[position])
            if self.is_late(ts, int(before[position])):
                keep[position] = False
                late.append((int(rows[position]), late_reason(ts)))
        return late

    def is_late(self, ts_ms: int, watermark_ms: int) -> bool:
        """True if no window of any state takes this event time at this watermark."""
        return bool(self.assigners) and not any(self._takes(a, ts_ms, watermark_ms) for a in self.assigners)

    def _takes(self, assigner: Any, ts_ms: int, watermark_ms: int) -> bool:
        if watermark_ms >= END_OF_TIME_MS:
            return False
        return any(w.end_ms + self.lateness_ms > watermark_ms for w in assigner.windows_for(ts_ms))


def late_reason(ts_ms: int) -> str:
    """Why a record is late; without the watermark, which a promise inside the run may have moved further."""
    return f"event time {ts_ms} is late: every window that would take it was closed by the partition's watermark"


def _time_of(timestamp: Any, event: Any) -> int | str:
    """The event time in ms, or the reason why there is none."""
    try:
        ts = timestamp(event)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return f"no event time: {type(error).__name__}: {error}"
    if isinstance(ts, bool) or not isinstance(ts, int):
        return f"no event time: the extractor gave {ts!r}"
    return ts if -MAX_TS_MS < ts < MAX_TS_MS else f"event time {ts} is out of range"
