"""A whole checkpoint and the parts that rest on it give the state, wherever they are cut and whatever was dropped."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.tracks.parts import resting_on
from tests.laws.recut_jobs import Answers, Awaiting, PerBatch, PerRecord, Promising, inputs, job
from tests.laws.recut_runs import RunWithParts, record_by_record
from tests.laws.test_lattices import CASES
from wcrdt import Window
from wcrdt.laws import REFUSALS
from wcrdt.replica.slots import RECORD_START, OwnTrack, PrivateTrack, TrackDelta, TrackPart

FORMS = [PerRecord, PerBatch, Awaiting, Promising]
WINDOWS = [Window(start, start + 10) for start in (0, 10, 20)]
EVENTS = ["insert", "insert", "insert", "insert many", "send", "checkpoint", "checkpoint", "drop", "take back"]


class Chain:
    """One track and its checkpoints: a whole one, then parts, each joined with so many of the blocks before it."""

    def __init__(self, track: OwnTrack, rng: random.Random) -> None:
        self.track = track
        self.rng = rng
        self.whole = self.saved(track.full_delta())
        self.parts: list[TrackPart] = []
        track.collect()

    def saved(self, delta: TrackDelta) -> TrackDelta:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(delta), type=TrackDelta)

    def checkpoint(self) -> None:
        self.track.take_delta()
        joined = self.rng.randint(0, len(self.parts))
        delta, dropped = self.track.part(joined)
        self.parts[len(self.parts) - joined :] = [TrackPart(self.saved(delta), dropped)]

    def restored(self) -> OwnTrack:
        whole = self.whole
        for part in self.parts:
            whole = resting_on(part.delta, whole, part.dropped_through_ms)
        fresh = type(self.track)(RECORD_START, self.track.bottoms)
        fresh.restore(whole)
        return fresh


@pytest.mark.parametrize("kind", [OwnTrack, PrivateTrack])
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_a_whole_checkpoint_and_its_parts_are_the_track(name: str, kind: type[OwnTrack], data: Any) -> None:
    zero, elements = CASES[name]
    track = kind(RECORD_START, {"s": zero, "t": zero})
    chain: Chain | None = None
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    if kind is OwnTrack and rng.random() < 0.5:
        track.apart = frozenset("t")
    gone = 0
    for event in data.draw(st.lists(st.sampled_from(EVENTS), min_size=4, max_size=14)):
        window = rng.choice(WINDOWS[gone:])
        if event == "insert":
            insert(track, rng.choice("st"), window, data.draw(elements))
        elif event == "insert many":
            for _ in range(2):
                insert(track, "s", window, data.draw(elements))
        elif event == "take back":
            track.keep()
            insert(track, rng.choice("st"), window, data.draw(elements))
            track.roll_back()
        elif event == "drop" and gone < 2:
            gone += 1
            track.drop_through(10 * gone)
        elif event == "send":
            track.take_delta(waits=rng.random() < 0.5)
        elif event == "checkpoint" and chain is None:
            track.take_delta()
            chain = Chain(track, rng)
        elif event == "checkpoint" and chain is not None:
            chain.checkpoint()
        track.position = (track.position[0] + 1, 0)
    if chain is not None:
        chain.checkpoint()
        assert encoded(chain.restored()) == encoded(track)


def insert(track: OwnTrack, state: str, window: Window, element: Any) -> None:
    """Some types refuse some of the elements that are drawn for them."""
    with suppress(*REFUSALS):
        track.insert(state, window, element, 4)


def encoded(track: OwnTrack) -> bytes:
    return msgspec.msgpack.encode(track.full_delta())


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@given(records=inputs(failing=True), seed=st.integers(0, 2**32), most=st.sampled_from([1, 2, 5, 63]))
def test_crashes_change_nothing_where_checkpoints_are_parts(
    form: type[Answers], records: Any, seed: int, most: int
) -> None:
    made = job(form, on_error="dead-letter")
    outcome = RunWithParts(made, records, random.Random(seed), most=most).run(largest=4, crash=0.2)
    expected = record_by_record(made, records)
    assert outcome.results == expected.results
    assert outcome.counts == expected.counts
    assert outcome.snapshots == expected.snapshots
