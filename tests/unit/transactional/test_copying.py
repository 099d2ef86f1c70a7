"""Copies ahead of a move: what is sent while the old homes serve, what is left for the move, and who goes on."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from msgspec.structs import replace

from tests.unit.transactional.test_moving import FIRST, GROUP, KEYS, WINDOW, Job, layout_of, of_kind, program
from transactional import events as e
from transactional.epochs.appends import Append, AppendCalls
from transactional.epochs.layout_messages import Copied, CopyArrived, Handover, NewLayout, PlannedLayout, copies_epoch
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import MovedState, call_message, to_bytes
from transactional.epochs.sequencer import EpochConfig
from transactional.layout import Layout
from transactional.node import TransactionNode
from transactional.requests.requests import WireRequest, request_record
from transactional.state.copying import PATIENCE
from transactional.state.restored import restored_state

LAYOUT = layout_of(FIRST, 3)
MOVING = {key for key in KEYS if LAYOUT.homes_of(GROUP)[GROUP.bucket(key)] == 2}


class Copying(Job):
    """A job whose third partition is there already. Each batch of copies holds one key, or one reply."""

    config = EpochConfig(inline_bytes=0, copy_bytes=1)
    loses_copies: Collection[int] = ()
    """Copies to these partitions do not reach the log."""
    lost: Sequence[Append] = ()

    def write(self, appends: Sequence[Append], lost: Collection[type[Append]] = ()) -> None:
        self.lost = [*self.lost, *(each for each in appends if _is_copy(each, self.loses_copies))]
        super().write([each for each in appends if not _is_copy(each, self.loses_copies)], lost)

    def plan(self, layout: Layout = LAYOUT) -> None:
        self.epochs.append(to_bytes(PlannedLayout(layout)))

    def touch(self, name: str) -> None:
        """An epoch passes, in which this key, or one that stays, is written."""
        self.ask(f"t{len(self.requests)}", name)
        self.run(3)

    def run(self, turns: int) -> None:
        """Time passes, and nothing else."""
        for _ in range(turns):
            self.settle()

    def moved(self) -> list[MovedState]:
        """Records of the moves themselves."""
        return [each for each in of_kind(self, MovedState) if each.epoch < copies_epoch(0)]

    def remove(self, key: str) -> None:
        self.requests.append(request_record(WireRequest(f"d{key}", "counter", key, "remove", [])))
        self.settle()


def _is_copy(append: Append, to: Collection[int]) -> bool:
    is_call = isinstance(append, AppendCalls) and append.partition in to
    return is_call and isinstance(call_message(append.value), MovedState)


STAYS = next(key for key in KEYS if key not in MOVING)


class Patient(Copying):
    """No further sweep is worth it: what is written after the second is part of the move."""

    config = EpochConfig(inline_bytes=0)


def ends(job: Copying) -> None:
    """All is copied, and moves."""
    assert job.node.ledger.copies.are_ready
    job.propose(LAYOUT)
    job.settle()
    job.check(3)


def planned(kind: type[Copying]) -> Copying:
    """All keys are where the first layout has them, and the next one is planned."""
    job = kind()
    job.filled()
    job.add_partition(2)
    job.plan()
    return job


def copying(kind: type[Copying] = Copying) -> Copying:
    """All is copied once and again, as of an epoch."""
    job = planned(kind)
    job.touch(STAYS)
    job.settle()
    assert job.node.ledger.copies.are_ready
    return job


def test_keys_and_replies_are_copied_while_the_layout_before_holds_and_nothing_of_them_is_left_for_the_move() -> None:
    job = copying()
    assert len(MOVING) >= 3 and job.node.ledger.layouts.newest.number == 0
    copied = of_kind(job, MovedState)
    assert {key for each in copied for _, key, _ in each.rows} == MOVING
    assert {state.id for each in copied for state in each.replies} == {f"r{key}" for key in MOVING}
    assert all(len(each.rows) + len(each.replies) == 1 for each in copied), "a batch is as small as it can be"
    job.propose(LAYOUT)
    job.settle()
    job.check(3)
    assert not [each for each in job.moved() if each.rows or each.replies], "only the order of replies is left"
    handovers = of_kind(job, Handover)
    assert sum(each.keys for each in handovers) == sum(each.replies for each in handovers) == len(MOVING)


@pytest.mark.parametrize("kind", [Copying, Patient])
@pytest.mark.parametrize("renewed", [False, True])
def test_what_is_written_after_its_copy_moves_with_the_layout_and_so_does_the_news_that_it_was_deleted(
    kind: type[Copying],
    renewed: bool,
) -> None:
    job = copying(kind)
    changed, deleted = sorted(MOVING)[:2]
    job.ask("again", changed)
    job.remove(deleted)
    if renewed:
        job.node = job.begin(job.snapshots(whole=True))
        job.write(job.node.step(e.SequencerTaken(0), 0))
    job.propose(LAYOUT)
    job.settle()
    rows = {key: value for each in of_kind(job, MovedState) for _, key, value in each.rows}
    assert rows[deleted] is None and rows[changed] is not None
    store = dict(job.node.partitions[2].store.everything())
    assert set(store) == {("counter", key) for key in MOVING - {deleted}}
    assert store["counter", changed] == rows[changed]


@pytest.mark.parametrize("loses", [False, True])
def test_the_next_owner_goes_on_where_the_log_stands_and_knows_what_was_written(loses: bool) -> None:
    job = planned(Copying)
    job.touch(STAYS)
    changed = sorted(MOVING)[0]
    job.touch(changed)
    states = job.snapshots(whole=True)
    assert any(state.written for state in states.values()) or job.node.ledger.copies.are_ready
    job.loses_copies = {2} if loses else ()
    job.touch(sorted(MOVING)[1])
    job.loses_copies = ()
    job.node = job.begin(states)
    job.write(job.node.step(e.SequencerTaken(0), 0))
    job.run(3 * PATIENCE)
    ends(job)
    counts = {key: value for (_, key), value in job.node.partitions[2].store.everything()}
    assert counts[changed] == counts[sorted(MOVING)[1]] != counts[sorted(MOVING)[2]], "both were written twice"


def test_a_batch_of_a_dead_owner_that_never_arrives_is_made_again() -> None:
    job = planned(Copying)
    job.loses_copies = {2}
    job.touch(STAYS)
    assert of_kind(job, Copied) and not of_kind(job, MovedState) and not of_kind(job, CopyArrived)
    job.loses_copies = ()
    states = job.snapshots(whole=True)
    job.node = job.begin(states)
    job.write(job.node.step(e.SequencerTaken(0), 0))
    job.run(3 * PATIENCE)
    ends(job)


def test_a_target_acknowledges_again_when_another_owner_sends_it_the_same() -> None:
    job = Patient()
    job.filled()
    for number in (2, 3):
        job.add_partition(number)
    homes = {GROUP.bucket(key): to for key, to in (("k1", 2), ("k6", 3), ("k3", 2), ("k4", 3))}  # two of each source
    others = FIRST.homes_of(GROUP)
    job.plan(four := FIRST.changed({GROUP: tuple(homes.get(bucket, home) for bucket, home in enumerate(others))}))
    job.loses_copies = {3}
    job.touch(STAYS)
    (batch,), (lost,) = of_kind(job, Copied), job.lost
    assert of_kind(job, CopyArrived) and not job.node.ledger.copies.of(1, batch.partition).batches
    job.loses_copies = ()
    job.calls[3].append(lost.value)
    job.epochs.append(to_bytes(batch))  # of the next owner
    job.run(10)
    assert job.node.ledger.copies.are_ready
    job.propose(four)
    job.settle()
    job.check(4)


def test_a_target_without_an_owner_holds_up_no_other_partition_of_the_node() -> None:
    job = Copying()
    job.filled()
    for number in (2, 3):
        job.add_partition(number)
    job.loses_copies = {2}
    job.plan(swapped := FIRST.changed({GROUP: tuple(3 - home for home in FIRST.homes_of(GROUP))}))
    job.touch(STAYS)
    copies = job.node.ledger.copies
    assert copies.sender == 1 and not copies.of(1, 0).batches, "one at a time, as long as batches arrive soon"
    job.run(2 * PATIENCE)
    assert copies.of(1, 0).is_ready and not copies.of(1, 1).batches
    job.loses_copies, (lost,) = (), job.lost
    job.calls[2].append(lost.value)
    job.run(3)
    assert copies.are_ready
    job.propose(swapped)
    job.settle()
    job.check(4)


def test_the_planned_layout_alone_may_follow_and_copies_after_it_are_void() -> None:
    ledger = Ledger(program, 1)
    ledger.apply(to_bytes(PlannedLayout(LAYOUT)))
    ledger.apply(to_bytes(PlannedLayout(layout_of(FIRST, 1))))
    plan = ledger.layouts.open_plan
    assert plan is not None and plan.layout == LAYOUT, "the first of its number wins"
    ledger.apply(to_bytes(NewLayout(layout_of(FIRST, 1))))
    assert ledger.layouts.newest.number == 0, "it is not the planned one"
    batch = Copied(0, 1, 0, 0, 1, None, [], 0, 0)
    ledger.apply(to_bytes(NewLayout(LAYOUT)))
    ledger.apply(to_bytes(batch))
    assert ledger.layouts.newest.number == 1 and not ledger.copies.of(1, 0).batches


def read(*messages: Copied | CopyArrived) -> Ledger:
    ledger = Ledger(program, 1)
    ledger.apply(to_bytes(PlannedLayout(LAYOUT)))
    for each in messages:
        ledger.apply(to_bytes(each))
    return ledger


def batch(
    index: int, end: str | None, as_of: int = 3, sweep: int = 0, sends: Sequence[tuple[int, bytes]] = ()
) -> Copied:
    item = None if end is None else (2, -1, "counter", end)
    return Copied(0, 1, index, sweep, as_of, item, list(sends), 0, 0)


@pytest.mark.parametrize(
    "bad",
    [
        replace(batch(1, "b"), layout=2),
        replace(batch(1, "b"), partition=7),
        batch(2, "b"),
        batch(0, "b"),
        batch(1, "b", as_of=2),
        batch(1, "b", sweep=1),
        batch(1, "a"),
    ],
)
def test_a_batch_that_does_not_follow_the_others_is_void(bad: Copied) -> None:
    ledger = read(batch(0, "a"), bad)
    assert len(ledger.copies.of(1, 0).batches) == 1
    ledger.apply(to_bytes(batch(1, "b")))
    assert len(ledger.copies.of(1, 0).batches) == 2


def test_a_batch_of_an_epoch_before_the_plan_is_void() -> None:
    assert not read(batch(0, "a", as_of=0)).copies.of(1, 0).batches


def test_a_batch_counts_once_all_have_what_is_for_them_and_until_then_another_takes_its_place() -> None:
    sends = [(1, b"one"), (2, b"two")]
    first, second = batch(0, "a", sends=sends), batch(0, "b", sends=[(2, b"other")])
    one, two = CopyArrived(1, 1, 0, b"one"), CopyArrived(2, 1, 0, b"two")
    assert not read(first, one).copies.of(1, 0).batches
    assert read(first, one, two).copies.of(1, 0).batches == [first]
    assert not read(first, one, second, two).copies.of(1, 0).batches, "what is for the first does not count for it"
    assert read(first, second, CopyArrived(2, 1, 0, b"other")).copies.of(1, 0).batches == [second]
    assert not read(first, CopyArrived(0, 1, 0, b"one"), CopyArrived(2, 1, 0, b"two")).copies.of(1, 0).batches


def test_coverage_is_that_of_the_newest_sweep_that_has_come_to_the_item() -> None:
    copies = read(batch(0, "b", 3), batch(1, None, 4), batch(2, "a", 6, sweep=1)).copies.of(1, 0)
    found = {key: copies.as_of((2, -1, "counter", key)) for key in ("a", "aa", "b", "c")}
    assert found == {"a": 6, "aa": 3, "b": 3, "c": 4}
    assert copies.sweeps == 1 and not copies.is_ready
    only = read(batch(0, "b", 3)).copies.of(1, 0)
    assert only.as_of((2, -1, "counter", "c")) is None


def test_a_ledger_that_begins_at_a_snapshot_knows_the_plan_and_the_copies() -> None:
    sends = [(1, b"one"), (2, b"two")]
    ledger = read(batch(0, "a"), batch(1, "b", sends=sends), CopyArrived(1, 1, 0, b"one"))
    again = Ledger.restored(program, 1, ledger.snapshot())
    assert again.snapshot() == ledger.snapshot() and again.layouts.open_plan is not None
    again.apply(to_bytes(CopyArrived(2, 1, 0, b"two")))
    assert len(again.copies.of(1, 0).batches) == 2


def test_a_target_keeps_the_calls_back_to_the_first_copy_until_the_epoch_of_the_move_is_over() -> None:
    job = copying()
    target = job.node.partitions[2]
    first = next(at for at, value in enumerate(job.calls[2]) if isinstance(call_message(value), MovedState))
    job.touch(sorted(MOVING)[0])
    assert target.position > target.calls_needed == first
    job.node.step(e.SequencerLost(0), 0)
    job.propose(LAYOUT)
    job.settle()
    assert target.store.everything() and target.calls_needed == first, "a snapshot may be older than the move"
    job.write(job.node.step(e.SequencerTaken(0), 0))
    job.settle()
    assert target.calls_needed == target.position
    states = job.snapshots(whole=True)
    again = TransactionNode(program, 1, EpochConfig(inline_bytes=0), states[2].ledger)
    again.step(e.PartitionTaken(2, state=restored_state(states[2], id_window=WINDOW)), 0)
    late = [value for value in job.calls[2] if isinstance(call_message(value), MovedState)]
    again.step(e.CallsRead(2, list(range(len(late))), late), 0)
    assert not len(again.partitions[2].received), "copies to homes that hold are of no use"


def test_another_sweep_follows_while_other_partitions_still_copy() -> None:
    job = copying()
    before = len(of_kind(job, Copied))
    job.touch(sorted(MOVING)[0])
    job.touch(STAYS)
    more = of_kind(job, Copied)[before:]
    assert more and {each.sweep for each in more} == {2}, "what was written since is copied again"
