"""Slots under duplicated, reordered, lost and overlapping deltas: a slot at a position is the prefix up to there."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wcrdt import (
    DecodeError,
    GCounter,
    GSet,
    Lattice,
    MapOf,
    Max,
    ORSet,
    PairOf,
    Sum,
    Tumbling,
    Window,
    YText,
    canonical_bytes,
)
from wcrdt.replica.replica import Punctuation, Replica, SlotDelta, StateShape
from wcrdt.replica.slots import (
    RECORD_START,
    WINDOW_START,
    Applied,
    OwnTrack,
    Position,
    TrackDelta,
    TrackSlot,
    WindowChange,
)
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

SMALL = st.integers(0, 5)
KEYS = st.sampled_from("ab")
CASES: dict[str, tuple[Lattice[Any, Any], st.SearchStrategy[Any]]] = {
    "compact": (GCounter(), SMALL),
    "map": (MapOf(Sum()), st.tuples(KEYS, SMALL)),
    "set": (GSet[str](), KEYS),
    "set with removal": (ORSet[str](), st.tuples(st.sampled_from(["add", "remove"]), KEYS)),
    "pair": (PairOf(Max(), GSet[int]()), st.tuples(SMALL, SMALL)),
    "text": (YText(), st.sampled_from(["x", "yz", (0, "w")])),
}
WINDOWS = Tumbling(10)
Step = tuple[int, Any]


def history(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Step]]:
    """One partition's input: (event time, element) for each offset."""
    return st.lists(st.tuples(st.integers(0, 39), elements), min_size=1, max_size=12)


class Maker:
    """Somebody who processes the partition: the owner, a zombie, or a new owner from an older snapshot."""

    def __init__(self, zero: Lattice[Any, Any], steps: list[Step], start: TrackDelta | None = None) -> None:
        self.steps = steps
        self.track = OwnTrack(RECORD_START, {"s": zero})
        if start is not None:
            self.track.restore(start)

    @property
    def done(self) -> bool:
        return self.track.position[0] >= len(self.steps)

    def process(self) -> None:
        offset, _ = self.track.position
        ts, element = self.steps[offset]
        (window,) = WINDOWS.windows_for(ts)
        if window.end_ms > self.track.watermark_ms:  # or it is late
            self.track.insert("s", window, element, actor=4)
        self.track.position = (offset + 1, 0)
        self.track.watermark_ms = max(self.track.watermark_ms, ts)


def contents(track: TrackSlot) -> Any:
    return [(window, canonical_bytes(value)) for _, window, value in track.items()], track.watermark_ms


def prefixes(zero: Lattice[Any, Any], steps: list[Step]) -> dict[Position, Any]:
    """The state of every prefix, computed in one piece."""
    maker = Maker(zero, steps)
    states = {maker.track.position: contents(maker.track)}
    while not maker.done:
        maker.process()
        states[maker.track.position] = contents(maker.track)
    return states


def messages(zero: Lattice[Any, Any], steps: list[Step], rng: random.Random) -> list[TrackDelta]:
    """The broadcast of several overlapping makers, each cutting its deltas anywhere; some full slots too."""
    makers = [Maker(zero, steps)]
    sent: list[TrackDelta] = []
    while not all(maker.done for maker in makers):
        maker = rng.choice(makers)
        if not maker.done:
            maker.process()
        if rng.random() < 0.5 and maker.track.has_changes:
            sent.append(maker.track.take_delta())
        if rng.random() < 0.2:
            sent.append(maker.track.full_delta())
        if rng.random() < 0.2 and len(makers) < 4:
            makers.append(Maker(zero, steps, maker.track.full_delta()))
    return [*sent, *(maker.track.take_delta() for maker in makers if maker.track.has_changes)]


@pytest.mark.parametrize("case", CASES)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_a_slot_is_always_exactly_the_prefix_at_its_position(case: str, data: Any, seed: int) -> None:
    zero, elements = CASES[case]
    steps = data.draw(history(elements))
    rng = random.Random(seed)
    expected = prefixes(zero, steps)
    sent = messages(zero, steps, rng)
    received = [message for message in sent if rng.random() < 0.8] + rng.choices(sent, k=3)
    rng.shuffle(received)
    slot = TrackSlot(RECORD_START)
    for message in received:
        before = slot.position
        outcome = slot.apply(message, {"s": zero}, BEFORE_TIME_MS)
        assert (outcome is Applied.ADVANCED) == (slot.position > before)
        assert (outcome is Applied.GAP) == (not message.full and message.since > before and message.to > before)
        assert contents(slot) == expected[slot.position]
    last = Maker(zero, steps)
    while not last.done:
        last.process()
    slot.apply(last.track.full_delta(), {"s": zero}, BEFORE_TIME_MS)  # what fills every gap
    assert contents(slot) == expected[len(steps), 0]


@pytest.mark.parametrize("case", CASES)
@given(data=st.data(), cut=st.integers(0, 12))
def test_what_is_sent_shares_nothing_with_what_goes_on_changing(case: str, data: Any, cut: int) -> None:
    zero, elements = CASES[case]
    steps = data.draw(history(elements))
    maker, slot = Maker(zero, steps), TrackSlot(RECORD_START)
    while not maker.done and maker.track.position[0] < cut:
        maker.process()
    sent = [maker.track.full_delta(), *([maker.track.take_delta()] if maker.track.has_changes else [])]
    slot.apply(sent[-1], {"s": zero}, BEFORE_TIME_MS)
    before = msgspec.msgpack.encode(sent), contents(slot)
    while not maker.done:
        maker.process()
    assert (msgspec.msgpack.encode(sent), contents(slot)) == before


@pytest.mark.parametrize("case", CASES)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_rolling_back_is_as_if_nothing_had_been_done(case: str, data: Any, seed: int) -> None:
    """Records that fail half-way are undone; the slots of others never notice."""
    zero, elements = CASES[case]
    steps = data.draw(history(elements))
    rng = random.Random(seed)
    expected = prefixes(zero, steps)
    maker, slot = Maker(zero, steps), TrackSlot(RECORD_START)
    while not maker.done:
        if rng.random() < 0.5:
            maker.track.keep()
            for ts, element in rng.choices(steps, k=2):
                maker.track.insert("s", WINDOWS.windows_for(ts)[0], element, actor=4)
            maker.track.roll_back()
        assert contents(maker.track) == expected[maker.track.position]
        maker.process()
        if rng.random() < 0.5:
            slot.apply(maker.track.take_delta(), {"s": zero}, BEFORE_TIME_MS)
            assert contents(slot) == expected[slot.position]


@given(data=st.data(), seed=st.integers(0, 2**32))
def test_dropped_windows_do_not_come_back(data: Any, seed: int) -> None:
    zero, elements = CASES["map"]
    steps = data.draw(history(elements))
    rng = random.Random(seed)
    sent = messages(zero, steps, rng)
    rng.shuffle(sent)
    replica = Replica(1, {"s": StateShape("s", zero)})
    for message in sent:
        if rng.random() < 0.3:
            replica.drop_through(rng.randrange(0, 40, 10))
        replica.receive(SlotDelta(0, 0, message, None))
        assert all(window.end_ms > replica.dropped_through_ms for window in replica.windows("s"))


# --- replicas ---------------------------------------------------------------------------------------------------------


@given(data=st.data(), seed=st.integers(0, 2**32))
def test_replicas_that_lost_and_reordered_differently_end_byte_equal(data: Any, seed: int) -> None:
    zero, elements = CASES["map"]
    rng = random.Random(seed)
    inputs = [data.draw(history(elements)) for _ in range(3)]
    shapes = {"s": StateShape("s", zero)}
    sent = [SlotDelta(p, 0, message, None) for p in range(3) for message in messages(zero, inputs[p], rng)]
    replicas = [Replica(3, shapes) for _ in range(3)]
    final: dict[Window, bytes] = {}
    for replica in replicas:
        mine = [delta for delta in sent if rng.random() < 0.7]
        rng.shuffle(mine)
        for delta in mine:
            replica.receive(delta)
            _check_final(replica, final)
    for replica in replicas:  # each asks the others for what it misses
        for other in replicas:
            for partition in range(3):
                replica.receive(other.full(partition))
                _check_final(replica, final)
    for partition in range(3):
        assert len({msgspec.msgpack.encode(replica.full(partition)) for replica in replicas}) == 1


def _check_final(replica: Replica, final: dict[Window, bytes]) -> None:
    """The law that everything rests on: what one replica can read once, all read for ever."""
    for start in range(0, 40, 10):
        window = Window(start, start + 10)
        if replica.is_complete("s", window):
            value = canonical_bytes(replica.current_value("s", window))
            assert final.setdefault(window, value) == value


def test_a_window_is_complete_when_the_last_partition_has_passed_end_and_lateness() -> None:
    replica = Replica(2, {"s": StateShape("s", GCounter())}, lateness_ms=5)
    window = Window(0, 10)
    replica.receive(SlotDelta(0, 0, TrackDelta((0, 0), (1, 0), END_OF_TIME_MS, []), None))
    for watermark, complete in [(10, False), (14, False), (15, True)]:
        replica.receive(SlotDelta(1, 0, TrackDelta((0, 0), (watermark, 0), watermark, []), None))
        assert replica.is_complete("s", window) is complete


def test_a_stage_is_complete_when_every_partition_has_answered_the_stage_before() -> None:
    replica = Replica(2, {"s": StateShape("s", GCounter(), stage=1)})
    window = Window(0, 10)
    replica.receive(SlotDelta(0, 0, None, TrackDelta(WINDOW_START, (20, 0), 20, [])))
    assert not replica.is_complete("s", window)
    replica.receive(SlotDelta(1, 0, None, TrackDelta(WINDOW_START, (10, 0), 10, [])))
    assert replica.is_complete("s", window)


def test_a_delta_that_missed_a_punctuation_is_void() -> None:
    replica = Replica(1, {"s": StateShape("s", GCounter())})
    assert replica.punctuate(Punctuation(0, (0, 0), 7))
    received = replica.receive(
        SlotDelta(0, 0, TrackDelta((0, 0), (1, 0), 3, [WindowChange("s", 0, 10, [[4, 1]])]), None)
    )
    assert received.void and replica.frontier_ms == 7
    assert list(replica.windows("s")) == []


def test_a_delta_that_knows_more_punctuations_reveals_a_gap_and_the_full_slot_fills_it() -> None:
    ahead, behind = (Replica(1, {"s": StateShape("s", GCounter())}) for _ in range(2))
    ahead.punctuate(Punctuation(0, (0, 0), 7))
    delta = SlotDelta(0, 1, TrackDelta((0, 1), (1, 0), 8, []), None)
    ahead.receive(delta)
    assert behind.receive(delta).gap
    assert behind.receive(ahead.full(0)).advanced
    assert msgspec.msgpack.encode(behind.full(0)) == msgspec.msgpack.encode(ahead.full(0))


def test_a_punctuation_that_comes_after_more_records_is_void() -> None:
    replica = Replica(1, {"s": StateShape("s", GCounter())})
    replica.receive(SlotDelta(0, 0, TrackDelta((0, 0), (1, 0), 3, []), None))
    assert not replica.punctuate(Punctuation(0, (0, 0), 7))
    assert replica.frontier_ms == 3


@pytest.mark.parametrize(("watermark_ms", "answered_ms", "stays"), [(55, 50, True), (54, 50, False), (55, 49, False)])
def test_windows_that_a_full_slot_lacks_stay_where_nothing_more_can_be_added_to_them(
    watermark_ms: int, answered_ms: int, stays: bool
) -> None:
    replica = Replica(2, {"s": StateShape("s", GCounter()), "t": StateShape("t", GCounter(), stage=1)}, lateness_ms=5)
    record = TrackDelta((0, 0), (1, 0), watermark_ms, [WindowChange("s", 40, 50, [[4, 1]])])
    window = TrackDelta(WINDOW_START, (answered_ms, 1), answered_ms, [WindowChange("t", 40, 50, [[5, 1]])])
    replica.receive(SlotDelta(1, 0, record, window))
    record, window = TrackDelta((9, 0), (9, 0), 90, [], full=True), TrackDelta((90, 0), (90, 0), 90, [], full=True)
    replica.receive(SlotDelta(1, 0, record, window, [], dropped_through_ms=50))
    assert list(replica.windows("s")) + list(replica.windows("t")) == [Window(40, 50)] * 2 * stays
    assert replica.dropped_through_ms == (BEFORE_TIME_MS if stays else 50)


@pytest.mark.parametrize(
    "change",
    [WindowChange("unknown", 0, 10, [[4, 1]]), WindowChange("s", 0, 10, [[4, -1]]), WindowChange("s", 0, 10, "x")],
)
def test_a_malformed_delta_is_refused_and_changes_nothing(change: WindowChange) -> None:
    slot = TrackSlot(RECORD_START)
    good = WindowChange("s", 0, 10, [[4, 1]])
    with pytest.raises(DecodeError):
        slot.apply(TrackDelta((0, 0), (1, 0), 3, [good, change]), {"s": GCounter()}, BEFORE_TIME_MS)
    assert (slot.position, slot.watermark_ms, list(slot.items())) == (RECORD_START, BEFORE_TIME_MS, [])


def test_an_element_that_is_refused_leaves_no_empty_window_behind() -> None:
    track = OwnTrack(RECORD_START, {"s": GCounter()})
    with pytest.raises(ValueError, match="cannot go down"):
        track.insert("s", Window(0, 10), -1, actor=0)
    assert list(track.items()) == []
