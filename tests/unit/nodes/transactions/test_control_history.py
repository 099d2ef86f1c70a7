"""The control topic of a transactional job: checkpoints of it, what is deleted behind them, who begins with them."""

from __future__ import annotations

import struct
import zlib

import pytest

from nodes.errors import RunFailed
from nodes.log.contract import LogTruncated
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.code_check import JobMismatch
from nodes.machine.control_state import ControlCheckpoint
from nodes.transactions.bench.saved_state import newest_checkpoints
from nodes.transactions.control_history import control_history, trim_control
from nodes.transactions.job_start import begin
from nodes.transactions.settled import wait_until_settled
from nodes.transactions.topics import TransactionTopics, control_topic, create_topics
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional import Program

PARTITIONS = 2
UNITS = SEQUENCERS + PARTITIONS


def make_program(partitions: int = PARTITIONS) -> Program:
    return counters("controlled", partitions)


class Job:
    """The topics of a job that somebody has begun."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.program = make_program()
        self.topics: TransactionTopics = create_topics(self.log, self.program, SEQUENCERS)
        begin(self.log, self.topics, self.program, SEQUENCERS)
        self.fold = control_history(self.log, self.topics, UNITS)

    def grow(self, times: int = 1) -> None:
        for _ in range(times):
            self.log.append(self.topics.control, 0, [m.encode(m.Hello(1, f"n{self.end}", 0))])

    def checkpoint(self) -> ControlCheckpoint:
        state = self.fold.read().snapshot()
        return ControlCheckpoint(self.fold.offset, state)

    def trim(self) -> None:
        """The topic goes on by ten records, and is trimmed by one more checkpoint."""
        self.grow(10)
        trim_control(self.log, self.topics, self.checkpoint())

    @property
    def start(self) -> int:
        return self.log.start_offset(self.topics.control, 0)

    @property
    def end(self) -> int:
        return self.log.end_offset(self.topics.control, 0)

    @property
    def checkpoints(self) -> int:
        topic = self.topics.control_checkpoints
        return self.log.end_offset(topic, 0) - self.log.start_offset(topic, 0)


@pytest.fixture
def job() -> Job:
    return Job()


def test_what_the_oldest_of_three_checkpoints_needs_stays_and_the_rest_goes(job: Job) -> None:
    for _ in range(2):
        job.trim()
    assert job.start == 0, "two may be damaged"
    for times in range(3, 8):
        job.trim()
        assert (job.start, job.checkpoints) == (1 + 10 * (times - 2), 3)
    fresh = control_history(job.log, job.topics, 1)
    assert fresh.read().digest() == job.fold.read().digest() and fresh.offset == job.end


def test_damaged_checkpoints_count_for_nothing_and_the_newest_intact_one_is_taken(job: Job) -> None:
    for _ in range(4):
        job.trim()
    job.log.append(job.topics.control_checkpoints, 0, [b"", b"damage" * 10])
    start = job.start
    job.trim()
    assert job.start == start + 10 and job.checkpoints == 5
    begun = control_topic(job.topics).missed(job.log)
    assert begun is not None and begun.offset == job.end


def test_checkpoints_of_a_newer_release_are_named_where_nothing_else_is_left(job: Job) -> None:
    for _ in range(5):
        job.trim()
    topic, at = job.topics.control_checkpoints, job.log.start_offset(job.topics.control_checkpoints, 0)
    payload = job.log.read(topic, 0, at).values[-1][5:]
    version = m.FORMAT_VERSION + 1
    newer = struct.pack(">BI", version, zlib.crc32(payload, zlib.crc32(bytes([version])))) + payload
    job.log.append(topic, 0, [newer])
    assert control_topic(job.topics).missed(job.log) is not None, "an older one is enough: the topic itself goes on"
    job.log.delete_before(topic, 0, job.log.end_offset(topic, 0) - 1)
    with pytest.raises(JobMismatch, match=f"version {version}.*go on with nodes of that release") as raised:
        control_topic(job.topics).missed(job.log)
    assert "delete" not in str(raised.value)
    job.log.append(topic, 0, [b"damage" * 10])
    job.log.delete_before(topic, 0, job.log.end_offset(topic, 0) - 1)
    with pytest.raises(RunFailed, match="holds no intact checkpoint"):
        control_topic(job.topics).missed(job.log)


def test_one_that_stood_still_for_long_and_writes_what_it_knew_moves_nothing_back(job: Job) -> None:
    job.trim()
    old = job.checkpoint()
    for _ in range(5):
        job.trim()
    start = job.start
    for _ in range(5):
        trim_control(job.log, job.topics, old)
    assert job.start == start
    begun = control_topic(job.topics).missed(job.log)
    assert begun is not None and begun.offset == job.end
    job.trim()
    assert job.start == start + 10


def test_who_has_read_far_enough_goes_on_with_the_topic_itself(job: Job) -> None:
    for _ in range(5):
        job.trim()
    assert control_topic(job.topics).missed(job.log, job.start) is None
    begun = control_topic(job.topics).missed(job.log, job.start - 1)
    assert begun is not None and begun.offset >= job.start


def test_a_fold_that_has_fallen_behind_takes_a_checkpoint_over(job: Job) -> None:
    late = control_history(job.log, job.topics, UNITS)
    late.read()
    for _ in range(6):
        job.trim()
    assert late.offset < job.start
    assert late.read().digest() == job.fold.read().digest() and late.offset == job.end


def test_a_job_of_the_version_before_has_no_such_topic_and_is_trimmed_all_the_same() -> None:
    log = MemoryLog()
    topics = TransactionTopics("controlled")
    log.create_topic(topics.control, 1)
    begin(log, topics, make_program(), SEQUENCERS)
    assert control_history(log, topics, UNITS).read().partitions == UNITS
    create_topics(log, make_program(), SEQUENCERS)
    begin(log, topics, make_program(), SEQUENCERS)
    assert log.end_offset(topics.control, 0) == 1


def test_a_trimmed_job_is_not_begun_a_second_time_and_another_program_is_refused(job: Job) -> None:
    for _ in range(4):
        job.trim()
    end = job.end
    begin(job.log, job.topics, job.program, SEQUENCERS)
    assert job.end == end
    with pytest.raises(RunFailed, match="another name"):
        begin(job.log, job.topics, make_program(3), SEQUENCERS)


def test_without_an_intact_checkpoint_nobody_guesses(job: Job) -> None:
    for _ in range(4):
        job.trim()
    topic = job.topics.control_checkpoints
    job.log.delete_before(topic, 0, job.log.end_offset(topic, 0))
    with pytest.raises(RunFailed, match=rf"control\[0\] begins at offset {job.start}"):
        control_history(job.log, job.topics, UNITS).read()


def test_a_topic_that_is_shorter_than_was_known_is_told(job: Job) -> None:
    for _ in range(4):
        job.trim()
    job.log.truncate(job.topics.control, 0, job.end - 5)
    with pytest.raises(LogTruncated, match="acknowledged records are gone"):
        begin(job.log, job.topics, job.program, SEQUENCERS)


# --- nodes ------------------------------------------------------------------------------------------------------------


def worked(stage: Stage, times: int) -> None:
    for number in range(times):
        stage.call("count", f"k{number % 5}", "add", [1])
        stage.turn(5)


def trimming_stage() -> Stage:
    return Stage(make_program(), interval_ms=50, trim_ms=100)


def test_nodes_trim_the_control_topic_and_those_who_look_on_see_all_of_it() -> None:
    stage = trimming_stage()
    driver = stage.start("a")
    for _ in range(100):
        worked(stage, 10)
        if stage.log.start_offset(stage.topics.control, 0):
            break
    assert stage.log.start_offset(stage.topics.control, 0) > 0
    ownership = driver.claiming.ownership
    for _ in range(20):  # what the node has written last it reads in its next turn
        kept = {p: ownership.checkpoint(SEQUENCERS + p) for p in range(PARTITIONS)}
        newest = newest_checkpoints(stage.log, stage.program, SEQUENCERS)
        if newest == {p: saved.name for p, saved in kept.items() if saved is not None}:
            break
        stage.turn(1)
    assert newest == {p: saved.name for p, saved in kept.items() if saved is not None} and len(newest) == PARTITIONS
    wait_until_settled(stage.log, stage.topics, (SEQUENCERS, PARTITIONS), nodes=1, limit_s=0)


@pytest.mark.slow
def test_a_node_that_may_not_trim_keeps_all_and_writes_no_checkpoint_of_control() -> None:
    stage = Stage(make_program(), interval_ms=50)
    stage.start("a")
    worked(stage, 200)
    assert stage.log.end_offset(stage.topics.control, 0) > 5 * UNITS
    assert stage.log.start_offset(stage.topics.control, 0) == 0
    assert stage.log.end_offset(stage.topics.control_checkpoints, 0) == 0


def test_a_record_of_a_newer_version_ends_the_node_instead_of_being_passed_over() -> None:
    stage = trimming_stage()
    driver = stage.start("a")
    worked(stage, 3)
    value, version = m.encode(m.Hello(1, "newer", 0)), bytes([m.FORMAT_VERSION + 1])
    sealed = version + struct.pack(">I", zlib.crc32(value[5:], zlib.crc32(version))) + value[5:]
    stage.log.append(stage.topics.control, 0, [sealed])
    with pytest.raises(m.BadMessage, match="newer version"):
        stage.turn(20)
    assert "newer" not in driver.claiming.ownership.members
