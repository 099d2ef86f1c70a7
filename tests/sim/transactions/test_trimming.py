"""Topics of a job that are trimmed behind its checkpoints: what goes, who misses nothing, who is told."""

from __future__ import annotations

import pytest

from nodes.cli.errors import classify
from nodes.errors import Unreachable
from nodes.transactions.clients.client import RepliesTrimmed, TransactionClient
from nodes.transactions.trimming import TopicsTrimmed
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional import Program

WINDOW = 3
PARTITIONS = 2


def make_program() -> Program:
    return counters("trimmed", PARTITIONS)


class Trimmed:
    """A job whose first node has trimmed all of its topics, and what each counter has to be."""

    def __init__(self) -> None:
        self.stage = Stage(make_program(), interval_ms=50, trim_ms=100, id_window=WINDOW)
        self.expected: dict[str, int] = {}
        self.calls = 0

    def work(self, times: int) -> None:
        for _ in range(times):
            self.calls += 1
            key = f"k{self.calls % 5}"
            self.expected[key] = self.expected.get(key, 0) + 1
            assert self.stage.call("count", key, "add", [1], f"r{self.calls}") == self.expected[key]
            self.stage.turn(5)

    def starts(self) -> dict[str, list[int]]:
        log, topics = self.stage.log, self.stage.topics
        names = [topics.epochs, topics.calls, topics.commits, topics.replies, topics.requests, topics.control]
        return {name: [log.start_offset(name, p) for p in range(log.partitions(name))] for name in names}

    def is_right(self) -> bool:
        return all(self.stage.call("count", key, "add", [0]) == value for key, value in self.expected.items())


@pytest.fixture
def trimmed() -> Trimmed:
    made = Trimmed()
    made.stage.start("a")
    made.work(60)
    return made


def test_every_topic_is_trimmed_and_what_ids_need_is_kept(trimmed: Trimmed) -> None:
    trimmed.work(220)
    log, topics = trimmed.stage.log, trimmed.stage.topics
    starts = trimmed.starts()
    assert all(all(offsets) for offsets in starts.values()), starts
    for sequencer in range(SEQUENCERS):
        assert log.end_offset(topics.requests, sequencer) - starts[topics.requests][sequencer] >= WINDOW
    before = log.end_offset(topics.replies, 0)
    assert trimmed.stage.call("count", f"k{trimmed.calls % 5}", "add", [1], f"r{trimmed.calls}") >= 1  # an old id
    assert trimmed.is_right() and log.end_offset(topics.replies, 0) >= before


def test_a_node_that_starts_later_goes_on_with_what_there_is(trimmed: Trimmed) -> None:
    del trimmed.stage.nodes["a"]
    trimmed.stage.now_ms += 10_000
    trimmed.stage.start("b")
    assert trimmed.is_right()
    trimmed.work(20)


def test_a_node_that_stood_still_while_topics_were_trimmed_begins_anew_in_place(trimmed: Trimmed) -> None:
    driver = trimmed.stage.start("b")
    trimmed.work(10)
    assert driver.node.partitions or driver.node.sequencers
    stopped = trimmed.stage.nodes.pop("b")
    position = driver.node.ledger.position
    trimmed.work(280)
    assert trimmed.starts()[trimmed.stage.topics.epochs][0] > position
    trimmed.stage.nodes["b"] = stopped
    trimmed.work(20)
    del trimmed.stage.nodes["a"]
    trimmed.stage.now_ms += 10_000
    assert trimmed.is_right()


def test_nothing_goes_while_there_are_fewer_than_three_checkpoints() -> None:
    made = Trimmed()
    made.stage.interval_ms = 1_000_000
    made.stage.start("a")
    made.work(40)
    assert not any(any(offsets) for offsets in made.starts().values())


def test_a_job_without_an_intact_checkpoint_says_what_is_gone(trimmed: Trimmed) -> None:
    stage = trimmed.stage
    stage.nodes.clear()
    stage.store.files.clear()
    stage.now_ms += 10_000
    stage.start("b")
    with pytest.raises(TopicsTrimmed, match=r"job 'trimmed'.*node\.truncate_internal_topics") as raised:
        stage.turn(500)
    assert classify(raised.value)[0] == 1, "a fleet starts a node with exit code 4 as often as it takes"


def test_a_client_that_is_late_is_told_so_and_asks_again(trimmed: Trimmed) -> None:
    stage = trimmed.stage
    late = TransactionClient(stage.log, clock_s=stage.clock_s)
    names = [late.send("count", f"k{number}", "add", [0], request_id=f"late{number}") for number in range(8)]
    late.poll()
    trimmed.work(300)
    told = 0
    for _ in range(PARTITIONS):
        try:
            late.poll()
        except RepliesTrimmed as error:
            told += 1
            assert isinstance(error, Unreachable)
            assert "trimmed-txn-replies[" in str(error)
    assert told == PARTITIONS
    assert late.call("count", "k1", "add", [0], request_id="after", timeout_s=60) == trimmed.expected["k1"]
    assert not any(name in late.answered for name in names)


def test_a_client_that_waited_for_nothing_is_not_late(trimmed: Trimmed) -> None:
    idle = TransactionClient(trimmed.stage.log, clock_s=trimmed.stage.clock_s)
    assert idle.call("count", "k1", "add", [0], timeout_s=60) == trimmed.expected["k1"]
    trimmed.work(300)
    assert idle.call("count", "k2", "add", [0], timeout_s=60) == trimmed.expected["k2"]
