"""A delta that is used where it was made does what its bytes do elsewhere."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcrdt import Bag, ColumnsOf, GCounter, GSet, Lattice, MapOf, Max, OfLargest, RecordOf
from wcrdt.lattices.sets import GrowingSet
from wcrdt.replica.slots import RECORD_START, OwnTrack, TrackDelta, TrackSlot
from wcrdt.windows.assigners import BEFORE_TIME_MS, Window

WINDOW = Window(0, 10)
KEYS = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 90)), min_size=1, max_size=4)
"""Begins and lengths of runs of keys: maps become columns, and new keys come between known ones."""


class OwnSet(GSet[int]):
    """A type of a user, whose delta is the value itself."""

    __slots__ = ()

    def insert_many(self, elements: Any, *, actor: int = 0) -> OwnSet:
        self._members |= set(elements.tolist())
        return self


BOTTOMS: dict[str, Lattice[Any, Any]] = {
    "count": MapOf(GCounter()),
    "record": ColumnsOf(RecordOf(n=GCounter(), most=Max())),
    "set": MapOf(GSet()),
    "bag": MapOf(Bag()),
    "largest": RecordOf(n=GCounter(), best=OfLargest(Bag())),
    "own": OwnSet(),
}


def elements(name: str, keys: Any) -> Any:
    numbers = keys * 7 % 13
    if name in ("largest", "own"):
        return (np.ones(len(keys), np.int64), (numbers, keys)) if name == "largest" else keys
    return keys, (np.ones(len(keys), np.int64), numbers) if name == "record" else numbers


def on_the_log(delta: TrackDelta) -> TrackDelta:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(delta), type=TrackDelta)


@pytest.mark.parametrize("name", BOTTOMS)
@settings(max_examples=30, deadline=None)
@given(batches=st.lists(KEYS, min_size=1, max_size=6), collects=st.booleans())
def test_a_carried_delta_does_what_its_bytes_do(name: str, batches: list[Any], collects: bool) -> None:
    bottoms = {"s": BOTTOMS[name]}
    track, here, elsewhere = OwnTrack(RECORD_START, bottoms), TrackSlot(RECORD_START), TrackSlot(RECORD_START)
    if collects:
        track.collect()
    for number, runs in enumerate(batches):
        before = here.full_delta()
        for begin, length in runs:
            track.insert_many("s", WINDOW, elements(name, np.arange(begin, begin + length)), 2)
        track.position = (number + 1, 0)
        delta = track.take_delta()
        logged = on_the_log(delta)
        assert msgspec.msgpack.encode(here.full_delta()) == msgspec.msgpack.encode(before), "nothing has arrived"
        here.apply(delta, bottoms, BEFORE_TIME_MS)
        elsewhere.apply(logged, bottoms, BEFORE_TIME_MS)
        if collects and number % 2:
            track.part(0)
        assert msgspec.msgpack.encode(here.full_delta()) == msgspec.msgpack.encode(elsewhere.full_delta())
    assert here.full_delta().changes == track.full_delta().changes


def test_deltas_of_large_maps_are_carried_once() -> None:
    bottoms = {"s": BOTTOMS["record"]}
    track = OwnTrack(RECORD_START, bottoms)
    track.insert_many("s", WINDOW, elements("record", np.arange(100)), 2)
    track.position = (1, 0)
    (change,) = track.take_delta().changes
    assert change.carried() is not None
    assert change.carried() is None


def test_of_types_of_users_nothing_is_carried() -> None:
    track = OwnTrack(RECORD_START, {"s": BOTTOMS["own"]})
    track.insert_many("s", WINDOW, np.arange(100), 2)
    track.position = (1, 0)
    (change,) = track.take_delta().changes
    assert change.carried() is None
    assert GrowingSet.hands_over
