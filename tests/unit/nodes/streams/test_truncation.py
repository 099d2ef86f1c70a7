"""A log that has lost its end: what nodes say, and that a restart says it again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import pytest

from nodes.log.contract import FetchedRecords, LogTruncated, OffsetOutOfRange, TopicPartition
from nodes.log.memory import MemoryLog
from nodes.machine.config import JobRun, NodeConfig
from nodes.machine.control_state import ControlCheckpoint, encode_control_checkpoint
from nodes.machine.effects import Ending, ReadTail
from nodes.machine.messages import SlotSent, SlotWanted, decode_broadcast, encode
from nodes.machine.node import Node
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.control_history import JobControlHistory
from nodes.streams.driver import Driver
from nodes.streams.io.output_identities import read_tail
from nodes.streams.jobs import JobTopics, declare_end, open_job
from nodes.streams.truncation import PATIENCE_MS
from tests.unit.node_dialogue import count_job

TURNS = 2000


class HeldBack(MemoryLog):
    """The same log with an open transaction of somebody else on one topic: what lies behind it is not read yet."""

    def __init__(self, log: MemoryLog, topic: str, end: int) -> None:
        self.__dict__.update(log.__dict__)
        self.held = TopicPartition(topic, 0)
        self.end = end

    def end_offset(self, topic: str, partition: int) -> int:
        end = super().end_offset(topic, partition)
        return min(end, self.end) if (topic, partition) == self.held else end

    def high_watermark(self, topic: str, partition: int) -> int:
        return super().end_offset(topic, partition)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        if (topic, partition) == self.held and offset > self.end:
            raise OffsetOutOfRange(f"{topic}: {offset} is beyond {self.end}")
        if (topic, partition) == self.held:
            max_records = min(max_records, self.end - offset)
        chunk = super().read(topic, partition, offset, max_records=max(max_records, 1), max_bytes=max_bytes)
        return (
            chunk if max_records else FetchedRecords(chunk.offsets[:0], chunk.timestamps_ms[:0], [], [], None, offset)
        )


class Rotten(MemoryLog):
    """The same log, of which one record cannot be decoded, as often as it is read so many ``times``."""

    def __init__(self, log: MemoryLog, where: TopicPartition, offset: int, times: float = math.inf) -> None:
        self.__dict__.update(log.__dict__)
        self.where, self.rotten, self.times = where, offset, times

    def read(self, topic: str, partition: int, offset: int, **limits: int) -> FetchedRecords:
        chunk = super().read(topic, partition, offset, **limits)
        if (topic, partition) != self.where:
            return chunk
        read = [int(at) for at in chunk.offsets]
        self.times -= self.rotten in read
        values = [
            b"rotten" if at == self.rotten and self.times >= 0 else value
            for at, value in zip(read, chunk.values, strict=True)
        ]
        return msgspec.structs.replace(chunk, values=values)


class Fleet:
    """Nodes one after the other on one log and one store."""

    def __init__(self, partitions: int = 1) -> None:
        self.now_ms = 0
        self.log = MemoryLog()
        self.store = MemoryCheckpoints()
        self.log.create_topic("in", partitions)
        self.run: JobRun = open_job(self.log, count_job())
        self.topics = JobTopics.of(self.run)
        self.born = 0
        self.max_ahead_ms = 0
        self.checkpoint_interval_ms = 10

    def node(self) -> Driver:
        self.born += 1
        config = NodeConfig(
            node=f"n{self.born}", expect_ms=0, checkpoint_interval_ms=self.checkpoint_interval_ms,
            failure_timeout_ms=50, max_watermark_drift_ms=self.max_ahead_ms,
        )  # fmt: skip
        history = JobControlHistory(self.log, self.run.job)
        node = Node(config, self.run, history.ownership)
        return Driver(node, self.log, self.store, lambda: self.now_ms, control_at=history.offset)

    def turn(self, driver: Driver, done: Callable[[], bool]) -> None:
        self.turn_all([driver], lambda: done() or driver.node.left is not None)

    def turn_all(self, drivers: Sequence[Driver], done: Callable[[], bool]) -> None:
        for _ in range(TURNS):
            if done():
                return
            self.now_ms += 5
            for driver in drivers:
                if driver.node.left is None:
                    driver.turn()
        raise AssertionError("nothing happens")

    def feed(self, count: int) -> None:
        self.log.append("in", 0, [b'{"ts": %d}' % (10 * n) for n in range(count)])

    def saved(self, offset: int) -> Callable[[], bool]:
        def done() -> bool:
            kept = JobControlHistory(self.log, self.run.job).ownership.checkpoint(0)
            return kept is not None and kept.offset >= offset

        return done


def brings(value: bytes) -> tuple[int, int] | None:
    """From which input offset to which a broadcast message brings the slot."""
    message = decode_broadcast(value)
    record = message.delta.record if isinstance(message, SlotSent) else None
    return None if record is None else (record.since[0], record.to[0])


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def worked(fleet: Fleet, records: int = 30) -> Driver:
    driver = fleet.node()
    fleet.feed(records)
    fleet.turn(driver, fleet.saved(records))
    return driver


def refused_again(fleet: Fleet) -> str:
    """The next life leaves as failed; its reason."""
    driver = fleet.node()
    fleet.turn(driver, lambda: False)
    assert driver.node.left is not None and driver.node.left.ending is Ending.FAILED
    return driver.node.left.reason


def test_a_running_node_names_the_input_that_lost_its_end_and_so_does_the_next_one_though_it_grew_again(
    fleet: Fleet,
) -> None:
    driver = worked(fleet)
    fleet.log.truncate("in", 0, 20)
    with pytest.raises(LogTruncated, match=r"input in\[0\] has lost its end.*up to offset 30.*--reset"):
        fleet.turn(driver, lambda: False)
    fleet.feed(50)
    assert "input in[0] has lost its end" in refused_again(fleet)


def test_an_input_that_lost_its_end_while_no_node_ran_is_named_where_the_checkpoint_stands(fleet: Fleet) -> None:
    worked(fleet)
    fleet.log.truncate("in", 0, 20)
    with pytest.raises(LogTruncated, match=r"input in\[0\] has lost its end"):
        fleet.turn(fleet.node(), lambda: False)


def test_an_input_that_lost_its_end_and_grew_again_while_no_node_ran_is_named(fleet: Fleet) -> None:
    driver = worked(fleet)
    assert driver.node.left is None
    fleet.log.truncate("in", 0, 20)
    fleet.feed(50)
    before = fleet.log.end_offset(fleet.topics.outputs["main"], 0)
    with pytest.raises(LogTruncated, match=r"in\[0\] has lost its end, and holds another record at offset 29.*--reset"):
        fleet.turn(fleet.node(), lambda: False)
    assert fleet.log.end_offset(fleet.topics.outputs["main"], 0) == before, "nothing is made from the other records"
    assert "holds another record at offset 29" in refused_again(fleet)


def test_an_input_that_is_whole_is_gone_on_with_also_where_its_beginning_was_deleted(fleet: Fleet) -> None:
    worked(fleet)
    fleet.log.append("in", 0, [b'{"ts": 1000}'])
    fleet.turn(fleet.node(), fleet.saved(31))
    fleet.log.delete_before("in", 0, 31)
    fleet.log.append("in", 0, [b'{"ts": 2000}'])
    fleet.turn(fleet.node(), fleet.saved(32))


def test_an_input_that_lost_its_end_is_named_at_once_though_it_waits_for_another_partition() -> None:
    """A node that waited read nothing, and went on behind the records that had overgrown the loss."""
    fleet = Fleet(partitions=2)
    fleet.log.append("in", 1, [b'{"ts": 0}'])
    worked(fleet)
    fleet.max_ahead_ms = 100
    fleet.log.truncate("in", 0, 20)
    driver = fleet.node()
    with pytest.raises(LogTruncated, match=r"input in\[0\] has lost its end, and ends at 20; .* goes on at offset 30"):
        fleet.turn(driver, lambda: driver.node.work.wanted() != [])


def test_an_input_is_asked_for_although_every_checkpoint_that_reached_so_far_is_gone(fleet: Fleet) -> None:
    worked(fleet)
    fleet.store.files.clear()
    fleet.log.truncate("in", 0, 20)
    with pytest.raises(LogTruncated, match=r"input in\[0\] has lost its end, and ends at 20.*up to offset 30"):
        fleet.turn(fleet.node(), lambda: False)


def lost_beside_a_rotten_delta(fleet: Fleet, rotten: tuple[int, int], end: int, times: float = math.inf) -> None:
    """Three deltas without a checkpoint; nobody can read the one that brings this; then the input ends here."""
    fleet.checkpoint_interval_ms = 10 * TURNS
    driver = fleet.node()
    for reached in (10, 20, 30):
        fleet.feed(10)
        fleet.turn(driver, lambda reached=reached: driver.node.replica.slots[0].record.position[0] == reached)
    broadcast = TopicPartition(fleet.topics.broadcast, 0)
    written = fleet.log.read(*broadcast, 0)
    (place,) = [at for at, value in enumerate(written.values) if brings(value) == rotten]
    fleet.log.truncate("in", 0, end)
    fleet.log = Rotten(fleet.log, broadcast, place, times)


def test_an_input_is_asked_for_although_only_deltas_behind_a_damaged_one_reach_so_far(fleet: Fleet) -> None:
    lost_beside_a_rotten_delta(fleet, (10, 20), end=15)
    with pytest.raises(LogTruncated, match=r"input in\[0\] has lost its end, and ends at 15.*up to offset 30"):
        fleet.turn(fleet.node(), lambda: False)


def test_an_input_is_asked_for_although_the_only_delta_that_reaches_so_far_was_damaged_on_the_way(fleet: Fleet) -> None:
    lost_beside_a_rotten_delta(fleet, (20, 30), end=20, times=3)
    with pytest.raises(LogTruncated, match=r"input in\[0\] has lost its end, and ends at 20.*up to offset 30"):
        fleet.turn(fleet.node(), lambda: False)


def test_an_input_is_asked_for_although_only_the_request_of_another_node_reaches_so_far(fleet: Fleet) -> None:
    lost_beside_a_rotten_delta(fleet, (20, 30), end=20)
    driver = fleet.node()
    fleet.turn(driver, lambda: driver.node.work.wanted() != [])
    request = SlotWanted(fleet.run.incarnation, "another", 0, 30)
    fleet.log.append(fleet.topics.control, 0, [encode(request)])
    with pytest.raises(LogTruncated, match=r"input in\[0\] has lost its end, and ends at 20.*up to offset 30"):
        fleet.turn(driver, lambda: False)


def test_a_declared_end_that_is_no_longer_there_is_not_waited_for(fleet: Fleet) -> None:
    fleet.feed(30)
    declare_end(fleet.log, fleet.run)
    fleet.log.truncate("in", 0, 20)
    with pytest.raises(LogTruncated, match=r"ends at 20.*up to offset 30"):
        fleet.turn(fleet.node(), lambda: False)


@pytest.mark.slow
def test_a_declared_end_that_is_still_to_come_is_waited_for(fleet: Fleet) -> None:
    driver = fleet.node()
    fleet.feed(10)
    declare_end(fleet.log, fleet.run, [30])
    for _ in range(2 * PATIENCE_MS):
        fleet.now_ms += 1
        driver.turn()
    fleet.feed(20)
    fleet.turn(driver, lambda: False)
    assert driver.node.left is not None and driver.node.left.ending is Ending.DONE


def test_results_that_are_gone_are_missed_by_whoever_goes_on_from_a_checkpoint(fleet: Fleet) -> None:
    worked(fleet)
    results = fleet.topics.outputs["main"]
    assert fleet.log.end_offset(results, 0) > 0
    fleet.log.truncate(results, 0, 0)
    with pytest.raises(LogTruncated, match=r"\[0\] ends at 0.*--reset"):
        fleet.turn(fleet.node(), lambda: False)
    assert "ends at 0" in refused_again(fleet)


def test_results_that_came_after_a_snapshot_and_before_it_was_saved_are_missed(fleet: Fleet) -> None:
    driver = worked(fleet)
    results = fleet.topics.outputs["main"]
    end = fleet.log.end_offset(results, 0)
    wish = ReadTail(0, 1, {"main": {0: end - 2}}, {"main": {0: end}})
    assert read_tail(fleet.log, fleet.topics, fleet.run, wish, driver.truncation).ends["main", 0] == end
    fleet.log.truncate(results, 0, end - 1)
    with pytest.raises(LogTruncated, match=rf"ends at {end - 1}, and the job has known it up to offset {end}"):
        read_tail(fleet.log, fleet.topics, fleet.run, wish, driver.truncation)


def test_results_that_are_gone_are_missed_by_who_wrote_them_at_the_next_one(fleet: Fleet) -> None:
    driver = worked(fleet)
    fleet.log.truncate(fleet.topics.outputs["main"], 0, 0)
    fleet.log.append("in", 0, [b'{"ts": 100000}'])
    with pytest.raises(LogTruncated, match=r"acknowledged up to offset \d+, and then"):
        fleet.turn(driver, lambda: False)


def test_a_control_topic_that_lost_its_end_is_named_by_who_had_read_it(fleet: Fleet) -> None:
    driver = worked(fleet)
    control = TopicPartition(fleet.topics.control, 0)
    end = fleet.log.end_offset(*control)
    fleet.turn(driver, lambda: driver.waits_for()[control] == end)
    fleet.log.truncate(*control, end - 1)
    with pytest.raises(LogTruncated, match=rf"control\[0\] ends at {end - 1}.*up to offset {end}"):
        fleet.turn(driver, lambda: False)
    assert "control[0] ends at" in refused_again(fleet)


def test_results_behind_an_open_transaction_are_not_taken_for_lost(fleet: Fleet) -> None:
    worked(fleet)
    results = fleet.topics.outputs["main"]
    fleet.log = HeldBack(fleet.log, results, fleet.log.end_offset(results, 0) - 1)
    driver = fleet.node()
    fleet.feed(10)
    declare_end(fleet.log, fleet.run)
    fleet.turn(driver, lambda: False)
    assert driver.node.left is not None and driver.node.left.ending is Ending.DONE


def test_a_checkpoint_of_more_of_the_control_topic_than_there_is_is_named(fleet: Fleet) -> None:
    worked(fleet)
    control, checkpoints = fleet.topics.control, fleet.topics.control_checkpoints
    end = fleet.log.end_offset(control, 0)
    history = JobControlHistory(fleet.log, fleet.run.job)
    saved = ControlCheckpoint(history.offset, history.ownership.snapshot())
    fleet.log.create_topic(checkpoints, 1)
    fleet.log.append(checkpoints, 0, [encode_control_checkpoint(saved)])
    fleet.log.truncate(control, 0, end - 1)
    with pytest.raises(LogTruncated, match=rf"ends at offset {end - 1}, and was known up to {end}"):
        fleet.node()


def test_a_broadcast_that_lost_its_end_is_made_good(fleet: Fleet) -> None:
    driver = worked(fleet)
    fleet.log.truncate(fleet.topics.broadcast, 0, 1)
    fleet.feed(10)
    declare_end(fleet.log, fleet.run)
    fleet.turn(driver, lambda: False)
    assert driver.node.left is not None and driver.node.left.ending is Ending.DONE
    driver.finish()


def test_a_node_that_had_read_what_the_broadcast_has_lost_reads_it_again() -> None:
    fleet = Fleet(2)
    drivers = [fleet.node(), fleet.node()]
    nodes = [driver.node for driver in drivers]
    fleet.turn_all(drivers, lambda: all(len(node.work.running()) == 1 for node in nodes))
    own = nodes[0].work.running()[0].partition
    for number in range(20):  # a delta for each
        for partition in range(2):
            fleet.log.append("in", partition, [b'{"ts": %d}' % (10 * number)])
        fleet.turn_all(drivers, lambda n=number: {s.record.position[0] for s in nodes[1].replica.slots} == {n + 1})
    declare_end(fleet.log, fleet.run)
    began_ms = fleet.now_ms
    fleet.log.truncate(fleet.topics.broadcast, own, 1)
    fleet.turn_all(drivers, lambda: all(node.left is not None for node in nodes))
    assert [node.left and node.left.ending for node in nodes] == [Ending.DONE] * 2
    assert fleet.now_ms - began_ms < 40, "it waited until as much was written again as was lost"
