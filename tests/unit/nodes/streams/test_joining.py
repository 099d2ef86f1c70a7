"""The shell's work for joining nodes: histories that begin at a checkpoint, merged checkpoints, and trimming."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from nodes.checkpoints import file_names
from nodes.errors import RunFailed, Unreachable
from nodes.fleet.monitor import Monitor
from nodes.log import MemoryLog
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast.merged_checkpoints import SealedSlots
from nodes.machine.config import NodeConfig
from nodes.machine.control_state import ControlCheckpoint, encode_control_checkpoint
from nodes.machine.node import Node
from nodes.sim.store import LateLoader, MemoryCheckpoints
from nodes.streams.control_history import JobControlHistory, control_topic
from nodes.streams.driver import Driver
from nodes.streams.io.fetching import Fetched, Fetching
from nodes.streams.io.joining import FellBehind, Joining
from nodes.streams.jobs import JobTopics, open_history, open_job, read_ownership
from tests.unit.node_dialogue import count_job
from wcrdt.replica.replica import Replica


class Stage:
    """A job with two partitions whose topics have some records, and what a node of it would do."""

    def __init__(self) -> None:
        self.log, self.store, self.reports = MemoryLog(), MemoryCheckpoints(), []
        self.log.create_topic("in", 2)
        self.job = count_job()
        self.run, history = open_history(self.log, self.job)
        self.topics = JobTopics.of(self.run)
        self.ownership, self.control_at = history.ownership, history.offset
        self.joining = Joining(self.log, self.store, self.run, self.ownership, self.reports.append)
        self.fetching = Fetching(self.joining, lambda work: work())

    def write(self, *messages: m.ControlMessage) -> None:
        """To the control topic; this node reads them at once."""
        self.log.append(self.topics.control, 0, [m.encode(message) for message in messages])
        for message in messages:
            self.ownership.apply(message)
        self.control_at += len(messages)

    def grow(self) -> None:
        """Ten records more on every broadcast, and on the control topic."""
        for partition in range(2):
            self.log.append(self.topics.broadcast, partition, [b"delta"] * 10)
        self.write(*(m.Hello(0, f"n{number}") for number in range(10)))

    def merge(self, offsets: list[int] | None = None) -> m.MergedSaved:
        """Save one, record it, write the checkpoint, trim. ``offsets``: where its maker has read to (the ends)."""
        if offsets is None:
            self.grow()
            offsets = [self.log.end_offset(self.topics.broadcast, p) for p in range(2)]
        replica = Replica(2, self.job.program.shapes())
        raw = [raw_slot(replica, p) for p in range(2)]
        data = m.seal(SealedSlots(0, raw), 1 << 20)
        stored = self.joining.saving(x.SaveMerged(self.control_at, 0, offsets, data))()
        assert isinstance(stored, e.MergedStored) and stored.name is not None
        saved = m.MergedSaved(0, "a", stored.name, stored.control_offset, stored.broadcast_offsets)
        self.write(saved)
        checkpoint = ControlCheckpoint(self.control_at, self.ownership.snapshot())
        assert (
            self.joining.writing_control_checkpoint(
                x.WriteControlCheckpoint(encode_control_checkpoint(checkpoint), True)
            )()
            is None
        )
        return saved

    def starts(self) -> list[int]:
        topics = [(self.topics.broadcast, 0), (self.topics.broadcast, 1), (self.topics.control, 0)]
        return [self.log.start_offset(*where) for where in topics]

    def damage(self, saved: m.MergedSaved) -> None:
        self.store.files[saved.name] = self.store.files[saved.name][:-1]


def raw_slot(replica: Replica, partition: int) -> msgspec.Raw:
    return msgspec.Raw(msgspec.msgpack.encode(replica.full(partition)))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_reader_that_begins_at_a_checkpoint_knows_what_one_from_the_start_knows(stage: Stage) -> None:
    stage.merge()
    stage.grow()
    history = JobControlHistory(stage.log, stage.job)
    assert history.since > 0
    assert history.ownership.digest() == stage.ownership.digest()
    stage.log.delete_before(control_topic(stage.job).checkpoints, 0, 1)
    from_start = JobControlHistory(stage.log, stage.job)
    assert from_start.since == 0
    assert from_start.ownership.digest() == stage.ownership.digest()


def test_damaged_checkpoints_are_passed_over(stage: Stage) -> None:
    stage.merge()
    last = stage.merge()
    stage.log.append(stage.topics.control_checkpoints, 0, [b"", b"damage" * 10])
    assert JobControlHistory(stage.log, stage.job).since > last.control_offset
    assert len(control_topic(stage.job).intact_checkpoints(stage.log)) == 2


def test_nothing_is_trimmed_before_there_are_three(stage: Stage) -> None:
    stage.merge()
    stage.merge()
    assert stage.starts() == [0, 0, 0]
    stage.merge()
    assert min(stage.starts()) > 0


def test_topics_are_trimmed_to_what_the_oldest_of_three_needs_and_stay_bounded(stage: Stage) -> None:
    merged = [stage.merge() for _ in range(20)]
    oldest = merged[-3]
    assert stage.starts() == [*oldest.broadcast_offsets, oldest.control_offset]
    assert stage.log.end_offset(stage.topics.control, 0) - stage.starts()[2] < 40
    checkpoints = stage.topics.control_checkpoints
    assert stage.log.end_offset(checkpoints, 0) - stage.log.start_offset(checkpoints, 0) <= 8
    assert len(stage.store.list("count", 0, file_names.MERGED)) <= 4


def test_nothing_is_trimmed_while_one_of_the_three_cannot_be_read(stage: Stage) -> None:
    first = stage.merge()
    stage.damage(first)
    stage.merge()
    stage.merge()
    assert stage.starts() == [0, 0, 0]
    stage.merge()  # the damaged one is no longer among the three
    assert min(stage.starts()) > 0


def test_a_truncated_broadcast_is_trimmed_to_its_end_where_the_checkpoint_names_a_later_offset(stage: Stage) -> None:
    stage.merge()
    newest = stage.merge()
    stage.log.truncate(stage.topics.broadcast, 0, 4)
    stage.log.truncate(stage.topics.broadcast, 1, 0)
    stage.log.append(stage.topics.broadcast, 1, [b"delta"] * 5)
    stage.merge(newest.broadcast_offsets)  # its maker has not read the broadcast since the truncation
    assert stage.reports == []
    assert stage.starts()[:2] == [4, 5]
    assert stage.starts()[2] > 0


def test_who_joins_takes_the_newest_that_is_intact(stage: Stage) -> None:
    merged = [stage.merge() for _ in range(4)]
    stage.damage(merged[-1])
    found = stage.fetching.begin()
    assert found is not None and not found.rewound
    assert found.offsets == merged[-2].broadcast_offsets
    assert any(merged[-1].name in line for line in stage.reports)


def test_who_reads_again_takes_the_oldest_that_is_intact_once_the_start_is_gone(stage: Stage) -> None:
    assert stage.fetching.rewind(None) is None  # the start is there
    merged = [stage.merge() for _ in range(4)]
    found = stage.fetching.rewind(None)
    assert found is not None and found.rewound and found.whole
    assert found.offsets == merged[-3].broadcast_offsets
    one = stage.fetching.rewind(1)
    assert one is not None and not one.whole
    assert [slot.partition for slot in one.slots] == [1]


def test_one_that_cannot_be_read_back_is_not_recorded(stage: Stage) -> None:
    class Torn(MemoryCheckpoints):
        def save(self, key: file_names.CheckpointKey, data: bytes, copies: int = 1) -> str:
            name = super().save(key, data, copies)
            self.files[name] = self.files[name][:-1]
            return name

    joining = Joining(stage.log, Torn(), stage.run, stage.ownership, stage.reports.append)
    stored = joining.saving(x.SaveMerged(3, 0, [0, 0], b"data"))()
    assert isinstance(stored, e.MergedStored) and stored.name is None
    assert len(stage.reports) == 1


def test_who_can_begin_nowhere_says_what_to_do(stage: Stage) -> None:
    for saved in [stage.merge() for _ in range(4)]:
        if saved.name in stage.store.files:
            stage.damage(saved)
    with pytest.raises(FellBehind, match="Start it again") as raised:
        stage.fetching.begin()
    assert isinstance(raised.value, Unreachable)  # exit code 4: worth another start


def test_a_job_whose_control_topic_lost_its_beginning_is_refused(stage: Stage) -> None:
    stage.grow()
    stage.log.delete_before(stage.topics.control, 0, 3)
    with pytest.raises(RunFailed, match="begins at offset 3"):
        open_job(stage.log, stage.job)


def test_a_trimmed_job_is_resumed_watched_and_reset(stage: Stage) -> None:
    for _ in range(4):
        stage.merge()
    assert open_job(stage.log, stage.job) == stage.run
    ownership = read_ownership(stage.log, stage.job)
    assert ownership is not None and ownership.digest() == stage.ownership.digest()
    monitor = Monitor(stage.log, stage.run)
    monitor.poll()
    assert set(monitor.ownership.members) == {f"n{number}" for number in range(10)}
    assert open_job(stage.log, stage.job, reset=True).incarnation == 1
    monitor.poll()
    assert monitor.superseded
    assert JobControlHistory(stage.log, stage.job).ownership.incarnation == 1


def test_a_monitor_that_was_overtaken_by_the_trimming_goes_on(stage: Stage) -> None:
    monitor = Monitor(stage.log, stage.run)
    for _ in range(4):
        stage.merge()
    monitor.poll()
    assert monitor.ownership.digest() == stage.ownership.digest()


# --- a store that lets wait -------------------------------------------------------------------------------------------


class Rewinding(Node):
    """A node that reads the whole broadcast again when it is told to."""

    rewinds = False

    def step(self, event: e.Event, now_ms: int) -> list[x.Effect]:
        effects = super().step(event, now_ms)
        if self.rewinds:
            self.rewinds = False
            effects.append(x.RewindBroadcast())
        return effects


class Joiner:
    """A node that joins the stage's job, and whose loads take a second of its time."""

    def __init__(self, stage: Stage) -> None:
        self.now_ms = 0
        history = JobControlHistory(stage.log, stage.job)
        self.node = Rewinding(NodeConfig("late"), stage.run, history.ownership)
        clock = lambda: self.now_ms  # noqa: E731
        loader: LateLoader[e.Event | Fetched] = LateLoader(clock, 1000)
        self.driver = Driver(self.node, stage.log, stage.store, clock, loader=loader, control_at=history.offset)

    def live(self, for_ms: int) -> None:
        until_ms = self.now_ms + for_ms
        while self.now_ms < until_ms:
            self.now_ms += 10
            self.driver.turn()

    @property
    def joined(self) -> bool:
        return "late" in self.node.ownership.members


def test_who_waits_for_its_merged_checkpoint_gives_heartbeats_and_joins_once_it_is_there(stage: Stage) -> None:
    for _ in range(4):
        stage.merge()
    joiner = Joiner(stage)
    joiner.live(900)
    assert stage.log.end_offset(stage.topics.heartbeats, 0) > 0
    assert not joiner.joined
    joiner.live(300)
    assert joiner.joined


def test_who_waits_for_its_merged_checkpoint_leaves_when_it_is_asked_to(stage: Stage) -> None:
    for _ in range(4):
        stage.merge()
    joiner = Joiner(stage)
    joiner.live(100)
    joiner.driver.dispatch(e.StopRequested())
    assert joiner.node.left is not None and joiner.node.left.ending is x.Ending.STOPPED


def test_a_member_that_has_to_read_again_from_a_merged_checkpoint_lives_on_meanwhile(stage: Stage) -> None:
    """It hears the control topic, is heard, and reads no broadcast until it knows where to go on."""
    joiner = Joiner(stage)
    joiner.live(100)
    for _ in range(4):
        stage.merge()
        joiner.live(100)
    assert joiner.joined and stage.starts()[0] > 0
    joiner.node.rewinds = True
    joiner.driver.turn()
    beats = stage.log.end_offset(stage.topics.heartbeats, 0)
    stage.write(m.Hello(0, "another"))
    joiner.live(900)
    assert stage.log.end_offset(stage.topics.heartbeats, 0) > beats
    assert "another" in joiner.node.ownership.members
    assert {where.topic for where in joiner.driver.waits_for()} == {stage.topics.control}
    joiner.live(300)
    ends = [stage.log.end_offset(stage.topics.broadcast, p) for p in range(2)]
    assert joiner.node.merging.broadcast_at == ends and not joiner.node.merging.awaited


def test_of_two_reasons_to_read_again_the_later_one_that_needs_more_counts(stage: Stage) -> None:
    for _ in range(4):
        stage.merge()
    asked: list[Callable[[], Fetched]] = []
    fetching = Fetching(stage.joining, lambda work: asked.append(work))
    assert fetching.rewind(1) is None and fetching.awaited == [1]
    assert fetching.rewind(1) is None and len(asked) == 1, "it is on its way"
    assert fetching.rewind(None) is None and fetching.whole
    assert fetching.again(0, 3) is None and fetching.rewind(None) is None and len(asked) == 2
    assert fetching.arrived(asked[0]()) is None and fetching.whole
    found = fetching.arrived(asked[1]())
    assert found is not None and found.whole and len(found.slots) == 2
    assert fetching.awaited == []


def test_checkpoints_that_were_deleted_while_they_were_waited_for_are_replaced_by_newer_ones(stage: Stage) -> None:
    merged = [stage.merge() for _ in range(3)]
    asked: list[Callable[[], Fetched]] = []
    fetching = Fetching(stage.joining, lambda work: asked.append(work))
    assert fetching.begin() is None
    for saved in merged:
        del stage.store.files[saved.name]
    newer = stage.merge()
    assert fetching.arrived(asked[0]()) is None and fetching.whole, "asked for again"
    found = fetching.arrived(asked[1]())
    assert found is not None and found.offsets == newer.broadcast_offsets


def test_the_first_heartbeat_holds_the_figures_of_the_process(stage: Stage) -> None:
    stage.merge()  # a merged checkpoint is loaded at the first turn
    node = Node(NodeConfig("late"), stage.run, JobControlHistory(stage.log, stage.job).ownership)
    driver = Driver(node, stage.log, stage.store, lambda: 0)
    driver.report_figures({"pid": 4711.0})
    driver.turn()
    first = m.decode_control(stage.log.read(stage.topics.heartbeats, 0, 0).values[0])
    assert isinstance(first, m.Heartbeat) and first.stats["pid"] == 4711.0
