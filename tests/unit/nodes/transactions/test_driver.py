"""Transactional nodes on a log in memory, turn by turn: takeovers, checkpoints, and what a new node has to read."""

from __future__ import annotations

from typing import Any

import pytest

from examples.bank import program
from nodes.log.contract import TopicPartition
from nodes.log.memory import MemoryLog
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.composition import NodeOptions, NodeSurroundings, composed
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.job_start import begin
from nodes.transactions.steps import Clocks, TransactionJob
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics, create_topics
from transactional import Aborted
from transactional.epochs.sequencer import EpochConfig
from transactional.requests.requests import WireRequest

SEQUENCERS = 2
INTERVAL_MS = 100
FAILURE_TIMEOUT_MS = 300


class Stage:
    """A log, a store, a clock, and nodes that take turns while a client waits."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.log = MemoryLog(on_wait=lambda seconds: self.turn())
        self.store = MemoryCheckpoints()
        self.nodes: dict[str, TransactionDriver] = {}
        self.topics: TransactionTopics = create_topics(self.log, program, SEQUENCERS)
        self.job = TransactionJob(program, self.topics, SEQUENCERS, EpochConfig())
        begin(self.log, self.topics, program, SEQUENCERS)
        self.client = TransactionClient(self.log)

    def start(self, name: str) -> TransactionDriver:
        options = NodeOptions(name, failure_timeout_ms=FAILURE_TIMEOUT_MS, checkpoint_interval_ms=INTERVAL_MS)
        clocks = Clocks(lambda: self.now_ms, lambda: 1_000_000 + self.now_ms)
        self.nodes[name] = composed(self.job, options, NodeSurroundings(self.log, self.store, clocks))
        return self.nodes[name]

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += 5
            for name in sorted(self.nodes):
                self.nodes[name].turn()

    def call(self, key: str, function: str, args: Any = None, request_id: str | None = None) -> Any:
        return self.client.try_call("account", key, function, args, request_id=request_id, timeout_s=60)

    def busy(self, rounds: int) -> None:
        """Deposits to all accounts, and time for checkpoints."""
        for _ in range(rounds):
            for number in range(8):
                self.call(f"a{number}", "deposit", [1])
            self.turn(INTERVAL_MS // 4)


def test_two_nodes_share_the_work_and_answer() -> None:
    stage = Stage()
    one, other = stage.start("one"), stage.start("other")
    stage.turn(200)
    assert stage.call("a", "deposit", [10]) == 10
    assert stage.call("a", "transfer", {"to": "b", "amount": 4}) == 6
    assert stage.call("a", "transfer", ["b", 7]) == Aborted("InsufficientFunds", ("a", 6))
    assert len(one.node.partitions) + len(other.node.partitions) == program.partitions
    assert one.node.partitions and other.node.partitions


def test_requests_that_are_asked_together_travel_in_few_records() -> None:
    stage = Stage()
    stage.start("one")
    requests = [WireRequest(f"r{number}", "account", f"a{number % 3}", "deposit", [1]) for number in range(30)]
    requests.append(WireRequest("large", "account", "b", "deposit", ["x" * (1 << 18)]))
    stage.client.send_all(requests[:30])
    assert sum(stage.log.end_offset(stage.topics.requests, s) for s in range(SEQUENCERS)) == SEQUENCERS
    stage.client.send_all(requests[29:])  # one of them again, and beside what is too large to share a record
    found: dict[str, Any] = {}
    while len(found) < len(requests):
        stage.client.receive(1.0)
        found.update(stage.client.take_all())
    assert sorted(found[f"r{number}"] for number in range(30)) == sorted([*range(1, 11)] * 3)
    assert isinstance(found["large"], Aborted) and found["large"].kind == "TypeError"
    assert stage.call("a0", "balance") == 10


def ready_for(stage: Stage, node: TransactionDriver) -> list[TopicPartition]:
    """The events that would end a node's wait now."""
    return [where for where, position in node.waits_for().items() if stage.log.end_offset(*where) > position]


def test_what_comes_back_of_a_node_runs_nothing_and_all_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    nodes = [stage.start("one"), stage.start("other")]
    stage.turn(200)
    assert all(node.node.partitions for node in nodes)
    steps: list[int] = []
    for node in nodes:
        step = node.node.step
        monkeypatch.setattr(node.node, "step", lambda event, now, step=step: steps.append(1) or step(event, now))
    stage.client.send_all(
        [WireRequest(f"r{k}", "account", f"a{k % 5}", "transfer", [f"a{(k + 1) % 5}", 0]) for k in range(20)]
    )
    came_back = stood_still = 0
    while len(stage.client.answered) < 20:
        assert stood_still < 100, "no reply"
        for node in nodes:
            ready = ready_for(stage, node)
            before = node.node.ledger.position, node.node.ledger.changes, len(steps)
            node.turn(ready)
            moved, news = node.node.ledger.position > before[0], node.node.ledger.changes > before[1]
            if moved and not news and ready == [TopicPartition(stage.topics.epochs, 0)]:
                came_back += 1
                assert len(steps) == before[2]
            elif ready:
                assert len(steps) > before[2]
            stood_still = 0 if ready else stood_still + 1
        stage.client.poll()
    assert came_back


def test_a_record_of_the_control_topic_is_read_in_the_turn_that_it_wakes() -> None:
    stage = Stage()
    node = stage.start("one")
    stage.turn(100)
    node.turn()  # it has looked at the control topic in this millisecond
    control = TopicPartition(stage.topics.control, 0)
    stage.log.append(*control, [b"no message"])
    assert ready_for(stage, node) == [control]
    node.turn([control])
    assert ready_for(stage, node) == [], "the next wait would end at once, again and again"


def test_a_survivor_takes_everything_over() -> None:
    stage = Stage()
    stage.start("one"), stage.start("other")
    stage.turn(200)
    assert stage.call("a", "deposit", [10]) == 10
    del stage.nodes["one"]
    assert stage.call("a", "deposit", [1]) == 11
    assert stage.call("b", "deposit", [1]) == 1
    stage.turn(200)
    assert sorted(stage.nodes["other"].node.partitions) == list(range(program.partitions))
    assert not stage.nodes["other"].claiming.needs_end(stage.now_ms), "a dead node without partitions concerns nobody"


def test_a_new_node_begins_at_the_checkpoints_and_reads_no_epoch_before_them() -> None:
    stage = Stage()
    stage.start("one")
    stage.busy(rounds=6)
    ran = stage.nodes.pop("one").node.ledger.done
    assert ran > 20
    other = stage.start("other")
    assert stage.call("a3", "deposit", [1]) == 7
    assert 0 < other.steps.begun < ran
    assert not other.node.ledger.epoch(other.steps.begun).cuts
    assert stage.call("a0", "balance") == 6


def test_a_reply_is_remembered_across_a_checkpoint() -> None:
    stage = Stage()
    stage.start("one")
    assert stage.call("a", "deposit", [5], request_id="once") == 5
    stage.busy(rounds=6)
    del stage.nodes["one"]
    stage.start("other")
    assert stage.call("a", "deposit", [5], request_id="once") == 5
    assert stage.call("a", "balance") == 5


def test_damaged_checkpoints_cost_time_and_nothing_else() -> None:
    stage = Stage()
    stage.start("one")
    stage.busy(rounds=6)
    del stage.nodes["one"]
    for name, data in stage.store.files.items():
        stage.store.files[name] = data[:-1] + bytes([data[-1] ^ 1])
    other = stage.start("other")
    assert stage.call("a3", "deposit", [1]) == 7
    assert other.steps.begun == 0


def test_one_damaged_partition_makes_the_node_read_all() -> None:
    stage = Stage()
    stage.start("one")
    stage.busy(rounds=6)
    del stage.nodes["one"]
    last = SEQUENCERS + program.partitions - 1
    for name in stage.store.list(f"{program.name}-txn", FIRST_INCARNATION, last):
        stage.store.files[name] = b"nothing"
    stage.start("other")
    for number in range(8):
        assert stage.call(f"a{number}", "deposit", [1]) == 7


@pytest.mark.slow
def test_old_epochs_are_forgotten() -> None:
    stage = Stage()
    one = stage.start("one")
    stage.busy(rounds=12)
    assert one.steps.begun > 0
    assert len(one.node.ledger.epochs) <= one.node.ledger.done - one.steps.begun + 2
