"""Means to keep an epoch's records few: short calls in barriers, late cuts, commits together."""

from __future__ import annotations

import pytest

from nodes.transactions.checkpoints.commit_buffer import HOLD_BYTES, HOLD_MS, CommitBuffer
from tests.unit.transactional.test_protocol import Alone
from transactional import Context, Operator, Program
from transactional import events as e
from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.epochs.appends import AppendCommit, AppendEpochs, AppendReply
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import (
    Contribution,
    Cut,
    MessageBatch,
    ReadSetSnapshot,
    RoundBarrier,
    epoch_messages,
    to_bytes,
)
from transactional.epochs.sequencer import EpochConfig
from transactional.node import TransactionNode
from transactional.requests.requests import WireRequest, request_record


def relay() -> Program:
    """``hand`` gives its text to another key."""
    box = Operator("box", partitions=2)

    @box.register
    async def hand(ctx: Context, to: str, text: str) -> None:
        ctx.call_async("box", to, "keep", [text])

    @box.register
    async def keep(ctx: Context, text: str) -> None:
        ctx.put(text)

    return Program("relay", [box])


def far(program: Program, key: str) -> str:
    """A key in another partition."""
    return next(other for other in "abcdefgh" if program.place("box", other) != program.place("box", key))


def hand(number: int, text: str, program: Program) -> bytes:
    return request_record(WireRequest(f"r{number}", "box", "a", "hand", [far(program, "a"), text]))


def test_short_calls_travel_in_cuts_and_marks_and_long_ones_beside_them() -> None:
    program = relay()
    for text, inline in (("short", True), ("long" * 10_000, False)):
        alone = Alone(program)
        alone.send([hand(0, text, program)])
        messages = [each for value in alone.epochs for each in epoch_messages(value)]
        senders = [each for each in messages if isinstance(each, Cut | RoundBarrier) and each.sends]
        assert len(senders) == 2 and len(alone.replies) == 1
        assert [each.inline for each in senders] == [inline] * 2
        assert any(alone.calls.values()) != inline
        other = program.place("box", far(program, "a"))
        assert len(alone.node.partitions[other].store.items) == 1


class Pair:
    """Two nodes with a state partition each, the first with the sequencer; one log, read to its end in each turn."""

    def __init__(self, program: Program) -> None:
        self.epochs: list[bytes] = []
        self.commits: list[bytes] = []
        self.replies: list[bytes] = []
        self.nodes = [TransactionNode(program, 1, EpochConfig(interval_ms=0)) for _ in range(2)]
        self.nodes[0].step(e.SequencerTaken(0), 0)
        for number, node in enumerate(self.nodes):
            node.step(e.PartitionTaken(number), 0)

    def deliver(self, number: int, event: e.Event) -> None:
        for append in self.nodes[number].step(event, 0):
            kind = {AppendEpochs: self.epochs, AppendCommit: self.commits, AppendReply: self.replies}[type(append)]
            kind.append(append.value)

    def send(self, request: bytes) -> None:
        start = self.nodes[0].sequencers[0].position
        self.deliver(0, e.RequestsRead(0, [start], [request], start + 1))

    def read(self, number: int) -> bool:
        """One node reads all that is there; False if that is nothing."""
        new = self.epochs[self.nodes[number].ledger.position :]
        self.deliver(number, e.EpochsRead(new, self.nodes[number].ledger.position + len(new)))
        return bool(new)

    def settle(self) -> None:
        while self.read(0) | self.read(1):
            pass


def test_the_next_epoch_is_cut_beside_the_last_marks_of_the_one_in_work() -> None:
    program = relay()
    pair = Pair(program)
    pair.send(hand(0, "", program))  # from here on two rounds are expected
    pair.settle()
    for asked in range(1, 20):  # one comes with each step
        pair.send(hand(asked, "", program))
        pair.read(0)
        pair.read(1)
    pair.settle()
    barriers: list[tuple[int, int]] = []
    before: dict[int, list[int]] = {}  # rounds of the epoch before that are marked when an epoch is cut
    for message in (each for value in pair.epochs for each in epoch_messages(value)):
        if isinstance(message, RoundBarrier):
            barriers.append((message.epoch, message.round))
        elif isinstance(message, Cut):
            before[message.epoch] = [round_ for epoch, round_ in barriers if epoch == message.epoch - 1]
    assert len(before) > 3
    later = sorted(before)[1:]
    for epoch in later:
        assert 1 in before[epoch], f"epoch {epoch} was cut while the one before it had two rounds to go"
    assert any(before[epoch].count(2) < 2 for epoch in later), "none was cut early"


def test_a_node_does_not_wait_for_its_own_records_to_come_back() -> None:
    program = relay()
    pair = Pair(program)
    pair.send(hand(0, "", program))
    pair.read(1)  # the second node has read the cut, and says what it has to say in round 1
    pair.read(0)  # so the first one ends round 2 as well
    pair.read(1)
    node, read = pair.nodes[1], pair.nodes[1].ledger.position
    assert read == len(pair.epochs) - 1, "its last record has not come back"
    assert node.ledger.done == 1 and node.ledger.logged == 0 and node.partitions[1].epoch == 2
    node.partitions[1].want_snapshot()
    assert node.partitions[1].take_snapshot() is None, "who begins with it never says what may be lost"
    commits = len(pair.commits)
    pair.read(1)
    assert node.ledger.logged == 1 and len(pair.commits) == commits + 1, "a commit says that its epoch is on the log"
    made = node.partitions[1].take_snapshot()
    assert made is not None and made[0] == 1
    pair.settle()
    assert len(pair.replies) == 1


def test_what_has_not_come_back_is_in_no_snapshot_of_the_ledger() -> None:
    ledger = Ledger(relay(), 1)
    barrier = RoundBarrier(0, 1, 1, [], Contribution([], [], [], []))
    ledger.expect(barrier)
    assert ledger.epoch(1).barrier(1, 0) == barrier and ledger.snapshot().barriers == [] and ledger.expects == 1
    ledger.apply(to_bytes(barrier))
    assert ledger.snapshot().barriers == [barrier] and ledger.expects == 0
    ledger.apply(to_bytes(barrier))  # another owner's
    assert ledger.repeats == 1


def test_another_record_of_the_name_of_ones_own_is_no_deterministic_function() -> None:
    mine, others = (RoundBarrier(0, 1, 1, [], Contribution([tid], [], [], [])) for tid in (1, 2))
    logged, stranger = (ReadSetSnapshot(0, 1, [], [("box", "a", value)], []) for value in (b"1", b"2"))
    for own, found in ((mine, others), (logged, stranger)):
        ledger = Ledger(relay(), 1)
        ledger.expect(own)
        with pytest.raises(Nondeterministic, match="state partition 0, epoch 1"):
            ledger.apply(to_bytes(found))


def test_what_a_node_says_at_once_is_one_record() -> None:
    program = relay()
    pair = Pair(program)
    pair.send(hand(0, "", program))
    pair.settle()
    several = [messages for value in pair.epochs if len(messages := epoch_messages(value)) > 1]
    assert several and all(isinstance(each, RoundBarrier) for messages in several for each in messages)
    nested = to_bytes(MessageBatch([to_bytes(MessageBatch(pair.epochs))]))
    ledger = pair.nodes[0].ledger
    ledger.apply(nested)
    assert ledger.bad_messages == 1


def test_commits_are_held_until_it_is_time_or_there_are_many() -> None:
    held = CommitBuffer()
    assert held.due(0, at_once=True) == {}
    held.add(1, [b"a"], 100)
    held.add(0, [b"b"], 100)
    held.add(1, [b"c"], 100 + HOLD_MS - 1)
    assert held.due(100 + HOLD_MS - 1) == {}
    assert held.due(100 + HOLD_MS) == {1: [b"a", b"c"], 0: [b"b"]}
    held.add(0, [bytes(HOLD_BYTES)], 500)
    assert held.due(500) != {} and held.due(500) == {}
    held.add(0, [b"d"], 600)
    assert held.due(601, at_once=True) == {0: [b"d"]}
