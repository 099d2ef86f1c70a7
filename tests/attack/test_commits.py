"""Commits on the log that inflate without end, or are none, delay no start: an epoch without one is run again."""

from __future__ import annotations

import zlib

import pytest

from transactional.epochs.appends import AppendCommit
from transactional.epochs.messages import BadRecord, Commit, RecordPiece, commit_message, to_bytes
from transactional.epochs.pieces import PIECE_BYTES, READ_RATIO, WHOLE_BYTES, WRITTEN_RATIO, RecordPieces, travelling
from transactional.state import logged_commits
from transactional.state.logged_commits import LoggedCommits
from transactional.state.values import digest


def commit(epoch: int, value: bytes = b"v", partition: int = 1) -> Commit:
    return Commit(partition, epoch, 0, [("it", "k", value)], [], [])


def written(epoch: int, value: bytes) -> list[bytes]:
    """As a node writes it."""
    return [each.value for each in travelling([AppendCommit(1, to_bytes(commit(epoch, value)))])]


def bomb(epoch: int, size: int, ratio: int | None = None, level: int = 9, seed: int = 0) -> bytes:
    """A piece that says how long it becomes, and tells the truth."""
    whole = seed.to_bytes(8) + bytes(size - 8)
    data = zlib.compress(whole, level)
    if ratio is not None:
        data = data.ljust(size // ratio + 1, b"\0")
    return to_bytes(RecordPiece(epoch, digest(whole), digest(data), 0, 1, size, data))


class Counted:
    """The result of ``decompressobj``, with a count of the bytes that come out."""

    total = 0

    def __init__(self) -> None:
        self._real = zlib._real_decompressobj()  # type: ignore[attr-defined]

    def decompress(self, data: bytes, most: int) -> bytes:
        found = self._real.decompress(data, most)
        Counted.total += len(found)
        return found


@pytest.fixture
def inflated(monkeypatch: pytest.MonkeyPatch) -> type[Counted]:
    """Counts all bytes that are inflated from now on."""
    monkeypatch.setattr(zlib, "_real_decompressobj", zlib.decompressobj, raising=False)
    monkeypatch.setattr(zlib, "decompressobj", Counted)
    Counted.total = 0
    return Counted


def test_commits_are_unpacked_only_when_their_epoch_comes(inflated: type[Counted]) -> None:
    commits = LoggedCommits(1, 5)
    for value in [*written(4, b"x" * 100_000), *written(6, b"x" * 100_000), bomb(9, 1 << 20, WRITTEN_RATIO)]:
        commits.add(value)
    assert commits.take(5) is None and inflated.total == 0
    found = commits.take(6)
    assert found is not None and found.writes[0][2] == b"x" * 100_000
    assert inflated.total < 110_000 and len(commits) == 1, "the one of epoch 9 waits"


def test_a_bomb_is_refused_by_its_size_alone(inflated: type[Counted]) -> None:
    commits = LoggedCommits(1, 1)
    for number in range(200):
        commits.add(bomb(1, 1 << 16, seed=number))
    commits.add(to_bytes(RecordPiece(1, b"w", b"n", 0, 1, WHOLE_BYTES, zlib.compress(bytes(1 << 20), 9))))
    commits.add(to_bytes(commit(1, b"right")))
    found = commits.take(1)
    assert found is not None and found.writes[0][2] == b"right"
    assert (commits.bad, inflated.total) == (201, 0)


def test_what_is_inflated_in_vain_is_bounded_for_a_partition(
    inflated: type[Counted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged_commits, "WASTED_BYTES", 1 << 20)
    commits = LoggedCommits(1, 1)
    for epoch in range(1, 65):
        commits.add(bomb(epoch, 1 << 17, WRITTEN_RATIO - 1, seed=epoch))
        commits.add(to_bytes(commit(epoch)))
    assert all(commits.take(epoch) is not None for epoch in range(1, 65)), "plain ones are found all the same"
    assert commits.bad == 64 and inflated.total <= (1 << 20) + 64


def test_only_commits_of_the_epoch_and_partition_count() -> None:
    commits = LoggedCommits(1, 1)
    other = commit(2)
    forged = RecordPiece(1, digest(to_bytes(other)), b"n", 0, 1, None, to_bytes(other))
    for value in [to_bytes(commit(1, partition=2)), to_bytes(forged)]:
        commits.add(value)
    assert commits.take(1) is None
    for garbage in (b"", b"\xc1", b"\x93\xa6commit", b"\x90" * 10_000):
        with pytest.raises(BadRecord):
            commits.add(garbage)


def test_what_compresses_without_end_is_written_so_that_it_is_read() -> None:
    value = bytes(40 * PIECE_BYTES)
    records = written(7, value)
    sent = sum(map(len, records))
    assert len(value) / WRITTEN_RATIO <= sent < 1.1 * len(value) / WRITTEN_RATIO
    commits = LoggedCommits(1, 1)
    for each in records:
        commits.add(each)
    found = commits.take(7)
    assert found is not None and found.writes[0][2] == value and commits.bad == 0


def test_other_topics_refuse_bombs_and_read_what_earlier_releases_wrote(inflated: type[Counted]) -> None:
    with pytest.raises(BadRecord, match=f"more than {READ_RATIO} times"):
        pieces, found = RecordPieces(), commit_message(bomb(1, 1 << 20))
        assert isinstance(found, RecordPiece)
        pieces.take(found)
    assert inflated.total == 0
    earlier = commit_message(bomb(1, 1 << 24, level=1))
    assert isinstance(earlier, RecordPiece)
    whole = RecordPieces().take(earlier)
    assert whole is not None and len(whole) == 1 << 24
