"""The results and deltas that a standby holds back: it has made them, and not read them on the log.

Two rules for this file: nothing is forgotten before the log shows it or something later of its sequence; what is taken
to be published leaves in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from itertools import starmap, zip_longest

from holon.job import UNSTABLE
from holon.outputs.identity import NOTHING_SEEN, Ascent, LastSeen, place_of
from holon.outputs.runs import OutputRun
from nodes.machine.events import OutputPartition
from nodes.machine.standby.active_standby import ActiveStandby, ResultPace
from wcrdt.replica.replica import Punctuation, SlotDelta
from wcrdt.replica.shards import ShardedDelta
from wcrdt.replica.slots import RECORD_START, Position
from wcrdt.windows.assigners import BEFORE_TIME_MS

Taken = dict[OutputPartition, OutputRun]
DeltaPlace = tuple[Position, tuple[int, ...]]
"""Where a delta brings the record track, and through which end each stage."""


@dataclass(slots=True)
class Logged:
    """How far the broadcast on the log brings one partition."""

    record: Position = RECORD_START
    answered_ms: tuple[int, ...] = ()
    watermark_ms: int = BEFORE_TIME_MS
    sent_through: Position = RECORD_START
    """Contributions to shards up to here were sent."""

    def take(self, delta: SlotDelta, sent_through: Position = RECORD_START) -> None:
        """A message was read."""
        self.sent_through = max(self.sent_through, sent_through)
        if delta.record is not None:
            self.record = max(self.record, delta.record.to)
            self.watermark_ms = max(self.watermark_ms, delta.record.watermark_ms)
        self.answered_ms = tuple(starmap(max, zip_longest(self.answered_ms, _ends(delta), fillvalue=BEFORE_TIME_MS)))


@dataclass(frozen=True, slots=True)
class Awaited:
    """The progress that others wait for: that the partition's watermark, and the answers of each stage, reach these."""

    watermark_ms: int = BEFORE_TIME_MS
    answered_ms: tuple[int, ...] = ()

    def is_on(self, logged: Logged) -> bool:
        """True if the log has it."""
        return logged.watermark_ms >= self.watermark_ms and _reach(logged.answered_ms, self.answered_ms)

    @property
    def by_somebody(self) -> bool:
        """True if it is anything at all."""
        return max(self.watermark_ms, *self.answered_ms, BEFORE_TIME_MS) > BEFORE_TIME_MS


@dataclass(slots=True)
class Unconfirmed:
    """Results that wait until the delta of their prefix has been read back (only where a job allows idleness)."""

    position: Position
    taken: Taken = field(default_factory=dict)


@dataclass(slots=True)
class _HeldRun:
    made_ms: int
    run: OutputRun
    places: list[LastSeen]


class HeldOutputs:
    """Results by output partition and track, and what was seen of the output partitions.

    ``ends``: up to where each of them was read.
    """

    def __init__(self, window_ms: int, pace: ResultPace) -> None:
        self.active_standby = ActiveStandby(window_ms, pace)
        self.seen: dict[OutputPartition, dict[int, LastSeen]] = {}
        self.ends: dict[OutputPartition, int] = {}
        self.count = 0
        self._runs: dict[tuple[OutputPartition, int], deque[_HeldRun]] = {}

    def begin(self, seen: dict[OutputPartition, dict[int, LastSeen]], ends: dict[OutputPartition, int]) -> None:
        """The finding of the scan of the tails."""
        self.seen = {to: dict(tracks) for to, tracks in seen.items()}
        self.ends = dict(ends)

    def hold(self, taken: Taken, now_ms: int) -> None:
        """New results; what is on the log already is left out, and so is what has no identity."""
        for to in sorted(taken):
            if to[0] == UNSTABLE:
                continue
            seen = self.seen.get(to, {})
            for track, held in sorted(_by_track(taken[to], seen, now_ms).items()):
                self._runs.setdefault((to, track), deque()).append(held)
                self.count += len(held.places)

    def saw(self, to: OutputPartition, start: int, end: int, found: dict[int, list[Ascent]], now_ms: int) -> None:
        """The output partition was read from ``start`` to ``end``; ``found`` of this source partition, by track."""
        known = self.ends.get(to, end)
        if end < start:  # the log is shorter than it was
            self.ends[to] = end
        if end <= known:
            return
        self.ends[to] = end
        seen = self.seen.setdefault(to, {})
        for track, runs in found.items():
            last = seen.get(track, NOTHING_SEEN)
            for first_of_run, last_of_run in runs:
                if first_of_run <= last and start >= known:  # written again: so this replica is not alone
                    self.active_standby.other_at((to, track), min(last, last_of_run), now_ms)
                elif last_of_run > self.active_standby.last_of((to, track), NOTHING_SEEN):
                    self.active_standby.other_at((to, track), last_of_run, now_ms)
                last = max(last, last_of_run)
            seen[track] = last
            self._forget(to, track, last, now_ms)

    def _forget(self, to: OutputPartition, track: int, through: LastSeen, now_ms: int) -> None:
        runs = self._runs.get((to, track))
        while runs and runs[0].places[0] <= through:
            held = runs[0]
            self.active_standby.took(held.made_ms, now_ms)
            cut = bisect_right(held.places, through)
            self.count -= cut
            if cut == len(held.places):
                runs.popleft()
                continue
            del held.places[:cut]
            held.run.drop(cut)

    def made_ms(self) -> int | None:
        """When the oldest that is held was made; None if nothing is."""
        return min((runs[0].made_ms for runs in self._runs.values() if runs), default=None)

    def waiting(self) -> list[OutputPartition]:
        """Where something is held for."""
        return sorted({to for (to, _), runs in self._runs.items() if runs})

    def take(self) -> Taken:
        """Everything, to be written now."""
        taken: Taken = {}
        for to, track in sorted(self._runs):
            runs = self._runs[to, track]
            if not runs:
                continue
            into = taken.setdefault(to, OutputRun())
            for held in runs:
                into.extend(held.run.values, held.run.headers, held.run.keys)
                self.active_standby.published((to, track), held.places[-1], held.made_ms)
        self._runs.clear()
        self.count = 0
        return taken


@dataclass(slots=True)
class _HeldDelta:
    made_ms: int
    delta: SlotDelta
    awaited: Awaited
    awaits: bool = True


class HeldDeltas:
    """Deltas of one partition, in order."""

    def __init__(self, window_ms: int, pace: ResultPace) -> None:
        self.active_standby = ActiveStandby(window_ms, pace)
        self._held: deque[_HeldDelta] = deque()
        self._contributing: deque[_HeldDelta] = deque()  # on the log, by deltas of which contributions wait
        self._own: deque[DeltaPlace] = deque()  # written, and not read back

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, delta: SlotDelta, awaited: Awaited, now_ms: int) -> None:
        """A new one."""
        self._held.append(_HeldDelta(now_ms, delta, awaited, awaited.by_somebody))

    def receive(self, delta: SlotDelta, logged: Logged | None, now_ms: int) -> None:
        """One was read from the broadcast, and is part of ``logged`` (None: whether it is accepted shows later)."""
        self._read(_place(delta), now_ms)
        if logged is not None:
            self.are_on(logged, now_ms)

    def receive_punctuation(self, punctuation: Punctuation, now_ms: int) -> None:
        """One was read from the broadcast."""
        self._read(_place_behind(punctuation), now_ms)

    def _read(self, place: DeltaPlace, now_ms: int) -> None:
        if place in self._own:
            while self._own.popleft() != place:
                pass
        else:
            self.active_standby.other_at(None, place, now_ms)

    def are_on(self, logged: Logged, now_ms: int) -> None:
        """The log has come so far."""
        for held in self._held:
            if held.awaits and held.awaited.is_on(logged):
                held.awaits = False
                self.active_standby.took(held.made_ms, now_ms)
        self.forget(logged)

    def forget(self, logged: Logged) -> None:
        """Drop what is on the log."""
        while self._held and _is_on(self._held[0].delta, logged):
            self._contributing.append(self._held.popleft())
        kept = (held for held in self._contributing if _contributes(held.delta, logged))
        self._contributing = deque(kept) if self._contributing else self._contributing

    def made_ms(self) -> int | None:
        """When the oldest that is held was made; None if nothing is."""
        return self._held[0].made_ms if self._held else None

    def awaited_ms(self, logged: Logged) -> int | None:
        """When the oldest was made that somebody waits for."""
        return next((h.made_ms for h in self._held if h.awaits and not h.awaited.is_on(logged)), None)

    def take(self) -> list[SlotDelta]:
        """All of them, to be written now."""
        taken = [*self._contributing, *self._held]
        for held in taken:
            self._wrote(_place(held.delta), held.made_ms)
        self._contributing.clear()
        self._held.clear()
        return [held.delta for held in taken]

    def punctuate(self, punctuation: Punctuation, now_ms: int) -> None:
        """One is written now, since the owner is late with it."""
        self.active_standby.take()
        self._wrote(_place_behind(punctuation), now_ms)

    def _wrote(self, place: DeltaPlace, made_ms: int) -> None:
        self._own.append(place)
        self.active_standby.published(None, place, made_ms)


def _by_track(run: OutputRun, seen: dict[int, LastSeen], now_ms: int) -> dict[int, _HeldRun]:
    """A run's results by track, without those that were seen."""
    parts: dict[int, _HeldRun] = {}
    for value, header, key in zip(run.values, run.headers, run.keys, strict=True):
        track, place = place_of(header)
        if place <= seen.get(track, NOTHING_SEEN):
            continue
        part = parts.setdefault(track, _HeldRun(now_ms, OutputRun(), []))
        part.places.append(place)
        part.run.add(value, header, key)
    return parts


def _place_behind(punctuation: Punctuation) -> DeltaPlace:
    offset, step = punctuation.after
    return (offset, step + 1), ()


def _place(delta: SlotDelta) -> DeltaPlace:
    return RECORD_START if delta.record is None else delta.record.to, _ends(delta)


def _ends(delta: SlotDelta) -> tuple[int, ...]:
    return tuple(track.to[0] for track in delta.stages)


def _is_on(delta: SlotDelta, logged: Logged) -> bool:
    record, answered_ms = _place(delta)
    return record <= logged.record and _reach(logged.answered_ms, answered_ms)


def _contributes(delta: SlotDelta, logged: Logged) -> bool:
    """Whether contributions leave with it that the log may lack: those of another node began and ended elsewhere."""
    if not isinstance(delta, ShardedDelta) or delta.waits or delta.record is None:
        return False
    return delta.record.to > logged.sent_through


def _reach(have: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """True if each stage has come as far."""
    return all(had >= want for had, want in zip_longest(have, wanted, fillvalue=BEFORE_TIME_MS))
