"""Admission: a run of log records becomes rows with event times and watermarks, sorted into what becomes of each.

Every input record counts exactly once as accepted, filtered, late or dead (duplicates do not come here). Records are
judged one by one: where the run was cut means nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn
from holon.columnar.record_parts import RecordParts
from holon.errors import JobError
from holon.formats.batch import Batch
from holon.formats.formats import Decoded, RecordFormat, takes_columns
from holon.program.late_inserts import IN_HAND, LateRow
from holon.program.states import Windowed
from holon.source import Source
from holon.time.event_time import out_of_range, times_of_columns, times_of_events
from holon.time.units import MAX_TS_MS, USUAL_MS, unit_hint, unusual_time
from wcrdt.windows.assigners import END_OF_TIME_MS


class AdmissionCounts(msgspec.Struct, array_like=True):
    """How many records became what; ``taken`` = accepted + filtered + late + dead + duplicates.

    ``late_inserts``: how often a closed window of one state refused an insert of an accepted record that windows of
    another state take. Inserts of an ``on_window`` handler into an answered window count too. ``late_by_state``: how
    many rows no window of a state has taken, as far as the function has seen them; never changed in place.
    """

    accepted: int = 0
    filtered: int = 0
    late: int = 0
    dead: int = 0
    duplicates: int = 0
    late_inserts: int = 0
    late_by_state: dict[str, int] = {}

    @property
    def taken(self) -> int:
        return self.accepted + self.filtered + self.late + self.dead + self.duplicates

    def with_late_inserts(self, more: int) -> AdmissionCounts:
        """A copy in which so many more inserts were late."""
        return msgspec.structs.replace(self, late_inserts=self.late_inserts + more) if more else self

    def add_late(self, refusals: int, rows: Sequence[LateRow]) -> None:
        """Count late inserts, and the rows that no window of their state takes."""
        self.late_inserts += refusals
        if rows:
            self.late_by_state = _summed(self.late_by_state, Counter(late.state for late in rows))

    def numbers(self, late_states: Sequence[str] = ()) -> tuple[int, ...]:
        """The counts as a checkpoint's message holds them, without zeros at the end; those by state come last."""
        found = self.accepted, self.filtered, self.late, self.dead
        if self.late_by_state:
            return *found, self.duplicates, self.late_inserts, *(self.late_by_state.get(s, 0) for s in late_states)
        if self.late_inserts:
            return *found, self.duplicates, self.late_inserts
        return (*found, self.duplicates) if self.duplicates else found

    @classmethod
    def of_numbers(cls, numbers: Sequence[int], late_states: Sequence[str]) -> AdmissionCounts:
        """The counts of a message."""
        late = zip(late_states, numbers[6:], strict=False)
        found = cls(late_by_state={state: count for state, count in late if count})
        for name, number in zip(cls.__struct_fields__, numbers[:6], strict=False):
            setattr(found, name, number)
        return found

    def plus(self, other: AdmissionCounts) -> AdmissionCounts:
        """The sum of both."""
        found = AdmissionCounts(late_by_state=_summed(self.late_by_state, other.late_by_state))
        for name in self.__struct_fields__[:6]:
            setattr(found, name, getattr(self, name) + getattr(other, name))
        return found


def _summed(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """In the order of names: a snapshot does not show which came first."""
    return dict(sorted((Counter(one) + Counter(other)).items()))


NO_VALUE = b""
"""Decoded in place of a record that is dead in any case: values of a registry's schemas have a header."""
FIRST_RECORDS = 100
"""Among so many events of a partition, one with an unusual time is worth a warning."""


class RefusedEvent(NamedTuple):
    """An event that is late or dead: number of its record in the run, place in it (None: the record), and why.

    ``state``: the one for which it is late, if the function has seen it.
    """

    record: int
    place: int | None
    reason: str
    state: str = ""


@dataclass(slots=True)
class Admitted:
    """A run of records, decided.

    ``batch`` are the accepted rows; ``watermarks_ms`` the watermark before each of them, ``next_watermarks_ms`` after.
    ``index`` are the places of their records in the run. ``watermark_ms`` is the one after the whole run, ``events``
    how many events it holds. While rows are processed a promise may turn one late (``turned_late``), or the function
    may fail (``failed``). ``late_for_states``: rows of the batch that some state takes no more.
    """

    batch: Batch[Any]
    watermarks_ms: NDArray[np.int64]
    next_watermarks_ms: NDArray[np.int64]
    index: NDArray[np.intp]
    late: list[RefusedEvent]
    dead: list[RefusedEvent]
    filtered: int
    watermark_ms: int
    events: int
    turned_late: list[RefusedEvent] = field(default_factory=list)
    failed: list[RefusedEvent] = field(default_factory=list)
    late_for_states: list[RefusedEvent] = field(default_factory=list)

    def rows(self) -> Iterable[tuple[int, Any, int, int, int, int]]:
        """(row, event, offset, event time, watermark before, watermark after) of each."""
        columns = self.batch.offsets, self.batch.ts_ms, self.watermarks_ms, self.next_watermarks_ms
        return zip(range(len(self.batch)), self.batch.events, *(column.tolist() for column in columns), strict=True)

    def cut_before(self, row: int) -> Admitted:
        """The part before this row's record, of which the rows are processed, where each record is one event."""
        index, rows = int(self.index[row]), np.arange(row)
        late, turned_late, dead, failed, for_states = (
            [one for one in found if one.record < index]
            for found in (self.late, self.turned_late, self.dead, self.failed, self.late_for_states)
        )
        filtered = index - row - len(late) - len(dead)
        before, after = self.watermarks_ms[:row], self.next_watermarks_ms[:row]
        watermark_ms = int(self.watermarks_ms[row])
        return Admitted(self.batch.take(rows), before, after, self.index[:row], late, dead, filtered, watermark_ms,
                        index, turned_late, failed, for_states)  # fmt: skip

    def alone(self, row: int) -> Admitted:
        """The same, of this row's record alone."""
        one, watermark_ms = slice(row, row + 1), int(self.next_watermarks_ms[row])
        batch, before, after = self.batch.take(np.array([row])), self.watermarks_ms[one], self.next_watermarks_ms[one]
        return Admitted(batch, before, after, np.zeros(1, np.intp), [], [], 0, watermark_ms, 1)

    def refused(self, row: int, reason: str) -> RefusedEvent:
        """The fate of a row of the batch that is not taken after all."""
        return _refused(self.batch, self.index, row, reason)

    def add_late(self, rows: Sequence[LateRow], in_hand: int) -> None:
        """Rows that no window of a state takes; ``in_hand`` is the row of the record in hand."""
        for state, row, ts, letter in rows:
            if letter:
                found = self.refused(in_hand if row == IN_HAND else row, late_reason(ts, state))
                self.late_for_states.append(found._replace(state=state))


class Admission:
    """The rules of one job; pure, the same for all partitions.

    ``live_guard_ms``: the skew guard of a source that declares ``"live"``.
    """

    def __init__(
        self,
        source: Source[Any],
        record_states: Sequence[Windowed[Any, Any]],
        lateness_ms: int,
        live_guard_ms: int | None = None,
    ) -> None:
        self.source = source
        self.guard_ms = source.guard_ms(live_guard_ms)
        self.assigners = [state.windows for state in record_states]
        self.lateness_ms = lateness_ms
        form = source.format
        self._takes_columns = takes_columns(form)
        self._decode_records = None
        if isinstance(form, RecordFormat) and form.header_names is not None:
            self._decode_records = form.decode_records

    def admit(
        self,
        payloads: Sequence[bytes],
        offsets: NDArray[np.int64],
        log_ts_ms: NDArray[np.int64],
        watermark_ms: int,
        parts: RecordParts | None = None,
        refused_at: Mapping[int, str] | None = None,
    ) -> Admitted:
        """Decide a run, starting from the partition's watermark before it; ``refused_at`` is as in ``Input``.

        Raises what the source's ``filter`` raises, and ``JobError`` where the source is declared wrongly.
        """
        reasons: dict[int, str] = {}
        if isinstance(payloads, BinaryColumn) and not self._takes_columns:
            payloads = list(payloads)  # once, however often the format looks at each
        if refused_at:
            reasons = {row: refused_at[at] for row, at in enumerate(offsets.tolist()) if at in refused_at}
            payloads = [NO_VALUE if row in reasons else payload for row, payload in enumerate(payloads)]
        if self._decode_records is None:
            decoded = self.source.format.decode(payloads)
        else:
            decoded = self._decode_records(payloads, log_ts_ms, parts)
        rows = np.arange(len(payloads)) if decoded.rows is None else decoded.rows
        dead = [RefusedEvent(index, None, reasons.get(index, reason)) for index, reason in decoded.bad]
        dead += [RefusedEvent(*event) for event in decoded.bad_events]
        events = len(rows) + len(dead)
        log_ts_ms = log_ts_ms if decoded.rows is None else log_ts_ms[rows]
        times, refused = self._event_times(decoded, len(rows), log_ts_ms)
        offsets = offsets if decoded.rows is None else offsets[rows]
        batch = Batch(offsets, times, decoded.columns, decoded.events, decoded.places)
        if refused:
            dead += [_refused(batch, rows, row, reason) for row, reason in refused]
            timed = np.ones(len(rows), np.bool_)
            timed[[row for row, _ in refused]] = False
            batch, rows = batch.take(timed), rows[timed]
        before, after = self._watermarks(batch.ts_ms, watermark_ms)
        keep = self._matching(batch)
        late = self._late(batch, before, keep, rows)
        dead.sort(key=place_in_run)
        kept = int(np.count_nonzero(keep))  # of few rows a tenth of what any() and all() cost
        filtered = len(rows) - kept - len(late)
        last = int(after[-1]) if len(after) else watermark_ms
        if kept < len(keep):
            index = np.flatnonzero(keep)
            batch, before, after, rows = batch.take(index), before[index], after[index], rows[index]
        return Admitted(batch, before, after, rows, late, dead, filtered, last, events)

    def _event_times(
        self, decoded: Decoded[Any], count: int, log_ts_ms: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[tuple[int, str]]]:
        """Event time of each row, and the rows whose time cannot be read or is absurd, with the reason."""
        timestamp = self.source.timestamp
        if timestamp is None or count == 0:
            times, bad = log_ts_ms, []
        elif decoded.columns or isinstance(timestamp, str):
            times, bad = times_of_columns(timestamp, decoded.columns, count, self.source.timestamp_unit)
        else:
            times, bad = times_of_events(timestamp, decoded.events, self.source.timestamp_unit)
        refused = (times >= MAX_TS_MS) | (times <= -MAX_TS_MS)
        if self.guard_ms is not None:  # one record must not close all windows; below 0: it has no log timestamp
            refused |= (times > log_ts_ms + self.guard_ms) & (log_ts_ms >= 0)
        if not np.count_nonzero(refused):
            return times, bad
        known = {row for row, _ in bad}
        absurd = [row for row in np.flatnonzero(refused).tolist() if row not in known]
        return times, [*bad, *((row, self._refusal(int(times[row]), int(log_ts_ms[row]))) for row in absurd)]

    def _refusal(self, ts_ms: int, log_ts_ms: int) -> str:
        if not -MAX_TS_MS < ts_ms < MAX_TS_MS:
            return out_of_range(ts_ms, self.source.timestamp_unit)
        default = (
            " (Source(max_future_skew_ms=) sets it, None turns it off)"
            if self.source.max_future_skew_ms == "live"
            else ""
        )
        return (
            f"event time {ts_ms} is {ts_ms - log_ts_ms} ms ahead of the log's timestamp; the skew guard allows "
            f"{self.guard_ms} ms{default}{unit_hint(ts_ms, self.source.timestamp_unit)}"
        )

    def unusual_time(self, batch: Batch[Any], partition: int) -> str:
        """Warns of a time among the first events that is probably in another unit; no result follows from it."""
        times = batch.ts_ms[:FIRST_RECORDS]
        rows = np.flatnonzero((times < USUAL_MS.start) | (times >= USUAL_MS.stop))
        if len(rows) == 0 or self.source.timestamp is None:
            return ""
        where = f"{self.source.topic}[{partition}] offset {int(batch.offsets[rows[0]])}"
        return f"{where}: {unusual_time(int(times[rows[0]]), self.source.timestamp_unit)}"

    def _watermarks(self, ts_ms: NDArray[np.int64], start_ms: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Watermark before and after each row: the running maximum of what each row justifies."""
        candidates = np.asarray(self.source.watermarks.candidates(ts_ms))
        if candidates.shape != ts_ms.shape or candidates.dtype != np.int64:
            raise JobError(
                f"{self.source.watermarks.describe()!r}: candidates must give an int64 for each of {len(ts_ms)} rows, "
                f"got {candidates.dtype} of shape {candidates.shape}"
            )
        # A strategy cannot end time: only the end of the input does.
        after = np.maximum(np.maximum.accumulate(np.minimum(candidates, MAX_TS_MS)), start_ms)
        before = np.empty_like(after)
        if len(after):
            before[0] = start_ms
            before[1:] = after[:-1]
        return before, after

    def _matching(self, batch: Batch[Any]) -> NDArray[np.bool_]:
        wanted = self.source.filter
        if wanted is None or len(batch) == 0:
            return np.ones(len(batch), dtype=np.bool_)
        if not batch.columns:
            return np.fromiter((bool(wanted(event)) for event in batch.events), np.bool_, len(batch))
        mask = np.array(wanted(batch.columns))
        if mask.shape != (len(batch),) or mask.dtype != np.bool_:
            raise JobError(f"filter must give a bool for each of {len(batch)} rows, got {mask!r:.200}")
        return mask

    def _late(
        self, batch: Batch[Any], before: NDArray[np.int64], keep: NDArray[np.bool_], rows: NDArray[np.intp]
    ) -> list[RefusedEvent]:
        """Rows that no window takes any more; they are cleared from ``keep``."""
        if not self.assigners or len(batch) == 0:
            return []
        behind = keep & (batch.ts_ms < before)
        if not np.count_nonzero(behind):
            return []
        late = []
        for position in np.flatnonzero(behind).tolist():
            ts = int(batch.ts_ms[position])
            if self.is_late(ts, int(before[position])):
                keep[position] = False
                late.append(_refused(batch, rows, position, late_reason(ts)))
        return late

    def is_late(self, ts_ms: int, watermark_ms: int) -> bool:
        """True if no window of any state takes this event time at this watermark."""
        return bool(self.assigners) and not any(self._takes(a, ts_ms, watermark_ms) for a in self.assigners)

    def _takes(self, assigner: Any, ts_ms: int, watermark_ms: int) -> bool:
        if watermark_ms >= END_OF_TIME_MS:
            return False
        return any(w.end_ms + self.lateness_ms > watermark_ms for w in assigner.windows_for(ts_ms))


def _refused(batch: Batch[Any], rows: NDArray[np.intp], row: int, reason: str) -> RefusedEvent:
    return RefusedEvent(int(rows[row]), None if batch.places is None else batch.place(row), reason)


def place_in_run(refused: RefusedEvent) -> tuple[int, int, str]:
    """To sort by."""
    return refused.record, -1 if refused.place is None else refused.place, refused.state


def late_reason(ts_ms: int, state: str = "") -> str:
    """Why a record is late; without the watermark, which a promise inside the run may have moved further."""
    of = f" of {state}" if state else ""
    return f"event time {ts_ms} is late: every window{of} that would take it was closed by the partition's watermark"
