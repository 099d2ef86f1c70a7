"""Long records of a transactional job: compressed, cut, put together, and damaged."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from tests.unit.txn_stage import Stage
from transactional import Context, Operator, Program
from transactional.epochs.appends import AppendCommit, AppendEpochs, AppendReply
from transactional.epochs.messages import BadRecord, Commit, RecordPiece, commit_message, epoch_messages, to_bytes
from transactional.epochs.pieces import COMPRESS_BYTES, PIECE_BYTES, WHOLE_BYTES, RecordPieces, travelling

LARGE = 600_000


def commit(size: int, seed: int = 0) -> bytes:
    """Of ``size`` bytes that do not compress."""
    return to_bytes(Commit(3, 7, 0, [("it", "k", Random(seed).randbytes(size))], [], []))


def cut(value: bytes, compress_bytes: int = 100, piece_bytes: int = 1_000) -> list[RecordPiece]:
    found = [commit_message(each.value) for each in travelling([AppendCommit(3, value)], compress_bytes, piece_bytes)]
    return [each for each in found if isinstance(each, RecordPiece)]


def test_short_records_and_replies_stay_as_they_are() -> None:
    appends = [AppendCommit(1, commit(50)), AppendReply(2, b"x" * 1_000_000), AppendEpochs(b"y")]
    assert travelling(appends) == appends
    incompressible = [AppendCommit(1, commit(COMPRESS_BYTES + 1))]
    assert travelling(incompressible) == incompressible


def test_a_long_record_is_compressed_where_that_pays() -> None:
    value = to_bytes(Commit(3, 7, 0, [("it", f"k{n}", b"value") for n in range(1_000)], [], []))
    (sent,) = travelling([AppendCommit(3, value)])
    assert len(sent.value) < len(value) / 2
    piece = commit_message(sent.value)
    assert isinstance(piece, RecordPiece) and piece.epoch == 7
    assert RecordPieces().take(piece) == value


def test_without_compression_a_record_is_cut_only_where_the_log_takes_no_such_record() -> None:
    value = to_bytes(Commit(3, 7, 0, [("it", f"k{n}", b"value") for n in range(1_000)], [], []))
    assert [each.value for each in travelling([AppendCommit(3, value)], WHOLE_BYTES)] == [value]
    parts, pieces = cut(value, WHOLE_BYTES, 1_000), RecordPieces()
    assert b"".join(each.data for each in parts) == value and len(parts) > 5, "as it is"
    assert [pieces.take(each) for each in parts][-1] == value


def test_pieces_of_several_writers_lead_to_the_record() -> None:
    value = commit(9_500)
    parts = cut(value)
    assert len(parts) > 5
    for seed in range(50):
        draw, pieces = Random(seed), RecordPieces()
        writers = [list(parts) for _ in range(3)]
        del writers[0][draw.randrange(len(parts)) :]  # one has died
        whole = []
        while any(writers):
            writer = draw.choice([each for each in writers if each])
            found = pieces.take(writer.pop(0))
            whole += [] if found is None else [found]
            pieces = RecordPieces(pieces.kept())  # as a snapshot and a restart have it
        assert value in whole, f"seed {seed}"
        assert set(whole) == {value}


def test_what_is_unfinished_goes_with_its_epoch() -> None:
    parts, pieces = cut(commit(9_500)), RecordPieces()
    for part in parts[:-1]:
        assert pieces.take(part) is None
    pieces.forget(7)
    assert len(pieces.kept()) == len(parts) - 1
    pieces.forget(8)
    assert pieces.kept() == []
    assert pieces.take(parts[-1]) is None and pieces.kept() == []


def test_pieces_that_do_not_fit_are_named() -> None:
    (piece,) = cut(to_bytes(Commit(3, 7, 0, [("it", "k", b"value" * 1_000)], [], [])), piece_bytes=5_000)
    piece = replace(piece, data=piece.data.rstrip(b"\0"))  # what follows the end of the stream is there to be lost
    for bad in (
        replace(piece, data=piece.data[: len(piece.data) // 2]),
        replace(piece, data=b"x" + piece.data),
        replace(piece, size=10),
        replace(piece, size=1 << 40),
        replace(piece, index=5),
        replace(piece, whole=b"12345678"),
    ):
        with pytest.raises(BadRecord):
            RecordPieces().take(bad)


def make_program() -> Program:
    it = Operator("it", partitions=3)

    @it.register
    async def write(ctx: Context, text: bytes) -> None:
        ctx.put(text)

    @it.register
    async def spread(ctx: Context, seed: int) -> None:
        for number in range(5):
            ctx.call_async(it, f"k{number}", write, [Random(seed + number).randbytes(LARGE)])

    @it.register
    async def read(ctx: Context) -> bytes:
        return ctx.get(b"")

    @it.register
    async def swap(ctx: Context, other: str) -> int:
        mine, theirs = ctx.get(b""), await ctx.call(it, other, read)
        ctx.put(theirs)
        await ctx.call(it, other, write, [mine])
        return len(theirs)

    return Program("long", [it])


@pytest.mark.slow
def test_calls_commits_and_shipments_longer_than_a_record_travel_and_survive_their_owner() -> None:
    """Five values of 600 kB: a commit of several, and a read-set snapshot of what two transactions swap at once."""
    program = make_program()
    stage = Stage(program)
    stage.start("one")
    stage.call("it", "k0", "spread", [1])
    names = [stage.client.send("it", f"k{n}", "swap", [f"k{(n + 1) % 5}"]) for n in range(5)]
    for _ in range(500):
        if all(name in stage.client.answered for name in names):
            break
        stage.client.receive(0.1)
    assert [stage.client.take(name) for name in names] == [LARGE] * 5
    topics = stage.topics
    longest = 0
    for topic in (topics.calls, topics.commits, topics.epochs):
        for partition in range(stage.log.partitions(topic)):
            values = stage.log.read(topic, partition, 0, max_records=1 << 20).values
            longest = max([longest, *map(len, values)])
            assert any(len(value) > PIECE_BYTES / 2 for value in values) or partition, topic
    assert PIECE_BYTES <= longest < PIECE_BYTES + 200
    logged = stage.log.read(topics.epochs, 0, 0, max_records=1 << 20).values
    assert any(isinstance(each, RecordPiece) for value in logged for each in epoch_messages(value))
    del stage.nodes["one"]
    other = stage.start("other")
    expected = Random(1).randbytes(LARGE)
    assert all(len(stage.call("it", f"k{n}", "read")) == len(expected) for n in range(5))
    assert sum(partition.committed for partition in other.node.partitions.values()) >= 6
