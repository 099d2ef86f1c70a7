"""Slots: the contribution of one partition to every windowed CRDT of a job, ordered by the prefix that it describes.

Two rules for this file. Contributions of one partition are ordered by position, never joined by guess (the longer
prefix wins). A delta that arrives twice, late or out of order leaves the slot as it was.

Holon, section 4.2 and Algorithm 2, keeps "the state with the largest nxtIdx" of a partition. Deviation: between two
prefixes only what changed is sent (section 7 of the paper names delta CRDTs as future work).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from wcrdt.codec import DecodeError
from wcrdt.lattice import Lattice, hands_over
from wcrdt.replica.changes import CollectedChanges
from wcrdt.windows.assigners import BEFORE_TIME_MS, Window

Position = tuple[int, int]
"""The position of a track. Record track: (next input offset, awaits passed inside that record). Track of a stage:
(window end in ms, stage), the end up to which that stage has answered every completed window."""

RECORD_START: Position = (0, 0)
WINDOW_START: Position = (BEFORE_TIME_MS, 0)


def start_of_stage(stage: int) -> Position:
    """Where the track of a stage begins."""
    return (BEFORE_TIME_MS, stage)


AnyLattice = Lattice[Any, Any]
Contributions = dict[str, dict[Window, AnyLattice]]
Parting = Callable[[str, Any], dict[int, Any]]
"""Cuts a value of a state by shard: the wire of each part."""


class WindowChange(msgspec.Struct, array_like=True, frozen=True, dict=True):
    """The delta of one window of one windowed CRDT, in the lattice's wire form.

    Where it was made it may carry the delta itself, which whoever applies it first takes over in place of its bytes.
    """

    state: str
    start_ms: int
    end_ms: int
    wire: Any

    def carry(self, value: AnyLattice) -> None:
        """``value`` is nobody else's."""
        vars(self)["_value"] = value

    def carried(self) -> AnyLattice | None:
        """The value, once."""
        return vars(self).pop("_value", None)


class TrackDelta(msgspec.Struct, array_like=True, frozen=True):
    """Brings one track of a slot from ``since`` to ``to``; with ``full`` it replaces the track whatever it was."""

    since: Position
    to: Position
    watermark_ms: int
    changes: list[WindowChange]
    full: bool = False


class TrackPart(NamedTuple):
    """A delta for a checkpoint that rests on others; of these, windows through ``dropped_through_ms`` are gone."""

    delta: TrackDelta
    dropped_through_ms: int


class Applied(Enum):
    """The outcome of a delta."""

    ADVANCED = "advanced"
    OLD = "old"  # the slot describes this prefix or a longer one already
    GAP = "gap"  # something between the slot's position and the delta's start is missing


class TrackSlot:
    """One track of one partition's slot, as every node holds it for every partition.

    ``watermark_ms`` belongs to the record track; on the track of a stage it repeats the answered window end.
    """

    __slots__ = ("contributions", "position", "watermark_ms")

    def __init__(self, start: Position) -> None:
        self.position = start
        self.watermark_ms = BEFORE_TIME_MS
        self.contributions: Contributions = {}

    def apply(
        self,
        delta: TrackDelta,
        bottoms: Mapping[str, AnyLattice],
        dropped_through_ms: int,
        kept_through_ms: int = BEFORE_TIME_MS,
    ) -> Applied:
        """Bring the track to ``delta.to`` if that is ahead and nothing is missing in between.

        ``bottoms`` gives the shape of each state. Changes of windows that end at or before ``dropped_through_ms`` are
        not taken up again, and those that end at or before ``kept_through_ms`` stay although a full delta lacks them.
        Raises ``DecodeError`` for an unknown state or a malformed value, with the slot unchanged.
        """
        if delta.to <= self.position:
            return Applied.OLD
        if delta.since > self.position and not delta.full:
            return Applied.GAP
        decoded = [(c.state, Window(c.start_ms, c.end_ms), _decode(c, bottoms)) for c in delta.changes]
        if delta.full:
            self.contributions = {
                state: {window: value for window, value in windows.items() if window.end_ms <= kept_through_ms}
                for state, windows in self.contributions.items()
            }
        for state, window, value in decoded:
            if window.end_ms > dropped_through_ms:
                self.take(state, window, value)
        self.position = delta.to
        self.watermark_ms = max(self.watermark_ms, delta.watermark_ms)
        return Applied.ADVANCED

    def take(self, state: str, window: Window, value: AnyLattice) -> None:
        """Join a change into the window's contribution.

        Of one partition only longer prefixes arrive here, and contributions only grow with the prefix. So the join with
        "the whole contribution as of ``to``" is that contribution: replacement and join are the same.
        """
        windows = self.contributions.setdefault(state, {})
        have = windows.get(window)
        if have is None:
            windows[window] = value
        else:
            have.merge(value)

    def drop_through(self, end_ms: int) -> None:
        """Forget the windows that end at or before ``end_ms``."""
        for windows in self.contributions.values():
            for window in [w for w in windows if w.end_ms <= end_ms]:
                del windows[window]

    def full_delta(self, without: Collection[str] = ()) -> TrackDelta:
        """The whole track, to fill gaps of others; but for the states ``without``."""
        items = (item for item in self.items() if item[0] not in without)
        changes = [WindowChange(s, w.start_ms, w.end_ms, value.to_wire()) for s, w, value in items]
        return TrackDelta(self.position, self.position, self.watermark_ms, changes, full=True)

    def items(self) -> Iterator[tuple[str, Window, AnyLattice]]:
        """All contributions, ordered by state and window."""
        for state in sorted(self.contributions):
            windows = self.contributions[state]
            for window in sorted(windows):
                yield state, window, windows[window]


class _KeptWindows(NamedTuple):
    """Where ``OwnTrack.keep`` was called, and each window that was written since as it was then."""

    position: Position
    watermark_ms: int
    before: dict[tuple[str, Window], AnyLattice | None]


class OwnTrack(TrackSlot):
    """The track of a partition that this node processes: it can be written, and knows what is not yet broadcast."""

    __slots__ = (
        "_changed",
        "_collected",
        "_kept",
        "_measured",
        "apart",
        "bottoms",
        "broadcast_position",
        "broadcast_watermark_ms",
    )

    def __init__(self, start: Position, bottoms: Mapping[str, AnyLattice]) -> None:
        super().__init__(start)
        self.bottoms = bottoms
        self.apart: frozenset[str] = frozenset()
        """States whose changes leave as contributions to shards, and not in deltas."""
        self.broadcast_position = start
        self.broadcast_watermark_ms = BEFORE_TIME_MS
        self._changed: dict[tuple[str, Window], AnyLattice | None] = {}
        self._kept: _KeptWindows | None = None
        self._measured = (0, 0)  # how many of the changed windows were measured, and how large they were
        self._collected: CollectedChanges | None = None

    def insert(self, state: str, window: Window, element: Any, actor: int) -> None:
        """Insert one element; one that the lattice refuses leaves nothing behind, also no empty window."""
        value = self._for_writing(state, window)
        delta = value.insert(element, actor=actor)
        self._wrote(state, window, value, delta)

    def insert_many(self, state: str, window: Window, elements: Any, actor: int) -> None:
        """Insert a column of elements, or none of them."""
        value = self._for_writing(state, window)
        delta = value.insert_many(elements, actor=actor)
        self._wrote(state, window, value, delta)

    def _for_writing(self, state: str, window: Window) -> AnyLattice:
        value = self.contributions.get(state, {}).get(window)
        if self._kept is not None and (state, window) not in self._kept.before:
            self._kept.before[state, window] = None if value is None else value.copy()
        return self.bottoms[state].bottom() if value is None else value

    def _wrote(self, state: str, window: Window, value: AnyLattice, delta: AnyLattice) -> None:
        windows = self.contributions.setdefault(state, {})
        if window not in windows and state in self.apart:  # it may wait for long: all of it is new
            self._changed[state, window] = None
        windows[window] = value
        self._add_change(state, window, value, delta)

    def _add_change(self, state: str, window: Window, value: AnyLattice, delta: AnyLattice) -> None:
        """Remember what is to be sent of a window."""
        pending = self._changed.setdefault((state, window), None if value.compact else delta)
        if pending is not None and pending is not delta:  # else the whole is sent, no need to collect
            pending.merge(delta)

    # --- undoing --------------------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Be ready to come back to here; costs a copy of each window that is written to from now on."""
        self._kept = _KeptWindows(self.position, self.watermark_ms, {})

    def forget_kept(self) -> None:
        """The changes since ``keep`` stay."""
        self._kept = None

    def roll_back(self) -> None:
        """Come back to the last ``keep``; nothing may have been broadcast since."""
        assert self._kept is not None, "roll_back without keep"
        kept, self._kept = self._kept, None
        assert self.broadcast_position <= kept.position, f"{self.broadcast_position} is on the broadcast"
        self.position, self.watermark_ms = kept.position, kept.watermark_ms
        self._measured = (0, 0)
        for (state, window), before in kept.before.items():
            if before is None:
                self.contributions.get(state, {}).pop(window, None)
                self._changed.pop((state, window), None)
            else:
                self.contributions[state][window] = before
                self._change_anew(state, window, before)

    def _change_anew(self, state: str, window: Window, value: AnyLattice) -> None:
        """More than is new, which is harmless; what is new alone is not known any more."""
        self._changed[state, window] = None if value.compact else value.copy()

    # --- what leaves ----------------------------------------------------------------------------------------------

    @property
    def has_changes(self) -> bool:
        """True if the track moved since the last ``take_delta``; whatever changes it also moves its position."""
        return self.position > self.broadcast_position

    def take_delta(self, *, waits: bool = False) -> TrackDelta:
        """The changes since the last call; the caller broadcasts them. ``waits``: those of states apart stay."""
        changes = []
        for state, window, value in self._unsent():
            if state not in self.apart:
                changes.append(self._change(state, window, value))
        made = TrackDelta(self.broadcast_position, self.position, self.watermark_ms, changes)
        waiting = {key: value for key, value in self._changed.items() if key[0] in self.apart} if waits else {}
        if self._collected is not None:
            self._collected.add({key: value for key, value in self._changed.items() if key not in waiting})
        self.mark_broadcast()
        self._changed.update(waiting)
        return made

    def _change(self, state: str, window: Window, value: AnyLattice) -> WindowChange:
        made = WindowChange(state, window.start_ms, window.end_ms, value.to_wire())
        if hands_over(value) and self._changed[state, window] is value:
            made.carry(value if self._collected is None else value.copy())
        return made

    def _unsent(self) -> Iterator[tuple[str, Window, AnyLattice]]:
        for state, window in sorted(self._changed):
            delta = self._changed[state, window]
            yield state, window, self.contributions[state][window] if delta is None else delta

    def by_shard(self, parting: Parting, *, whole: bool = False) -> dict[int, list[WindowChange]]:
        """By shard, the changes that the next delta leaves out, or with ``whole`` all contributions to these states."""
        found: dict[int, list[WindowChange]] = {}
        for state, window, value in self.items() if whole else self._unsent():
            for shard, wire in parting(state, value).items() if state in self.apart else ():
                found.setdefault(shard, []).append(WindowChange(state, window.start_ms, window.end_ms, wire))
        return found

    def unsent_apart(self) -> Iterator[tuple[str, Window, Any]]:
        """The windows of states apart that have changed, with all that is to be sent of each."""
        for (state, window), delta in self._changed.items():
            if state in self.apart:
                yield state, window, self.contributions[state][window] if delta is None else delta

    def unsent_bytes(self) -> int:
        """About how large the next delta is: a window counts as it was when this was first read after its change."""
        count, size = self._measured
        for state, window in islice(reversed(self._changed), len(self._changed) - count):
            size += len(msgspec.msgpack.encode(self.contributions[state][window].to_wire()))
        self._measured = (len(self._changed), size)
        return size

    def mark_broadcast(self) -> None:
        """Everything up to here is on the broadcast (also after a full slot)."""
        self._changed.clear()
        self._measured = (0, 0)
        self.broadcast_position = self.position
        self.broadcast_watermark_ms = self.watermark_ms

    def drop_through(self, end_ms: int) -> None:
        super().drop_through(end_ms)
        for state, window in [key for key in self._changed if key[1].end_ms <= end_ms]:
            del self._changed[state, window]
            self._measured = (0, 0)
        if self._collected is not None:
            self._collected.drop_through(end_ms)

    # --- parts of checkpoints -------------------------------------------------------------------------------------

    def collect(self) -> None:
        """From here on all that changes is collected, for parts that rest on a whole checkpoint of now."""
        self._collected = CollectedChanges(self.bottoms, self.position)

    def stop_collecting(self) -> None:
        """No part follows."""
        self._collected = None

    def part(self, joined: int) -> TrackPart:
        """The changes since the last part, joined with those of so many blocks before."""
        assert self._collected is not None, "a part of a track that collects nothing"
        self._collected.add(self._changed)
        since, found = self._collected.block(joined, self.contributions, self.position)
        changes = [
            WindowChange(state, window.start_ms, window.end_ms, wire)
            for (state, window), wires in sorted(found.items(), key=_key_of)
            for wire in wires
        ]
        return TrackPart(
            TrackDelta(since, self.position, self.watermark_ms, changes), self._collected.dropped_through_ms
        )

    def restore(self, delta: TrackDelta) -> None:
        """Become what a full delta of a checkpoint describes."""
        decoded = [(c.state, Window(c.start_ms, c.end_ms), _decode(c, self.bottoms)) for c in delta.changes]
        self.contributions = {}
        for state, window, value in decoded:
            self.take(state, window, value)
        self.position = delta.to
        self.watermark_ms = delta.watermark_ms
        self.mark_broadcast()


class PrivateTrack(OwnTrack):
    """The windows that no other partition sees: nothing of them is sent, so only parts of checkpoints collect it."""

    __slots__ = ()

    def _add_change(self, state: str, window: Window, value: AnyLattice, delta: AnyLattice) -> None:
        if self._collected is not None:
            super()._add_change(state, window, value, delta)

    def _change_anew(self, state: str, window: Window, value: AnyLattice) -> None:
        if self._collected is not None:
            super()._change_anew(state, window, value)

    def stop_collecting(self) -> None:
        super().stop_collecting()
        self._changed.clear()

    def part(self, joined: int) -> TrackPart:
        """As ``OwnTrack.part``; of the changes nothing is sent."""
        made = super().part(joined)
        self._changed.clear()
        return made


def _decode(change: WindowChange, bottoms: Mapping[str, AnyLattice]) -> AnyLattice:
    bottom = bottoms.get(change.state)
    if bottom is None:
        raise DecodeError(f"a delta names the state {change.state!r}, which this job does not have")
    carried = change.carried()
    return bottom.from_wire(change.wire) if carried is None else carried


def _key_of(item: tuple[tuple[str, Window], Any]) -> tuple[str, Window]:
    return item[0]
