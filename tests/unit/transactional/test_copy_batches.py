"""Batches of copies by the pace of their node: long ones leave record by record, and count as a whole."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from msgspec.structs import replace

from tests.unit.transactional.test_copying import LAYOUT, MOVING, STAYS, Copying, ends, planned
from tests.unit.transactional.test_moving import FIRST, GROUP, KEYS, of_kind, program
from transactional import events as e
from transactional.epochs.appends import Append, AppendCalls, AppendEpochs
from transactional.epochs.layout_messages import Copied, CopyArrived, NewLayout, PlannedLayout
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import MovedState, RecordPiece, call_message, epoch_messages, to_bytes
from transactional.epochs.pieces import RecordPieces, travelling
from transactional.epochs.sequencer import EpochConfig
from transactional.state.copying import PATIENCE

ALL_BYTES = 1 << 20
"""More than all that moves."""


class FirstLost(Copying):
    """The first copy of all does not reach the log."""

    first: Append | None = None

    def write(self, appends: Sequence[Append], lost: Collection[type[Append]] = ()) -> None:
        kept = list(appends)
        for each in appends:
            is_copy = isinstance(each, AppendCalls) and isinstance(call_message(each.value), MovedState)
            if is_copy and self.first is None:
                self.first = each
                kept.remove(each)
        super().write(kept, lost)


def paced(kind: type[Copying], batch_bytes: int = ALL_BYTES) -> Copying:
    """Planned, and batches may have so much."""
    job = planned(kind)
    job.node.receive(e.CopiesPaced(batch_bytes))
    return job


def test_a_long_batch_leaves_an_item_in_each_step_and_is_acknowledged_as_a_whole() -> None:
    job = paced(Copying)
    job.touch(STAYS)
    job.run(3)
    sources = {each.partition for each in of_kind(job, Copied)}
    batches = [each for each in of_kind(job, Copied) if each.sends]
    assert len(batches) == len(sources), "one each, and an empty one that ends the second sweep"
    assert sum(len(each.sends) for each in batches) == 2 * len(MOVING), "keys and replies"
    assert all(len(each.rows) + len(each.replies) == 1 for each in of_kind(job, MovedState))
    arrived = [(each.source, each.name) for each in of_kind(job, CopyArrived)]
    assert sorted(arrived) == sorted((each.partition, name) for each in batches for _, name in each.sends)
    ends(job)


def test_batches_are_as_long_as_the_pace_says_when_they_are_made() -> None:
    job = paced(Copying, 200)
    job.touch(STAYS)
    job.run(9)
    counts = [len(each.sends) for each in of_kind(job, Copied) if each.sends]
    assert max(counts) > 1 and len(counts) > 2, counts
    ends(job)


def test_while_transactions_run_a_part_of_a_batch_leaves_an_epoch() -> None:
    job = paced(Copying, 1)
    job.loses_copies = {2}
    job.touch(STAYS)
    job.run(2 * PATIENCE)  # partition 0 sends too, which has more to send
    batch = next(each for each in of_kind(job, Copied) if each.partition == 0)
    job.loses_copies = ()
    job.calls[2] += [each.value for each in job.lost if isinstance(each, AppendCalls)]
    job.epochs += [to_bytes(CopyArrived(to, 1, batch.partition, name)) for to, name in batch.sends]
    job.node.receive(e.CopiesPaced(ALL_BYTES))
    job.ask("more", next(key for key in KEYS if FIRST.homes_of(GROUP)[GROUP.bucket(key)] == 0))
    for _ in range(3):
        job.settle(reads_calls=False)  # so the epoch cannot end
    assert {each.index for each in of_kind(job, MovedState)} == {0, 1}
    assert not [each for each in of_kind(job, Copied) if each.index], "the second batch is begun, and waits"
    assert not any(each.is_sending for each in job.node.partitions.values()), "only the epoch's end brings more"
    job.run(9)
    ends(job)


def test_a_batch_counts_once_all_of_its_records_have_arrived() -> None:
    job = paced(FirstLost)
    job.touch(STAYS)
    assert isinstance(job, FirstLost) and isinstance(job.first, AppendCalls)
    source = call_message(job.first.value)
    assert isinstance(source, MovedState)
    assert of_kind(job, CopyArrived) and not job.node.ledger.copies.of(1, source.source).batches
    job.calls[2].append(job.first.value)
    job.run(9)
    names = [each.name for each in of_kind(job, CopyArrived)]
    assert len(names) == len(set(names)), "each once"
    ends(job)


@pytest.mark.parametrize("at_once", [False, True])
def test_the_batch_of_another_owner_that_ends_sooner_counts_and_the_next_one_begins_there(*, at_once: bool) -> None:
    """Whether it is read before it has arrived, or together with that."""
    job = paced(Copying)
    job.loses_copies = {2}
    job.touch(STAYS)
    own = next(each for each in of_kind(job, Copied) if len(each.sends) > 1)
    data = next(each.value for each in job.lost if isinstance(each, AppendCalls))
    first = call_message(data)
    assert isinstance(first, MovedState) and first.source == own.partition
    job.loses_copies = ()
    operator, key, _ = first.rows[0]
    job.calls[2].append(data)
    job.epochs.append(to_bytes(replace(own, end=(2, -1, operator, key), sends=own.sends[:1], left=1)))
    if at_once:
        job.epochs.append(to_bytes(CopyArrived(2, 1, own.partition, own.sends[0][1])))
    job.run(100)
    copies = job.node.ledger.copies.of(1, own.partition)
    assert len(copies.batches[0].sends) == 1, "the other owner's counts"
    assert {name for each in copies.batches for _, name in each.sends}.issuperset(own.sends[0][1:])
    ends(job)
    assert job.node.ledger.layouts.newest == LAYOUT


class CompressedCopying(Copying):
    """Records of batches are compressed, or travel in pieces."""

    config = EpochConfig(inline_bytes=0, copy_bytes=1, compress_bytes=120, piece_bytes=60)


def test_a_batch_with_many_records_counts_although_its_own_is_long_and_many_epochs_are_over() -> None:
    """Its pieces named the layout as their epoch, which was over: they were dropped, and the move never ended."""
    job = CompressedCopying()
    job.filled()
    job.add_partition(2)
    for _ in range(4):
        job.touch(STAYS)
    job.plan()
    job.node.receive(e.CopiesPaced(ALL_BYTES))
    job.touch(STAYS)
    job.run(3)
    copies = job.node.ledger.copies
    assert job.node.ledger.done > LAYOUT.number and copies.are_ready
    assert max(len(each.sends) for source in (0, 1) for each in copies.of(LAYOUT.number, source).batches) > 5
    job.propose(LAYOUT)
    job.settle()
    job.check(3)


def test_pieces_of_a_batch_are_kept_until_its_layout_holds_and_no_longer() -> None:
    batch = Copied(0, LAYOUT.number, 0, 0, 1, None, [(2, b"%08d" % number) for number in range(100)], 0, 0)
    parts = [each.value for each in travelling([AppendEpochs(to_bytes(batch))], 120, 60)]
    (piece,) = epoch_messages(parts[0])
    assert len(parts) > 2 and isinstance(piece, RecordPiece)
    ledger, late = Ledger(program, 1), Ledger(program, 1)
    for each in (ledger, late):
        each.apply(to_bytes(PlannedLayout(LAYOUT)))
    for part in parts:
        ledger.apply(part)
    assert ledger.copies.pending(LAYOUT.number)[0].batch == batch
    late.apply(to_bytes(NewLayout(LAYOUT)))
    for part in parts:
        late.apply(part)
    assert not late.snapshot().pieces and not late.copies.pending(LAYOUT.number)
    pieces = RecordPieces([piece])
    pieces.forget(1_000, LAYOUT.number - 1)
    assert pieces.kept() == [piece]
    pieces.forget(0, LAYOUT.number)
    assert not pieces.kept()
