"""The life of a chain of checkpoints: every state meets every event, and no walk has two checkpoints on their way."""

from __future__ import annotations

from random import Random

import pytest

from nodes.transactions.checkpoints.chain_life import (
    BAD_HELD,
    BAD_IDLE,
    BAD_SAVING,
    BAD_WANTED,
    HELD,
    IDLE,
    SAVING,
    TRANSITIONS,
    WANTED,
    ChainLifecycle,
    ChainState,
    CheckpointEvent,
    Effect,
    Unexpected,
)
from nodes.transactions.checkpoints.chains import FileReference
from transactional.state.snapshot_request import SnapshotRequest

WAYS: dict[ChainState, tuple[bool, list[CheckpointEvent]]] = {
    IDLE: (True, []),
    BAD_IDLE: (False, []),
    WANTED: (True, [CheckpointEvent.DUE]),
    BAD_WANTED: (False, [CheckpointEvent.CHECKED]),
    HELD: (True, [CheckpointEvent.DUE, CheckpointEvent.CONTINUES]),
    BAD_HELD: (True, [CheckpointEvent.DUE, CheckpointEvent.CONTINUES, CheckpointEvent.DAMAGED]),
    SAVING: (True, [CheckpointEvent.DUE, CheckpointEvent.CONTINUES, CheckpointEvent.ACKNOWLEDGED]),
    BAD_SAVING: (
        True,
        [CheckpointEvent.DUE, CheckpointEvent.CONTINUES, CheckpointEvent.ACKNOWLEDGED, CheckpointEvent.DAMAGED],
    ),
}
"""How a chain comes into each state: whether it begins sound, and what happens then."""

TABLE = """
               IDLE             WANTED            HELD               SAVING
CHECKED        IDLE             WANTED            HELD               SAVING
DUE            WANTED:REQUEST       WANTED            HELD               SAVING
WHOLE          -                HELD:BEGIN_ANEW   -                  -
CONTINUES      -                HELD:HOLD         -                  -
STRAY          -                BAD_IDLE:DROP     -                  -
ACKNOWLEDGED   -                -                 SAVING:HAND_OVER   -
SAVED          -                -                 -                  IDLE:ADD
LOST           -                -                 -                  BAD_IDLE:DROP
DAMAGED        BAD_IDLE         BAD_WANTED        BAD_HELD           BAD_SAVING

               BAD_IDLE              BAD_WANTED        BAD_HELD        BAD_SAVING
CHECKED        BAD_WANTED:REQUEST_WHOLE  BAD_WANTED        BAD_HELD        BAD_SAVING
DUE            BAD_WANTED:REQUEST_WHOLE  BAD_WANTED        BAD_HELD        BAD_SAVING
WHOLE          -                     HELD:BEGIN_ANEW   -               -
CONTINUES      -                     BAD_IDLE:DROP     -               -
STRAY          -                     BAD_IDLE:DROP     -               -
ACKNOWLEDGED   -                     -                 BAD_IDLE:DROP   -
SAVED          -                     -                 -               BAD_IDLE:DROP
LOST           -                     -                 -               BAD_IDLE:DROP
DAMAGED        BAD_IDLE              BAD_WANTED        BAD_HELD        BAD_SAVING
"""
"""Event by state: the next state, and the effect where there is one; -: it cannot happen."""
STATES = {name: state for state in WAYS for name in [state.stage.name if state.is_sound else f"BAD_{state.stage.name}"]}


def expected() -> dict[tuple[ChainState, CheckpointEvent], tuple[ChainState, Effect] | None]:
    found: dict[tuple[ChainState, CheckpointEvent], tuple[ChainState, Effect] | None] = {}
    for block in TABLE.strip("\n").split("\n\n"):
        head, *lines = block.splitlines()
        for line in lines:
            event, *cells = line.split()
            for state, cell in zip(head.split(), cells, strict=True):
                to, _, effect = cell.partition(":")
                goes = None if cell == "-" else (STATES[to], Effect[effect or "NOTHING"])
                found[STATES[state], CheckpointEvent[event]] = goes
    return found


def in_state(state: ChainState) -> ChainLifecycle:
    is_sound, events = WAYS[state]
    life = ChainLifecycle([FileReference("first", 1)], 1, is_sound=is_sound)
    for event in events:
        life.happens(event)
    assert life.state == state
    return life


def test_every_state_meets_every_event() -> None:
    table = expected()
    assert len(table) == len(WAYS) * len(CheckpointEvent)
    assert {each: goes for each, goes in table.items() if goes is not None} == TRANSITIONS
    for (state, event), goes in table.items():
        life = in_state(state)
        if goes is None:
            with pytest.raises(Unexpected):
                life.happens(event)
            assert life.state == state
        else:
            assert (goes[0], life.happens(event)) == (life.state, goes[1])


@pytest.mark.parametrize("is_sound", [True, False])
def test_whoever_asks_for_a_snapshot_only_what_continues_the_chain_is_handed_over(is_sound: bool) -> None:
    life = ChainLifecycle([FileReference("first", 1)], 4, is_sound=is_sound)
    assert life.happens(CheckpointEvent.DUE) is (Effect.REQUEST if is_sound else Effect.REQUEST_WHOLE)
    assert life.made(9, since=7) is Effect.DROP
    assert life.state == BAD_IDLE
    assert life.happens(CheckpointEvent.CHECKED) is Effect.REQUEST_WHOLE
    assert life.made(10, since=None) is Effect.BEGIN_ANEW
    assert life.happens(CheckpointEvent.ACKNOWLEDGED) is Effect.HAND_OVER
    assert life.chain == (), "what is handed over rests upon nothing"
    assert life.saved(FileReference("whole", 1)) is Effect.ADD
    assert life.happens(CheckpointEvent.DUE) is Effect.REQUEST
    assert life.made(11, since=10) is Effect.HOLD


def test_a_merge_runs_beside_and_damage_concerns_the_chain_that_has_the_file() -> None:
    parts = [FileReference("a", 1), FileReference("b", 1)]
    life = ChainLifecycle([*parts, FileReference("c", 1)], 3)
    life.merges(parts)
    life.happens(CheckpointEvent.DUE)
    life.merged([FileReference("ab", 2)], damaged=False)
    assert [part.name for part in life.chain] == ["ab", "c"]
    assert life.state == WANTED
    life.merges(life.chain[:1])
    life.merged(None, damaged=True)
    assert life.state == BAD_WANTED
    life.merges(life.chain[:1])
    assert life.made(5, since=None) is Effect.BEGIN_ANEW
    life.merged(None, damaged=True)
    assert life.state == HELD, "the file belongs to the chain before"
    life.merges([FileReference("gone", 1)])
    life.merged([FileReference("stale", 1)], damaged=False)
    assert life.chain == ()


class Walk:
    """A chain, a partition and a store that is slow; others ask the partition for snapshots too."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        self.request = SnapshotRequest()
        self.epoch = 0
        self.spans: dict[str, tuple[int | None, int]] = {}
        self.saving: list[tuple[FileReference, tuple[FileReference, ...]]] = []
        self.published = 0
        self.made: tuple[int | None, int] = None, 0
        self.life = ChainLifecycle(is_sound=self.draw.random() < 0.5)

    def step(self) -> None:
        life, draw = self.life, self.draw
        self.epoch += draw.randrange(2)
        if draw.random() < 0.1:
            self.request.request(whole=draw.random() < 0.5)  # nobody should
        if draw.random() < 0.02:
            self.life = life = ChainLifecycle(is_sound=False)  # it was a standby for a while
            self.saving.clear()
        if life.is_idle:
            effect = life.happens(draw.choice([CheckpointEvent.DUE, CheckpointEvent.CHECKED, CheckpointEvent.DAMAGED]))
            if effect in (Effect.REQUEST, Effect.REQUEST_WHOLE):
                self.request.request(whole=effect is Effect.REQUEST_WHOLE)
        if draw.random() < 0.5:
            self.request.make(self.epoch, lambda since: Since(since))  # type: ignore[arg-type, return-value]
        if life.is_wanted and (taken := self.request.take(self.epoch)) is not None:
            self.made = taken[1].since, taken[0]
            life.made(taken[0], taken[1].since)
        if life.state in (HELD, BAD_HELD) and life.happens(CheckpointEvent.ACKNOWLEDGED) is Effect.HAND_OVER:
            part = FileReference(f"{len(self.spans)}", 1)
            self.spans[part.name] = self.made
            self.saving.append((part, life.chain))
        assert len(self.saving) <= 1, "two checkpoints are on their way"
        if self.saving and draw.random() < 0.3:
            part, rests_on = self.saving.pop()
            if life.saved(part if draw.random() < 0.8 else None) is Effect.ADD:
                self.check((*rests_on, part))

    def check(self, chain: tuple[FileReference, ...]) -> None:
        self.published += 1
        end: int | None = None
        for part in chain:
            since, to = self.spans[part.name]
            assert since == end, f"{[self.spans[part.name] for part in chain]} is no state"
            end = to


class Since:
    def __init__(self, since: int | None) -> None:
        self.since = since


@pytest.mark.slow
def test_no_walk_publishes_a_chain_that_is_not_whole() -> None:
    published = 0
    for seed in range(200):
        walk = Walk(seed)
        for _ in range(200):
            walk.step()
        published += walk.published
    assert published > 1_000
