"""The lifecycle of a chain of checkpoints at one owner, as a state machine: at most one checkpoint is on its way.

Two rules for this file: it knows no store, no log and no clock; what is not in ``TRANSITIONS`` cannot happen. So a
checkpoint is handed over only upon the chain that it continues, whatever requested a snapshot, and when.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from nodes.transactions.checkpoints.chains import FileReference


class CheckpointStage(Enum):
    """Where the next checkpoint is."""

    IDLE = auto()
    """None is on its way."""
    WANTED = auto()
    """A snapshot was requested from the partition."""
    HELD = auto()
    """There is one; it waits until the partition's replies are acknowledged."""
    SAVING = auto()
    """It was handed over."""


class CheckpointEvent(Enum):
    """The events of a chain."""

    DUE = auto()
    """The interval is over, and something was written."""
    CHECKED = auto()
    """Time passes."""
    WHOLE = auto()
    """The snapshot is there, and holds all."""
    CONTINUES = auto()
    """The snapshot is there, and continues the chain."""
    STRAY = auto()
    """The snapshot is there, and continues something else."""
    ACKNOWLEDGED = auto()
    """All replies that the snapshot counts on are on the log."""
    SAVED = auto()
    """The file is there, and so are those that it rests upon."""
    LOST = auto()
    """Files that it rests upon are gone."""
    DAMAGED = auto()
    """A file of the chain is bad."""


class Effect(Enum):
    """The effects."""

    NOTHING = auto()
    REQUEST = auto()
    """Request from the partition what has changed since the last snapshot."""
    REQUEST_WHOLE = auto()
    """Request all of it; the chain begins anew."""
    BEGIN_ANEW = auto()
    """Keep the snapshot; it rests upon nothing."""
    HOLD = auto()
    """Keep the snapshot; it rests upon the chain."""
    HAND_OVER = auto()
    """Save it."""
    ADD = auto()
    """It is part of the chain, and others may begin with it."""
    DROP = auto()
    """It is no checkpoint."""


class ChainState(NamedTuple):
    """``is_sound`` False: nothing may rest upon the chain, so the next checkpoint has to hold all."""

    stage: CheckpointStage
    is_sound: bool


IDLE, WANTED, HELD, SAVING = (ChainState(stage, True) for stage in CheckpointStage)
BAD_IDLE, BAD_WANTED, BAD_HELD, BAD_SAVING = (ChainState(stage, False) for stage in CheckpointStage)

TRANSITIONS: Mapping[tuple[ChainState, CheckpointEvent], tuple[ChainState, Effect]] = {
    (IDLE, CheckpointEvent.CHECKED): (IDLE, Effect.NOTHING),
    (IDLE, CheckpointEvent.DUE): (WANTED, Effect.REQUEST),
    (IDLE, CheckpointEvent.DAMAGED): (BAD_IDLE, Effect.NOTHING),
    (BAD_IDLE, CheckpointEvent.CHECKED): (BAD_WANTED, Effect.REQUEST_WHOLE),
    (BAD_IDLE, CheckpointEvent.DUE): (BAD_WANTED, Effect.REQUEST_WHOLE),
    (BAD_IDLE, CheckpointEvent.DAMAGED): (BAD_IDLE, Effect.NOTHING),
    (WANTED, CheckpointEvent.CHECKED): (WANTED, Effect.NOTHING),
    (WANTED, CheckpointEvent.DUE): (WANTED, Effect.NOTHING),
    (WANTED, CheckpointEvent.WHOLE): (HELD, Effect.BEGIN_ANEW),
    (WANTED, CheckpointEvent.CONTINUES): (HELD, Effect.HOLD),
    (WANTED, CheckpointEvent.STRAY): (BAD_IDLE, Effect.DROP),
    (WANTED, CheckpointEvent.DAMAGED): (BAD_WANTED, Effect.NOTHING),
    (BAD_WANTED, CheckpointEvent.CHECKED): (BAD_WANTED, Effect.NOTHING),
    (BAD_WANTED, CheckpointEvent.DUE): (BAD_WANTED, Effect.NOTHING),
    (BAD_WANTED, CheckpointEvent.WHOLE): (HELD, Effect.BEGIN_ANEW),
    (BAD_WANTED, CheckpointEvent.CONTINUES): (BAD_IDLE, Effect.DROP),
    (BAD_WANTED, CheckpointEvent.STRAY): (BAD_IDLE, Effect.DROP),
    (BAD_WANTED, CheckpointEvent.DAMAGED): (BAD_WANTED, Effect.NOTHING),
    (HELD, CheckpointEvent.CHECKED): (HELD, Effect.NOTHING),
    (HELD, CheckpointEvent.DUE): (HELD, Effect.NOTHING),
    (HELD, CheckpointEvent.ACKNOWLEDGED): (SAVING, Effect.HAND_OVER),
    (HELD, CheckpointEvent.DAMAGED): (BAD_HELD, Effect.NOTHING),
    (BAD_HELD, CheckpointEvent.CHECKED): (BAD_HELD, Effect.NOTHING),
    (BAD_HELD, CheckpointEvent.DUE): (BAD_HELD, Effect.NOTHING),
    (BAD_HELD, CheckpointEvent.ACKNOWLEDGED): (BAD_IDLE, Effect.DROP),
    (BAD_HELD, CheckpointEvent.DAMAGED): (BAD_HELD, Effect.NOTHING),
    (SAVING, CheckpointEvent.CHECKED): (SAVING, Effect.NOTHING),
    (SAVING, CheckpointEvent.DUE): (SAVING, Effect.NOTHING),
    (SAVING, CheckpointEvent.SAVED): (IDLE, Effect.ADD),
    (SAVING, CheckpointEvent.LOST): (BAD_IDLE, Effect.DROP),
    (SAVING, CheckpointEvent.DAMAGED): (BAD_SAVING, Effect.NOTHING),
    (BAD_SAVING, CheckpointEvent.CHECKED): (BAD_SAVING, Effect.NOTHING),
    (BAD_SAVING, CheckpointEvent.DUE): (BAD_SAVING, Effect.NOTHING),
    (BAD_SAVING, CheckpointEvent.SAVED): (BAD_IDLE, Effect.DROP),
    (BAD_SAVING, CheckpointEvent.LOST): (BAD_IDLE, Effect.DROP),
    (BAD_SAVING, CheckpointEvent.DAMAGED): (BAD_SAVING, Effect.NOTHING),
}


class Unexpected(AssertionError):
    """An event that cannot happen in this state: the chain is not to be gone on with."""


class ChainLifecycle:
    """``chain``: what the next checkpoint rests upon, up to the end of epoch ``end``; None: it is empty.

    ``is_sound`` False: the next one has to hold all. Beside the states, some files of the chain may be merged in any.
    """

    def __init__(self, chain: Sequence[FileReference] = (), end: int | None = None, *, is_sound: bool = True) -> None:
        self.state = ChainState(CheckpointStage.IDLE, is_sound)
        self.chain = tuple(chain)
        self.merging: tuple[FileReference, ...] = ()
        self._end = end
        self._next_end: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no checkpoint is on its way."""
        return self.state.stage is CheckpointStage.IDLE

    @property
    def is_wanted(self) -> bool:
        """Whether a snapshot was requested that the partition has not returned yet."""
        return self.state.stage is CheckpointStage.WANTED

    def happens(self, event: CheckpointEvent) -> Effect:
        """The effects. Raises ``Unexpected``."""
        found = TRANSITIONS.get((self.state, event))
        if found is None:
            raise Unexpected(f"{event.name} while a checkpoint is {self.state.stage.name}")
        self.state, effect = found
        if effect in (Effect.REQUEST_WHOLE, Effect.BEGIN_ANEW):
            self.chain, self._end = (), None
        return effect

    def made(self, epoch: int, since: int | None) -> Effect:
        """The partition's snapshot is there; ``since``: what it continues."""
        event = CheckpointEvent.STRAY if since != self._end else CheckpointEvent.CONTINUES
        effect = self.happens(CheckpointEvent.WHOLE if since is None else event)
        if effect is not Effect.DROP:
            self._next_end = epoch
        return effect

    def saved(self, part: FileReference | None) -> Effect:
        """None: what it rests upon is gone."""
        effect = self.happens(CheckpointEvent.LOST if part is None else CheckpointEvent.SAVED)
        if effect is Effect.ADD and part is not None:
            self.chain, self._end = (*self.chain, part), self._next_end
        return effect

    def merges(self, parts: Sequence[FileReference]) -> None:
        """Files of the chain are being merged."""
        assert not self.merging, "one merge at a time"
        self.merging = tuple(parts)

    def merged(self, made: Sequence[FileReference] | None, *, damaged: bool) -> None:
        """They became these; None: nothing came of it, and ``damaged``: one of them is bad."""
        parts, self.merging = self.merging, ()
        at = self.chain.index(parts[0]) if parts[0] in self.chain else None
        if at is None or self.chain[at : at + len(parts)] != parts:
            return  # the chain has begun anew
        if made is not None:
            self.chain = (*self.chain[:at], *made, *self.chain[at + len(parts) :])
        elif damaged:
            self.happens(CheckpointEvent.DAMAGED)
