"""Which checkpoints of a partition hold what has changed, and what these rest on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling
from holon.testing import JobTestDriver
from holon.tracks.parts import rests_on, snapshot_of
from nodes.machine import messages as m
from nodes.machine.checkpoints.parts import Begun, CheckpointParts
from nodes.machine.config import PartsConfig
from nodes.machine.control_state import ControlCheckpoint, decode_control_checkpoint, encode_control_checkpoint
from nodes.machine.durable import KEPT_CHECKPOINTS
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.standby.active_standby import ResultPace
from nodes.machine.standby.standby import PartitionStandby, Patience
from tests.unit.checkpoint_names import named
from tests.unit.node_dialogue import count_job, running
from wcrdt import DecodeError, GCounter, MapOf, Window
from wcrdt.replica.slots import RECORD_START, OwnTrack, PrivateTrack

KEYS = 3_000
SMALL = PartsConfig(above_bytes=1_000)


class ByKey(ProcessingFunction[dict[str, Any]]):
    """Counts by key in one long window."""

    counts = WCRDT(MapOf[int, int, int](GCounter()), Tumbling(1_000_000))

    def process(self, event: dict[str, Any], ctx: Context) -> None:
        self.counts.insert((event["key"], 1), event["ts"])


class Saved:
    """A partition whose checkpoints are saved one after the other."""

    def __init__(self, config: PartsConfig = SMALL, keys: int = KEYS) -> None:
        source: Source[dict[str, Any]] = Source("in", Json(dict[str, Any]), timestamp=lambda event: event["ts"])
        self.test = JobTestDriver(Job("by-key", source, ByKey, output="out"))
        self.parts = CheckpointParts(config)
        self.files: dict[str, bytes] = {}
        self.feed(range(keys))

    def feed(self, keys: Any) -> None:
        self.test.feed(0, *[{"key": key, "ts": 5} for key in keys])

    def save(self, *keys: int) -> Begun:
        self.feed(keys)
        (task,) = self.test.tasks
        task.take_delta()
        begun = self.parts.begin(task)
        name = f"file {len(self.files)}"
        self.files[name] = self.parts.encoded(begun, begun.snapshot)
        self.parts.stored(begun, name, task)
        return begun

    def restored(self) -> bytes:
        data = list(self.files.values())[-1]
        fresh = self.test.new_task(0, 1)
        fresh.restore(snapshot_of(data, [self.files[name] for name in rests_on(data)]))
        return fresh.snapshot().to_bytes()

    def now(self) -> bytes:
        return self.test.tasks[0].snapshot().to_bytes()


def numbers(begun: Begun) -> list[int]:
    return [int(name.split()[1]) for name in begun.rests_on]


def test_a_small_state_has_whole_checkpoints_in_one_file() -> None:
    saved = Saved(keys=3)
    made = [saved.save(key) for key in range(4)]
    assert [(each.copies, each.rests_on, each.collects) for each in made] == [(1, [], False)] * 4


def test_the_second_whole_checkpoint_of_a_large_state_is_what_parts_rest_on() -> None:
    saved = Saved()
    first, base, part = saved.save(1), saved.save(2), saved.save(3)
    assert (first.copies, first.collects) == (1, False)
    assert (base.copies, base.collects) == (KEPT_CHECKPOINTS, True)
    assert (numbers(part), part.copies) == ([1], 1)
    sizes = [len(data) for data in saved.files.values()]
    assert sizes[2] < sizes[1] / 5


def test_a_partition_that_begins_with_a_large_checkpoint_has_parts_after_one_whole() -> None:
    saved = Saved()
    saved.parts.restored(2_000)
    assert saved.save(1).collects
    assert numbers(saved.save(2)) == [0]


def test_a_part_rests_on_few_others_and_what_is_rested_on_has_copies() -> None:
    saved = Saved(PartsConfig(above_bytes=1_000, most_times=100))
    saved.parts.restored(2_000)
    made = [saved.save(number) for number in range(9)]
    assert [numbers(each) for each in made] == [[], [0], [0], [0, 2], [0], [0, 4], [0, 4], [0, 4, 6], [0]]
    resting = {name for each in made for name in each.rests_on}
    for number, each in enumerate(made):
        assert each.copies == KEPT_CHECKPOINTS or f"file {number}" not in resting


@pytest.mark.slow
def test_each_part_with_what_it_rests_on_is_the_state() -> None:
    saved = Saved(PartsConfig(above_bytes=1_000, most_times=100))
    saved.parts.restored(2_000)
    for number in range(70):
        saved.save(number, number, 7)
        assert saved.restored() == saved.now()


def test_so_many_parts_follow_a_whole_checkpoint() -> None:
    saved = Saved(PartsConfig(above_bytes=1_000, most=3, most_times=100))
    saved.parts.restored(2_000)
    assert [len(saved.save(number).rests_on) > 0 for number in range(9)] == [False, True, True, True] * 2 + [False]


@pytest.mark.slow
def test_a_whole_checkpoint_is_due_when_parts_have_cost_as_much() -> None:
    saved = Saved(PartsConfig(above_bytes=1_000, most_times=1, most_share=10))
    saved.parts.restored(2_000)
    wholes = [not saved.save(*range(KEYS // 2)).rests_on for _ in range(6)]
    assert wholes == [True, False, False, True, False, False]


@pytest.mark.slow
def test_where_all_changes_many_whole_checkpoints_follow_and_nothing_is_collected() -> None:
    saved = Saved(PartsConfig(above_bytes=1_000, pause=4))
    saved.parts.restored(2_000)
    made = [saved.save(*range(KEYS)) for _ in range(8)]
    assert [bool(each.rests_on) for each in made] == [False, True, *[False] * 5, True]
    assert [each.copies for each in made] == [KEPT_CHECKPOINTS, 1, 1, 1, 1, 1, KEPT_CHECKPOINTS, 1]


def test_a_standby_collects_nothing() -> None:
    saved = Saved()
    saved.parts.restored(2_000)
    saved.save(1)
    saved.parts.stop(saved.test.tasks[0])
    assert saved.save(2).rests_on == []


def test_an_owner_that_is_one_again_begins_with_a_whole_checkpoint() -> None:
    node = running(parts=PartsConfig(above_bytes=0), replicas=2, checkpoint_interval_ms=0)
    runner = node.node.work.runners[0]
    runner.become_standby(PartitionStandby(Patience.of(30, 0, 1), 1, ResultPace()))
    assert runner.pending is None


def test_a_part_without_what_it_rests_on_is_refused() -> None:
    saved = Saved()
    for number in range(5):
        saved.save(number)
    whole, *_, last = list(saved.files.values())[1:]
    with pytest.raises(DecodeError, match="snapshot of version 4"):
        snapshot_of(last)  # as a release does that knows no parts
    with pytest.raises(DecodeError, match="goes on from"):
        snapshot_of(last, [whole])
    with pytest.raises(DecodeError, match="a part of version 3"):
        snapshot_of(last, [whole, whole])
    with pytest.raises(DecodeError, match="damaged"):
        snapshot_of(last[:-3], [whole])
    assert rests_on(whole) == rests_on(b"") == rests_on(b"\xc1") == []


@pytest.mark.parametrize("kind", [OwnTrack, PrivateTrack])
def test_a_part_has_no_inserts_that_were_taken_back(kind: type[OwnTrack]) -> None:
    track, window = kind(RECORD_START, {"s": MapOf(GCounter())}), Window(0, 10)
    track.insert("s", window, ("kept", 1), 2)
    track.collect()
    for number in range(3):
        track.keep()
        track.insert("s", window, ("taken back", 1), 2)
        track.roll_back()
        track.insert("s", window, (number, 1), 2)
        track.position = (number + 1, 0)
        track.take_delta()
    fresh = kind(RECORD_START, track.bottoms)
    for change in track.part(0).delta.changes:
        value = track.bottoms["s"].from_wire(msgspec.msgpack.decode(msgspec.msgpack.encode(change.wire)))
        fresh.take("s", window, value)
    assert sorted(fresh.contributions["s"][window].value, key=str) == [0, 1, 2, "kept"]


def test_a_part_has_all_of_a_window_that_was_sent_whole_and_changed_again() -> None:
    track, window = OwnTrack(RECORD_START, {"s": MapOf(GCounter())}), Window(0, 10)
    track.apart = frozenset("s")
    track.collect()
    for number, waits in enumerate([True, False, False]):
        track.insert("s", window, (number, 1), 2)
        track.take_delta(waits=waits)
    (change,) = track.part(0).delta.changes
    wire = msgspec.msgpack.decode(msgspec.msgpack.encode(change.wire))
    assert sorted(track.bottoms["s"].from_wire(wire).value) == [0, 1, 2]


# --- the control topic ------------------------------------------------------------------------------------------------


def part_saved(node: str, version: int, offset: int, **changes: Any) -> m.PartSaved:
    below = named(m.CheckpointSaved(0, node, 0, version, "below", 5, 0, 0)).name
    made = named(m.CheckpointSaved(0, node, 0, version, f"at {offset}", offset, 0, 0))
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    return m.PartSaved(**{**fields, "rests_on": (below,), **changes})


def owned() -> Ownership:
    job = count_job()
    fold = Ownership(1)
    for message in (m.JobStarted(0, job.fingerprint(), 1), m.Hello(0, "a"), m.Hello(0, "b"), m.Claim(0, "a", 0, 1)):
        fold.apply(message)
    return fold


def test_a_part_counts_under_the_newest_claim_alone() -> None:
    fold = owned()
    assert fold.apply(part_saved("a", 1, 10))
    fold.apply(m.Claim(0, "b", 0, 2))
    assert not fold.apply(part_saved("a", 1, 20))
    assert fold.apply(named(m.CheckpointSaved(0, "a", 0, 1, "whole", 20, 0, 0)))
    assert fold.apply(part_saved("b", 2, 30))


def test_a_part_with_a_wrong_name_below_it_does_not_count() -> None:
    fold = owned()
    later = named(m.CheckpointSaved(0, "a", 0, 1, "later", 99, 0, 0)).name
    other = named(m.CheckpointSaved(0, "a", 1, 1, "other", 5, 0, 0)).name
    for below in ("nonsense", later, other):
        assert not fold.apply(part_saved("a", 1, 10, rests_on=(below,)))
    assert fold.apply(part_saved("a", 1, 10))


def test_older_releases_stop_at_a_part_and_read_whole_ones() -> None:
    part = part_saved("a", 1, 10)
    assert (part.format, m.encode(part)[0]) == (m.PARTS_VERSION, m.PARTS_VERSION)
    assert m.decode_control(m.encode(part)) == part
    whole = named(m.CheckpointSaved(0, "a", 0, 1, "whole", 20, 0, 0))
    assert m.encode(whole)[0] == m.FIRST_VERSION
    fold = owned()
    for saved, version in ((whole, m.FIRST_VERSION), (part_saved("a", 1, 30), m.PARTS_VERSION)):
        assert fold.apply(saved)
        written = encode_control_checkpoint(ControlCheckpoint(3, fold.snapshot()))
        assert written[0] == version
        again = Ownership.restored(decode_control_checkpoint(written).state)
        assert again.digest() == fold.digest()
