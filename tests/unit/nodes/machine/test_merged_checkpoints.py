"""Merged checkpoints: who makes one and when, what is in it, and what becomes of it on another node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast.merged_checkpoints import decode_merged
from nodes.machine.control_state import decode_control_checkpoint
from nodes.machine.ownership.ownership import Ownership
from tests.unit.checkpoint_names import named, named_merged
from tests.unit.node_dialogue import Dialogue, joined, running
from wcrdt.replica.replica import SlotDelta

EVERY_MS = 100


def merging(partitions: int = 2, **settings: Any) -> Dialogue:
    """A node that owns all partitions and has read something of each broadcast."""
    node = running(partitions=partitions, merged_checkpoint_interval_ms=EVERY_MS, **settings)
    for partition in range(partitions):
        node.records(partition, 1, 0, {"ts": 5 + partition})
        read(node, partition, 7 + partition)
    return node


def read(node: Dialogue, partition: int, next_offset: int) -> None:
    """The broadcast of a partition was read up to here, without news."""
    node.step(e.BroadcastRead(partition, [], next_offset, next_offset), "broadcast")


def saved(node: Dialogue, passed_ms: int = EVERY_MS) -> list[x.SaveMerged]:
    node.tick(passed_ms)
    return made(node)


def made(node: Dialogue) -> list[x.SaveMerged]:
    """Those of the last step."""
    return [effect for effect in node.effects if isinstance(effect, x.SaveMerged)]


def filled(node: Dialogue, partition: int) -> None:
    """The full slot of a partition with a gap has been asked for, and has arrived."""
    assert partition in node.node.gaps.due(node.node.ownership, 1 << 40)
    assert node.node.gaps.full_slot(partition) and not node.node.gaps.has(partition)


def record(node: Dialogue, save: x.SaveMerged, name: str = "merged") -> list[x.Effect]:
    """It is stored, and read back from the control topic."""
    name = named_merged(m.MergedSaved(0, "a", name, save.control_offset, save.broadcast_offsets)).name
    node.step(e.MergedStored(name, save.control_offset, save.broadcast_offsets), "merged stored")
    values = [effect.value for effect in node.effects if isinstance(effect, x.WriteControl)]
    return node.step(e.ControlRead(values, True, True, 40), "control")


def test_one_is_due_when_the_interval_is_over_and_something_has_moved() -> None:
    node = merging()
    (save,) = saved(node)
    assert save.broadcast_offsets == [7, 8]
    assert saved(node) == []  # on its way
    record(node, save)
    assert saved(node, 10 * EVERY_MS) == []  # nothing new
    read(node, 1, 9)
    (again,) = made(node)
    assert again.broadcast_offsets == [7, 9]


def test_without_an_interval_there_is_none() -> None:
    node = merging()
    node.node.merging.config = running().node.config  # merged_checkpoint_interval_ms is 0
    assert saved(node, 10**6) == []


def test_it_holds_what_the_replica_holds() -> None:
    node = merging()
    (save,) = saved(node)
    slots = decode_merged(save.data, 0, 2)
    assert slots == [node.node.replica.full(partition) for partition in range(2)]
    other = joined("b", partitions=2)
    other.step(e.MergedLoaded(slots, save.broadcast_offsets), "merged loaded")
    assert [other.node.replica.full(p) for p in range(2)] == slots
    assert other.node.replica.frontier_ms == node.node.replica.frontier_ms
    assert other.node.merging.broadcast_at == [7, 8]


def test_the_makers_take_turns() -> None:
    ownership = Ownership(2)
    history = [m.JobStarted(0, "f", 2), *(m.Hello(0, n) for n in "ab"), m.Claim(0, "a", 0, 1), m.Claim(0, "b", 1, 1)]
    for message in history:
        ownership.apply(message)
    maker = running().node.merging.maker
    makers = []
    for count in range(4):
        makers.append(maker(ownership))
        ownership.apply(named_merged(m.MergedSaved(0, "a", f"name{count}", count, [count, count])))
    assert makers == ["a", "b", "a", "b"]


def test_nobody_waits_for_the_turn_of_another() -> None:
    node = joined("a", 2, ["b"], merged_checkpoint_interval_ms=EVERY_MS)
    node.control(m.Claim(0, "b", 0, 1), m.Claim(0, "a", 1, 1))  # the first turn is b's
    node.run_partition(1, 1)
    read(node, 1, 5)
    for _ in range(5):
        node.heartbeat("b")
        assert saved(node) == []


def test_a_slot_with_a_gap_is_waited_for() -> None:
    node = merging()
    node.node.gaps.noticed(1)
    assert saved(node) == []
    filled(node, 1)
    (save,) = saved(node, 10)
    assert len(decode_merged(save.data, 0, 2)) == 2


def test_what_is_read_again_is_not_mixed_with_what_was_taken_before() -> None:
    node = merging()
    node.node.gaps.noticed(1)
    assert saved(node) == []  # slot 0 is taken, slot 1 is not
    node.node.merging.rewound(0)
    filled(node, 1)
    read(node, 0, 3)
    (save,) = made(node)
    assert save.broadcast_offsets == [3, 8]


def test_its_maker_writes_the_fold_down_when_it_reads_it_back() -> None:
    node = merging(trims=True)
    (save,) = saved(node)
    (write,) = [effect for effect in record(node, save) if isinstance(effect, x.WriteControlCheckpoint)]
    assert write.trims
    control = decode_control_checkpoint(write.value)
    assert control.offset == 40
    restored = Ownership.restored(control.state)
    assert restored.digest() == node.node.ownership.digest()
    expected = named_merged(m.MergedSaved(0, "a", "merged", save.control_offset, save.broadcast_offsets))
    assert [saved.name for saved in restored.merged()] == [expected.name]


def test_one_that_is_not_intact_is_not_recorded_and_another_is_made() -> None:
    node = merging()
    (save,) = saved(node)
    node.step(e.MergedStored(None, save.control_offset, save.broadcast_offsets), "not intact")
    assert not [effect for effect in node.effects if isinstance(effect, x.WriteControl)]
    assert len(saved(node)) == 1


def test_only_the_newest_three_are_known_and_none_goes_back() -> None:
    ownership = Ownership(1)
    ownership.apply(m.JobStarted(0, "f", 1))
    for number in range(5):
        assert ownership.apply(named_merged(m.MergedSaved(0, "a", f"n{number}", number, [number])))
    assert [found.control_offset for found in ownership.merged()] == [4, 3, 2]
    assert ownership.apply(named_merged(m.MergedSaved(0, "a", "behind", 9, [3]))) == []
    assert ownership.apply(named_merged(m.MergedSaved(0, "a", "behind", 3, [9]))) == []
    assert ownership.apply(named_merged(m.MergedSaved(0, "a", "of other partitions", 9, [9, 9]))) == []
    assert ownership.merged_count == 5


@pytest.mark.parametrize("incarnation, partitions", [(1, 2), (0, 1), (0, 3)])
def test_one_of_another_run_is_refused(incarnation: int, partitions: int) -> None:
    (save,) = saved(merging())
    with pytest.raises(m.BadMessage):
        decode_merged(save.data, incarnation, partitions)
    with pytest.raises(m.BadMessage):
        decode_merged(save.data[:-1], 0, 2)


class TestHistoryThatIsGone:
    """A node owns a partition that it would have to replay from the start, and windows of the others were dropped."""

    def rewound(self) -> Dialogue:
        node = running(partitions=2)
        slots = [replace(node.node.replica.full(p), p) for p in range(2)]
        node.step(e.MergedLoaded(slots, [50, 50], rewound=True), "merged loaded")
        assert not node.node.work.runners  # nothing is answered from what has holes
        node.take()
        return node

    def test_the_node_gives_up_once_it_knows_that_nothing_helps(self) -> None:
        node = self.rewound()
        node.control()
        assert "leave: failed (node a: no checkpoint of partition 0 is intact" in node.take()

    def test_it_begins_anew_where_there_is_a_newer_checkpoint_and_lets_go_of_what_is_anothers(self) -> None:
        node = self.rewound()
        newer = named(m.CheckpointSaved(0, "b", 0, 1, "newer", 9, 500, 400))
        node.control(newer, m.Claim(0, "b", 1, 2))
        assert f"load [0] v1 ['{newer.name}']" in node.take()
        assert node.node.left is None


def replace(full: SlotDelta, partition: int) -> SlotDelta:
    """The slot as it is later, without the windows that end at or before 300."""
    assert full.record is not None
    record = msgspec.structs.replace(full.record, to=(9, 0), watermark_ms=500)
    return msgspec.structs.replace(full, partition=partition, record=record, dropped_through_ms=300)


class TestLeaving:
    def test_who_is_asked_to_stop_says_so_before_it_hands_over(self) -> None:
        node = running(partitions=1)
        node.records(0, 1, 0, {"ts": 5})
        node.take()
        node.step(e.StopRequested(), "stop")
        assert "write control: Leaving" in node.take()

    def test_what_it_hands_over_is_claimed_while_it_still_drains(self) -> None:
        node = joined("a", 2, ["b"])
        node.control(m.Claim(0, "b", 0, 1), m.Claim(0, "b", 1, 1), m.Leaving(0, "b"))
        assert not [effect for effect in node.effects if isinstance(effect, x.WriteControl)]  # nobody steals
        node.take()
        node.control(m.Release(0, "b", 0, 1))
        assert "write control: Claim a [0] v2" in node.take()

    def test_the_dead_are_forgotten_and_a_zombie_joins_anew(self) -> None:
        node = joined("a", 1, ["b"], forget_after_ms=1000, failure_timeout_ms=100)
        node.read_back()  # its claim
        node.run_partition(0, 1)
        node.take()
        for _ in range(150):
            node.control()
        assert node.take().count("Goodbye b") == 1
        node.control(m.Goodbye(0, "b"))
        assert set(node.node.ownership.members) == {"a"}
        node.control(m.Goodbye(0, "a"))  # others took this node for dead
        assert "write control: Hello a" in node.take()
