"""A replica: the slots of all partitions, the frontier, and the values of completed windows.

Two rules for this file. A value is given out only when no partition can change it any more. Nothing here depends on the
order in which deltas of different partitions arrived.

Source: Holon, section 4.2 (Algorithm 1, rebuilt from the prose): a window is completed once the global watermark, the
minimum over all partitions, has passed it. By then every replica that knows it reads the same value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from wcrdt.codec import DecodeError
from wcrdt.replica.least import Least
from wcrdt.replica.slots import RECORD_START, AnyLattice, Applied, Position, TrackDelta, TrackSlot, start_of_stage
from wcrdt.replica.window_values import WindowValues
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS, Window
from wcrdt.windows.ends import EndIndex
from wcrdt.windows.panes import Panes

_ACTORS_OF_A_STAGE = 1 << 18
"""More than two for each partition that there can be."""


@dataclass(frozen=True, slots=True)
class StateShape:
    """One windowed CRDT of a job: its bottom and who writes it.

    ``stage`` 0 is written by the record track; stage n by the handlers of completed windows of stage n - 1. ``panes``
    are shared by its windows; None: it has none.
    """

    name: str
    bottom: AnyLattice
    stage: int = 0
    panes: Panes | None = None

    def windows(self, held: Window) -> Sequence[Window]:
        """The windows that a contribution, to a window or pane, belongs to; by end."""
        return (held,) if self.panes is None else self.panes.windows(held)


class Punctuation(msgspec.Struct, array_like=True, frozen=True):
    """ "After record-track position ``after``, partition ``partition`` is idle and has event time ``watermark_ms``"."""

    partition: int
    after: Position
    watermark_ms: int


class SlotDelta(msgspec.Struct, array_like=True, frozen=True):
    """One broadcast message: what one partition adds on its record track and on the tracks of its stages.

    ``window`` is the track of stage 0, ``later`` are those of the stages behind it, where the job has any.

    ``punctuations`` counts the punctuations of the partition that its maker had taken into account: one that missed
    some is void (idle partitions). A full message repeats the ``recent`` ones, which a node needs to replay the
    partition from an older checkpoint. It names the end through which its maker may have dropped windows: it is of no
    use to a node that still reads those.
    """

    partition: int
    punctuations: int
    record: TrackDelta | None
    window: TrackDelta | None
    recent: list[Punctuation] = []
    dropped_through_ms: int = BEFORE_TIME_MS
    later: list[TrackDelta] = []

    @property
    def stages(self) -> list[TrackDelta]:
        """The parts of the stages' tracks that it holds, stage by stage from 0 on."""
        return [] if self.window is None else [self.window, *self.later]

    @property
    def tracks(self) -> list[TrackDelta]:
        """All that it holds."""
        return self.stages if self.record is None else [self.record, *self.stages]


class Slot:
    """All tracks of one partition, and its punctuations that are part of the record track's prefix.

    Each stage has a track of its own: how far one is ahead of the next is an accident, so no single position could
    order two incarnations of the partition.
    """

    __slots__ = ("punctuations", "punctuations_dropped", "record", "stages")

    def __init__(self, stages: int = 1) -> None:
        self.record = TrackSlot(RECORD_START)
        self.stages = [TrackSlot(start_of_stage(stage)) for stage in range(stages)]
        self.punctuations: list[Punctuation] = []
        self.punctuations_dropped = 0  # older than every checkpoint that is in use

    @property
    def tracks(self) -> list[TrackSlot]:
        """The record track, then those of the stages."""
        return [self.record, *self.stages]

    @property
    def answered_ms(self) -> list[int]:
        """Through which window end each stage has answered."""
        return [track.position[0] for track in self.stages]

    @property
    def punctuation_count(self) -> int:
        """How many punctuations of this partition were accepted since the start of the job."""
        return self.punctuations_dropped + len(self.punctuations)

    @property
    def idle(self) -> bool:
        """True if the partition's last record on the log is a punctuation."""
        if not self.punctuations:
            return False
        offset, step = self.punctuations[-1].after
        return self.record.position == (offset, step + 1)

    def take_punctuations(self, count: int, recent: list[Punctuation]) -> None:
        """Know what a full slot knows; what is known here already is kept."""
        if count > self.punctuation_count:
            self.punctuations = list(recent)
            self.punctuations_dropped = count - len(recent)

    def forget_punctuations(self, through: Position) -> None:
        """Drop punctuations that every later replay starts behind; one that reports ``idle`` stays."""
        kept = [p for p in self.punctuations if p.after >= through] or self.punctuations[-1:] * self.idle
        self.punctuations_dropped += len(self.punctuations) - len(kept)
        self.punctuations = kept


@dataclass(frozen=True, slots=True)
class Received:
    """The effect of a broadcast message: per track, and whether it was void for missing a punctuation."""

    record: Applied = Applied.OLD
    stages: tuple[Applied, ...] = ()
    void: bool = False

    @property
    def gap(self) -> bool:
        """True if something is missing: the full slot has to be requested."""
        return self.record is Applied.GAP or Applied.GAP in self.stages

    @property
    def advanced(self) -> bool:
        """True if a longer prefix of the partition is known now."""
        return self.record is Applied.ADVANCED or Applied.ADVANCED in self.stages


class Replica:
    """All partitions' slots as one node knows them.

    Args: ``shapes`` in declaration order; ``lateness_ms`` keeps windows open that long after their end.
    """

    def __init__(self, partitions: int, shapes: Mapping[str, StateShape], lateness_ms: int = 0) -> None:
        assert partitions > 0
        self.shapes = dict(shapes)
        self.bottoms = {name: shape.bottom for name, shape in self.shapes.items()}
        self.lateness_ms = lateness_ms
        self._last_stage = max((shape.stage for shape in self.shapes.values()), default=0)
        self.slots = [Slot(self._last_stage + 1) for _ in range(partitions)]
        self.reported = [0] * partitions
        """How far somebody has processed each partition, by all deltas, also behind a gap, and by requests."""
        self.dropped_through_ms = BEFORE_TIME_MS
        self.changes = 0
        self._ends = {name: EndIndex() for name in self.shapes}
        states = {name: (shape.bottom, shape.panes) for name, shape in self.shapes.items()}
        self._values = WindowValues(states, self._joined)
        self._frontier, self._answered = Least[int](), [Least[int]() for _ in range(self._last_stage + 1)]

    # --- what arrives -------------------------------------------------------------------------------------------

    def receive(self, delta: SlotDelta) -> Received:
        """Apply a broadcast message; harmless when duplicated, reordered, lost or overlapping.

        Raises ``DecodeError`` for malformed contents.
        """
        slot = self._slot(delta.partition)
        watermark_ms, answered_ms = slot.record.watermark_ms, slot.answered_ms
        self.changes += 1
        if delta.record is not None:
            self.reported[delta.partition] = max(self.reported[delta.partition], delta.record.to[0])
        try:
            return self._apply(slot, delta)
        finally:
            self._frontier.moved(watermark_ms, slot.record.watermark_ms)
            for least, before_ms, after_ms in zip(self._answered, answered_ms, slot.answered_ms, strict=True):
                least.moved(before_ms, after_ms)

    def _apply(self, slot: Slot, delta: SlotDelta) -> Received:
        record, void = Applied.OLD, False
        if len(delta.later) > self._last_stage:
            raise DecodeError(f"a delta of {len(delta.later) + 1} stages; this job has {self._last_stage + 1}")
        through_ms = delta.dropped_through_ms
        lacks_nothing = through_ms == BEFORE_TIME_MS or self.is_closed(delta.partition, through_ms)
        kept_through_ms = through_ms if lacks_nothing else BEFORE_TIME_MS
        if delta.record is not None and delta.record.to > slot.record.position:
            if delta.punctuations < slot.punctuation_count:
                void = True
            elif delta.punctuations > slot.punctuation_count and not delta.record.full:
                record = Applied.GAP  # a punctuation was lost on the way here
            else:
                record = slot.record.apply(delta.record, self.bottoms, self.dropped_through_ms, kept_through_ms)
                if record is Applied.ADVANCED and delta.record.full:
                    slot.take_punctuations(delta.punctuations, delta.recent)
                    if not lacks_nothing:
                        self.drop_through(through_ms)  # what its maker lacks is lacking here too
        stages = []
        for track, of_stage in zip(slot.stages, delta.stages, strict=False):
            stages.append(track.apply(of_stage, self.bottoms, self.dropped_through_ms, kept_through_ms))
            self._index(of_stage, stages[-1])
        if delta.record is not None:
            self._index(delta.record, record)
        return Received(record, tuple(stages), void)

    def _index(self, delta: TrackDelta, applied: Applied) -> None:
        if applied is Applied.ADVANCED:
            for change in delta.changes:
                for window in self.shapes[change.state].windows(Window(change.start_ms, change.end_ms)):
                    if window.end_ms > self.dropped_through_ms:
                        self._ends[change.state].add(window)

    def is_closed(self, partition: int, end_ms: int) -> bool:
        """True if all that the partition will ever add to windows that end at or before ``end_ms`` is known here.

        A full slot that lacks those windows takes nothing away then.
        """
        slot = self._slot(partition)
        through_ms = slot.record.watermark_ms
        if through_ms < END_OF_TIME_MS:
            through_ms -= self.lateness_ms
        writers = slot.answered_ms[: self._last_stage]  # the last stage writes nothing
        return end_ms <= min([through_ms, *writers])

    def punctuate(self, punctuation: Punctuation) -> bool:
        """Take a punctuation if it follows the partition's prefix; False if it is void or a duplicate.

        The order on the broadcast partition decides between it and a delta that goes on from the same position. One
        that moves no event time reports that the partition is idle.
        """
        slot = self._slot(punctuation.partition)
        if punctuation.after != slot.record.position or punctuation.watermark_ms < slot.record.watermark_ms:
            return False
        slot.punctuations.append(punctuation)
        slot.record.position = (punctuation.after[0], punctuation.after[1] + 1)
        self.reach(punctuation.partition, punctuation.watermark_ms)
        return True

    def reach(self, partition: int, watermark_ms: int) -> None:
        """A partition adds nothing more to windows that have ended by this watermark."""
        record = self._slot(partition).record
        before_ms, record.watermark_ms = record.watermark_ms, max(record.watermark_ms, watermark_ms)
        self._frontier.moved(before_ms, record.watermark_ms)
        self.changes += 1

    def full(self, partition: int) -> SlotDelta:
        """All that is known of one partition."""
        slot = self._slot(partition)
        return SlotDelta(
            partition,
            slot.punctuation_count,
            slot.record.full_delta(),
            slot.stages[0].full_delta(),
            slot.punctuations,
            self.dropped_through_ms,
            [track.full_delta() for track in slot.stages[1:]],
        )

    def _slot(self, partition: int) -> Slot:
        if not 0 <= partition < len(self.slots):
            raise IndexError(f"partition {partition} of {len(self.slots)}")
        return self.slots[partition]

    # --- progress -----------------------------------------------------------------------------------------------

    @property
    def frontier_ms(self) -> int:
        """The minimum watermark over all partitions (Holon: the global watermark)."""
        return self._frontier.of(slot.record.watermark_ms for slot in self.slots)

    @property
    def complete_through_ms(self) -> int:
        """Record-track windows that end at or before this are final."""
        frontier = self.frontier_ms
        return frontier if frontier >= END_OF_TIME_MS else frontier - self.lateness_ms

    def answered_ms(self, stage: int) -> int:
        """The window end through which this stage of all partitions has answered."""
        return self._answered[stage].of(slot.stages[stage].position[0] for slot in self.slots)

    @property
    def progress(self) -> tuple[int, ...]:
        """The frontier and what each stage of all partitions has answered: whatever completes a window moves it."""
        return self.frontier_ms, *(self.answered_ms(stage) for stage in range(self._last_stage + 1))

    def frontier_without(self, partition: int) -> int:
        """The minimum watermark over the other partitions (the bound of a punctuation)."""
        others = [slot.record.watermark_ms for p, slot in enumerate(self.slots) if p != partition]
        return min(others, default=BEFORE_TIME_MS)

    def is_complete(self, state: str, window: Window) -> bool:
        """True once no partition can add to this window any more."""
        stage = self.shapes[state].stage
        if stage == 0:
            return window.end_ms <= self.complete_through_ms
        return all(window.end_ms <= self.answered_ms(writer) for writer in range(stage))

    # --- values -------------------------------------------------------------------------------------------------

    def windows(self, state: str) -> Iterator[Window]:
        """Windows of a state to which some partition has contributed; unordered, with duplicates."""
        for track in self._tracks(state):
            for held in track.contributions.get(state, ()):
                yield from self.shapes[state].windows(held)

    def ended(self, state: str, after_ms: int, through_ms: int) -> list[Window]:
        """Those of them that end after ``after_ms`` and at or before ``through_ms``, by end, without duplicates."""
        found = self._ends[state].between(after_ms, through_ms)
        panes, tracks = self.shapes[state].panes, [track.contributions.get(state, {}) for track in self._tracks(state)]
        if panes is None:
            return [window for window in found if any(window in track for track in tracks)]
        return [w for w in found if any(held in track for held in (w, *panes.of(w)) for track in tracks)]

    def first_end(self, state: str, after_ms: int) -> int | None:
        """The first end after ``after_ms`` at which some partition may have contributed to a window of the state."""
        return self._ends[state].first(after_ms)

    def ends_after(self, state: str, after_ms: int) -> int:
        """How many windows of the state end after ``after_ms``, to which some partition may have contributed."""
        return self._ends[state].count_after(after_ms)

    def _tracks(self, state: str) -> list[TrackSlot]:
        stage = self.shapes[state].stage
        if stage == 0:
            return [slot.record for slot in self.slots]
        return [track for slot in self.slots for track in slot.stages[:stage]]

    def final_value(self, state: str, window: Window) -> AnyLattice:
        """The join of all contributions to a completed window: the same on every replica, for ever.

        The result is shared: read it, do not insert into it.
        """
        assert self.is_complete(state, window), f"{state} {window} read at frontier {self.frontier_ms}"
        assert window.end_ms > self.dropped_through_ms, f"{state} {window} was dropped"
        return self._values.final(state, window)

    def current_value(self, state: str, window: Window) -> AnyLattice:
        """The join of what has arrived so far: not deterministic while the window is open."""
        return self._values.current(state, window)

    def _joined(self, state: str, held: Window) -> AnyLattice | None:
        """All contributions to a window or pane; None where there are none."""
        value = None
        for track in self._tracks(state):
            contribution = track.contributions.get(state, {}).get(held)
            if contribution is not None:
                value = self.bottoms[state].bottom() if value is None else value
                value.merge(contribution)
        return value

    def drop_through(self, end_ms: int) -> None:
        """Forget windows that every partition has answered in a durable checkpoint."""
        if end_ms <= self.dropped_through_ms:
            return
        self.dropped_through_ms = end_ms
        for slot in self.slots:
            for track in slot.tracks:
                track.drop_through(end_ms)
        for ends in self._ends.values():
            ends.drop_through(end_ms)
        self._values.drop_through(end_ms)

    def reset(self) -> None:
        """Know nothing again: the broadcast is read anew because dropped windows are needed once more."""
        self.slots = [Slot(self._last_stage + 1) for _ in self.slots]
        self.dropped_through_ms = BEFORE_TIME_MS
        self.changes += 1
        self._ends = {name: EndIndex() for name in self.shapes}
        self._values.clear()
        self._frontier, self._answered = Least[int](), [Least[int]() for _ in self._answered]

    def open_windows(self) -> int:
        """How many (state, window) contributions are held: the memory that the replica is bounded by."""
        return sum(
            len(windows) for slot in self.slots for track in slot.tracks for windows in track.contributions.values()
        )


def actor_of(partition: int, stage: int | None) -> int:
    """The actor number of a partition's record track (None) or of a stage's: two tracks never share one."""
    if stage is None:
        return 2 * partition
    assert 2 * partition + 1 < _ACTORS_OF_A_STAGE, f"partition {partition}"
    return 2 * partition + 1 + stage * _ACTORS_OF_A_STAGE
