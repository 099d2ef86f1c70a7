"""How far partitions may be apart: fast ones wait; and what was read once is read again."""

from __future__ import annotations

from nodes.checkpoints.file_names import CheckpointKey
from nodes.log.memory import MemoryLog
from nodes.machine import effects as x
from nodes.machine import messages as m
from nodes.machine.config import NodeConfig
from nodes.machine.node import Node
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.io.partition_checkpoints import Storing
from nodes.streams.jobs import open_job
from tests.unit.checkpoint_names import named
from tests.unit.node_dialogue import Dialogue, count_job, joined, running


def wanted(node: Dialogue) -> list[int]:
    return [wish.partition for wish in node.node.wanted()]


def test_a_partition_far_ahead_of_another_waits_for_it() -> None:
    node = running(partitions=2, max_watermark_drift_ms=50)
    node.records(1, 1, 0, {"ts": 0})
    node.records(0, 1, 0, {"ts": 50})
    assert wanted(node) == [1, 0]
    node.records(0, 1, 1, {"ts": 51})
    assert wanted(node) == [1]
    node.records(1, 1, 1, {"ts": 1})
    assert wanted(node) == [1, 0]


def test_a_partition_that_never_had_a_record_holds_nobody_up() -> None:
    node = running(partitions=2, max_watermark_drift_ms=50)
    node.records(0, 1, 0, {"ts": 1000})
    assert wanted(node) == [1, 0]


def test_a_partition_far_ahead_reads_again_what_its_former_owner_has_read_and_no_further() -> None:
    """Others have those records, and would request them from this owner for as long as it waits."""
    former = running("b", partitions=2, max_watermark_drift_ms=50)
    deltas = [
        effect.value
        for offset, ts in enumerate((100, 200, 300))
        for effect in former.records(0, 1, offset, {"ts": ts})
        if isinstance(effect, x.WriteBroadcast)
    ]
    node = running(partitions=2, max_watermark_drift_ms=50)
    node.records(1, 1, 0, {"ts": 0})
    node.records(0, 1, 0, {"ts": 100})
    assert wanted(node) == [1]
    node.broadcast(0, *deltas)
    assert [(wish.partition, wish.limit) for wish in node.node.wanted()] == [(1, None), (0, 3)]
    node.control(m.EndOfInput(0, 0, 2))
    assert [(wish.partition, wish.limit) for wish in node.node.wanted()] == [(1, None), (0, 2)]
    node.records(0, 1, 1, {"ts": 200})
    assert wanted(node) == [1]


def test_damaged_and_missing_checkpoints_are_passed_over_for_an_older_one() -> None:
    log, job, store = MemoryLog(), count_job(), MemoryCheckpoints()
    log.create_topic("in", 1)
    run = open_job(log, job)
    names = [store.save(CheckpointKey("count", 0, 0, (n, 0), (n, 0)), b"state %d" % n) for n in (1, 2, 3)]
    store.files[names[1]] = store.files[names[1]][:-1]
    del store.files[names[2]]
    reports: list[str] = []
    storing = Storing(store, run, Node(NodeConfig("a"), run).ownership, lambda point: None, reports.append)
    loaded = storing.loading(x.LoadCheckpoint(0, 1, names[::-1]))()
    assert (loaded.name, loaded.data) == (names[0], b"state 1")
    assert len(loaded.problems) == len(reports) == 2


def test_checkpoints_that_were_replaced_while_they_were_loaded_are_no_reason_to_replay() -> None:
    def at(offset: int) -> m.CheckpointSaved:
        return named(m.CheckpointSaved(0, "b", 0, 0, "data", offset, offset, offset))

    def saved(*offsets: int) -> list[m.ControlMessage]:
        return [at(offset) for offset in offsets]

    node = joined(others=["b"])
    node.control(m.Claim(0, "b", 0, 1), *saved(1, 2, 3), m.Claim(0, "a", 0, 2))
    tried = [effect.names for effect in node.effects if isinstance(effect, x.LoadCheckpoint)]
    assert tried == [[at(3).name, at(2).name, at(1).name]]
    node.control(*saved(4))
    again = node.loaded(0, 2, tried=tried[0])
    assert again == [x.LoadCheckpoint(0, 2, [at(4).name, at(3).name, at(2).name])]
    given_up = node.loaded(0, 2, tried=again[0].names)
    assert any(isinstance(effect, x.ReadTail) for effect in given_up), "nothing is left to load"


def test_a_node_reads_no_further_than_the_end_that_its_fleet_will_declare_until_it_knows_the_declared_one() -> None:
    """Records come behind the end before the node reads of it; it took them in, and others did not."""
    node = running(partitions=2, until=(2, 3))

    def limits() -> list[int | None]:
        return [wish.limit for wish in sorted(node.node.wanted(), key=lambda wish: wish.partition)]

    assert limits() == [2, 3]
    node.records(0, 1, 0, {"ts": 0}, {"ts": 1})
    assert wanted(node) == [1] and not node.node.work.runners[0].task.records.ended
    node.control(m.EndOfInput(0, 0, 4), m.EndOfInput(0, 1, 3))
    assert limits() == [4, 3], "an earlier declaration counts"
