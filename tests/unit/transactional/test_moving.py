"""Keys that change their homes between two epochs: what moves, when, and who goes on if a node dies in the middle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

import pytest

from transactional import Context, Operator, Program
from transactional import events as e
from transactional.epochs.appends import Append, AppendCalls, AppendCommit, AppendEpochs, AppendReply
from transactional.epochs.messages import (
    Calls,
    Handover,
    MovedState,
    NewLayout,
    Reply,
    RoundBarrier,
    call_message,
    epoch_messages,
    reply_message,
    to_bytes,
)
from transactional.epochs.sequencer import EpochConfig
from transactional.layout import Group, Layout, spread_all, spread_least
from transactional.node import TransactionNode
from transactional.requests.replies import entity_of
from transactional.requests.requests import WireRequest, request_record
from transactional.state.restored import empty_state, restored_state
from transactional.state.snapshots import PartitionState, snapshot_state
from transactional.state.values import DIGEST_BYTES

T = TypeVar("T")
counter = Operator("counter", partitions=2)


@counter.register
async def add(ctx: Context, amount: int, note: str = "") -> int:
    ctx.put((ctx.get() or 0) + amount)
    return ctx.get()


@counter.register
async def remove(ctx: Context) -> None:
    ctx.delete()


program = Program("counters", [counter])
KEYS = [f"k{number}" for number in range(12)]
FIRST = Layout.first(program.operators)
GROUP = Group.of(counter)
WINDOW = EpochConfig().id_window


def layout_of(before: Layout, partitions: int, *, every: bool = False) -> Layout:
    spread = spread_all if every else spread_least
    return before.changed({GROUP: spread(before.homes_of(GROUP), partitions)})


class Job:
    """The topics of a job with one request partition, and a node that owns all of it."""

    config = EpochConfig(inline_bytes=0)

    def __init__(self) -> None:
        self.epochs: list[bytes] = []
        self.calls: dict[int, list[bytes]] = defaultdict(list)
        self.requests: list[bytes] = []
        self.replies: list[tuple[int, Reply]] = []
        self.node = self.begin({0: None, 1: None})
        self.node.step(e.SequencerTaken(0), 0)

    def begin(self, states: Mapping[int, PartitionState | None]) -> TransactionNode:
        """A node that owns these partitions, and no sequencer."""
        ledgers = [state.ledger for state in states.values() if state is not None]
        oldest = min(ledgers, key=lambda ledger: ledger.done) if ledgers else None
        node = TransactionNode(program, 1, self.config, oldest)
        for number, state in states.items():
            restored = None if state is None else restored_state(state, id_window=WINDOW)
            self.write(node.step(e.PartitionTaken(number, state=restored), 0))
        return node

    def add_partition(self, number: int) -> None:
        empty = empty_state(number, self.node.ledger.snapshot(), WINDOW)
        self.write(self.node.step(e.PartitionTaken(number, state=empty), 0))

    def write(self, appends: Sequence[Append], lost: Collection[type[Append]] = ()) -> None:
        for each in appends:
            match each:
                case _ if type(each) in lost:
                    pass
                case AppendEpochs(value):
                    self.epochs.append(value)
                case AppendCalls(partition, value):
                    self.calls[partition].append(value)
                case AppendReply(partition, value):
                    self.replies += [(partition, reply) for reply in reply_message(value).replies]
                case AppendCommit():
                    pass

    def settle(self, lost: Collection[type[Append]] = (), *, reads_calls: bool = True) -> None:
        """Until nothing is left to do; records of the kinds that are lost never reach the log."""
        node, moved = self.node, True
        while moved:
            appends, at = node.step(e.Ticked(), 0), node.ledger.position
            if at < len(self.epochs):
                appends += node.step(e.EpochsRead(self.epochs[at:], len(self.epochs)), 0)
            for number, partition in node.partitions.items() if reads_calls else ():
                at, end = partition.position, len(self.calls[number])
                if at < end:
                    appends += node.step(e.CallsRead(number, list(range(at, end)), self.calls[number][at:]), 0)
            if 0 in node.sequencers and (at := node.sequencers[0].position) < len(self.requests):
                end = len(self.requests)
                appends += node.step(e.RequestsRead(0, list(range(at, end)), self.requests[at:], end), 0)
            self.write(appends, lost)
            moved = bool(appends) or node.ledger.position < len(self.epochs)

    def ask(self, name: str, key: str, note: str = "") -> None:
        self.requests.append(request_record(WireRequest(name, "counter", key, "add", [1, note])))

    def filled(self) -> Job:
        """Each key has a count, and a reply that is remembered; of half of them the arguments are long."""
        for number, key in enumerate(KEYS):
            self.ask(f"r{key}", key, "long" * 100 * (number % 2))
        self.settle()
        return self

    def propose(self, layout: Layout) -> None:
        self.epochs.append(to_bytes(NewLayout(layout)))

    def snapshots(self, *, whole: bool = False) -> dict[int, PartitionState]:
        found = {}
        for number, partition in self.node.partitions.items():
            partition.want_snapshot(whole=whole)
            made = partition.take_snapshot()
            assert made is not None, f"partition {number} makes no snapshot"
            found[number] = snapshot_state(made[1].encoded())
        return found

    def check(self, partitions: int) -> None:
        """Each key and each reply is at its one home."""
        placement = self.node.ledger.layouts.placement(self.node.ledger.done)
        assert placement.number == self.node.ledger.layouts.newest.number, "the newest layout does not hold yet"
        assert placement.partitions == partitions
        for number, partition in self.node.partitions.items():
            mine = {("counter", key) for key in KEYS if placement.place("counter", key) == number}
            assert partition.epoch == self.node.ledger.done + 1
            assert set(dict(partition.store.everything())) == mine, f"keys of partition {number}"
            assert {entity_of(given.call) for _, _, given in partition.replies.remembered()} == mine


def of_kind(job: Job, kind: type[T]) -> list[T]:
    found: list[object] = [each for value in job.epochs for each in epoch_messages(value)]
    found += [call_message(value) for values in job.calls.values() for value in values]
    return [each for each in found if isinstance(each, kind)]


def test_keys_and_replies_move_with_their_buckets_and_nothing_else_does() -> None:
    job = Job().filled()
    job.add_partition(2)
    before = {number: dict(each.store.everything()) for number, each in job.node.partitions.items()}
    for each in job.snapshots().values():
        assert each.ledger.done
    job.propose(layout := layout_of(FIRST, 3))
    job.settle()
    job.check(3)
    homes = layout.homes_of(GROUP)
    gone = {key for key in KEYS if homes[GROUP.bucket(key)] == 2}
    handovers = of_kind(job, Handover)
    assert 0 < len(gone) < len(KEYS) and len(handovers) == 2
    assert sum(each.keys for each in handovers) == sum(each.replies for each in handovers) == len(gone)
    assert {key for moved in of_kind(job, MovedState) for _, key, _ in moved.rows} == gone
    # The next snapshots of those that they have left hold that.
    states = job.snapshots()
    deleted = {key for state in states.values() for _, key, value in state.items if value is None}
    changed = {each.partition for each in handovers if each.keys} | {2}
    assert deleted == gone and {number for number, state in states.items() if state.all_replies} == changed
    again = {(kind, key): value for state in states.values() for kind, key, value in state.items if value is not None}
    assert again == {name: value for rows in before.values() for name, value in rows.items() if name[1] in gone}


def test_a_request_that_comes_again_gets_its_reply_from_its_new_home() -> None:
    job = Job().filled()
    first = {reply.id: reply.outcome for _, reply in job.replies}
    job.propose(layout_of(FIRST, 1))
    job.settle()
    job.replies.clear()
    for number, key in enumerate(KEYS):
        job.ask(f"r{key}", key, "long" * 100 * (number % 2))
    job.settle()
    assert {reply.id: reply.outcome for _, reply in job.replies} == first
    assert {partition for partition, _ in job.replies} == {0}


def test_an_emptied_partition_goes_along_without_a_part_in_epochs_and_comes_back() -> None:
    job = Job().filled()
    job.propose(one := layout_of(FIRST, 1))
    job.settle()
    job.check(1)
    barriers = [each.partition for each in of_kind(job, RoundBarrier) if each.epoch == job.node.ledger.done]
    assert barriers == [0], "it would be waited for"
    state = job.snapshots()[1]
    assert state.ledger.done == job.node.ledger.done and not state.reply_order[0][1], "nothing is held back by it"
    job.propose(layout_of(one, 2, every=True))
    job.settle()
    job.check(2)


def test_no_snapshot_is_made_between_a_move_and_the_epoch_that_it_is_for() -> None:
    job = Job().filled()
    job.node.step(e.SequencerLost(0), 0)
    job.propose(layout_of(FIRST, 1))
    job.settle()
    done = job.node.ledger.done
    assert len(dict(job.node.partitions[0].store.everything())) == len(KEYS), "it has moved"
    for partition in job.node.partitions.values():
        partition.want_snapshot()
        assert not partition.has_snapshot, "it would be of the epoch before, and move again"
    job.write(job.node.step(e.SequencerTaken(0), 0))
    job.settle()
    assert [each.take_snapshot() is not None for each in job.node.partitions.values()] == [True, True]
    assert job.node.ledger.done == done + 1


@pytest.mark.parametrize("lost", [(), (AppendCalls,), (AppendEpochs,), (AppendCalls, AppendEpochs)])
@pytest.mark.parametrize("reads", ["layout", "handovers"])
def test_the_next_owner_sends_again_what_is_missing(lost: tuple[type[Append], ...], reads: str) -> None:
    job = Job().filled()
    job.node.step(e.SequencerLost(0), 0)
    job.propose(FIRST.changed({GROUP: tuple(1 - home for home in FIRST.homes_of(GROUP))}))
    if reads == "layout":
        job.node.receive(e.EpochsRead(job.epochs[job.node.ledger.position :], len(job.epochs)))
    else:
        job.settle((AppendCalls, *lost), reads_calls=False)
    states = job.snapshots()
    if reads == "layout":
        job.settle(lost, reads_calls=not lost)
    job.node = job.begin(states)
    job.write(job.node.step(e.SequencerTaken(0), 0))
    job.settle()
    job.check(2)


def test_a_checkpoint_knows_the_handovers_that_it_is_behind() -> None:
    job = Job().filled()
    job.node.step(e.SequencerLost(0), 0)
    job.propose(FIRST.changed({GROUP: tuple(1 - home for home in FIRST.homes_of(GROUP))}))
    job.settle(reads_calls=False)
    first, second = job.node, job.begin({0: job.snapshots()[0]})
    job.write(first.step(e.SequencerTaken(0), 0))
    job.settle()
    job.node = second
    job.settle()
    job.check(2)
    stores = [dict(node.partitions[0].store.everything()) for node in (first, second)]
    assert stores[0] == stores[1] != {}


def test_nothing_is_handed_over_before_the_log_has_the_epoch_before() -> None:
    job = Job()
    for key in KEYS:
        job.ask(f"r{key}", key)
    values = job.requests
    cut = job.node.step(e.RequestsRead(0, list(range(len(values))), values, len(values)), 0)
    job.write(cut)
    own = job.node.step(e.EpochsRead(job.epochs[:], len(job.epochs)), 0)
    for number in (0, 1):
        records = job.calls[number]
        own += job.node.step(e.CallsRead(number, list(range(len(records))), records), 0)
    assert (job.node.ledger.done, job.node.ledger.logged) == (1, 0)
    job.propose(layout_of(FIRST, 1))
    early = job.node.step(e.EpochsRead(job.epochs[-1:], len(job.epochs)), 0)
    job.write([each for each in early if isinstance(each, AppendCalls)])
    assert not of_kind(job, MovedState), "the barriers of epoch 1 may be lost with this node"
    job.write([*own, *early])
    job.settle()
    job.check(1)


def test_what_long_calls_are_remembered_by_says_where_their_keys_live() -> None:
    job = Job().filled()
    kept = [given.call for each in job.node.partitions.values() for _, _, given in each.replies.remembered()]
    assert sum(isinstance(call, bytes) for call in kept) == len(KEYS) // 2
    assert {entity_of(call) for call in kept} == {("counter", key) for key in KEYS}
    long = next(call for call in kept if isinstance(call, bytes))
    assert entity_of(long[:DIGEST_BYTES]) is None, "as releases before this one have named it"
    assert not of_kind(job, Calls)
