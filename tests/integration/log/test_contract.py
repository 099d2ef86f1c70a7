"""The contract of every log (nodes/log/contract.py); runs on each implementation in log_makers.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.log import (
    Log,
    LogError,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicExists,
    TopicPartition,
    UnknownTopic,
)
from tests.integration.log_makers import MAKERS, READERS, HandClock, Maker

PLENTY_S = 60.0
NOTHING_S = 0.05
CLOCKED = pytest.mark.parametrize("maker", [name for name in sorted(MAKERS) if MAKERS[name].has_clock], indirect=True)
READING = pytest.mark.parametrize("maker", sorted(READERS), indirect=True)
SHARED = pytest.mark.parametrize("maker", [name for name in sorted(MAKERS) if MAKERS[name].shared], indirect=True)


@pytest.fixture(params=sorted(MAKERS))
def maker(request: pytest.FixtureRequest) -> Maker:
    return READERS[request.param]


@pytest.fixture
def log(maker: Maker, tmp_path: Path) -> Iterator[Log]:
    with maker.make(tmp_path / "log", None) as log:
        log.create_topic("t", 3)
        yield log


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def read_all(log: Log, partition: int = 0, **limits: int) -> list[bytes]:
    values, offset = [], log.start_offset("t", partition)
    while offset < log.end_offset("t", partition):
        chunk = log.read("t", partition, offset, **limits)
        assert len(chunk) >= 1
        assert chunk.next_offset > offset
        values += chunk.values
        offset = chunk.next_offset
    return values


class TestTopics:
    def test_are_listed_by_name_with_their_partitions(self, log: Log) -> None:
        log.create_topic("b.2_x-y", 1)
        log.create_topic("a", 2)
        assert list(log.topics().items()) == [("a", 2), ("b.2_x-y", 1), ("t", 3)]
        assert log.partitions("a") == 2

    def test_can_be_created_again_alike_and_keep_their_records(self, log: Log) -> None:
        log.append("t", 1, [b"kept"])
        log.create_topic("t", 3)
        assert log.read("t", 1, 0).values == [b"kept"]

    def test_are_refused_with_another_number_of_partitions(self, log: Log) -> None:
        with pytest.raises(TopicExists, match="3 partitions, not 4"):
            log.create_topic("t", 4)

    def test_can_be_enlarged_and_keep_their_records(self, log: Log) -> None:
        log.append("t", 2, [b"kept"])
        log.add_partitions("t", 3)
        log.add_partitions("t", 5)
        log.add_partitions("t", 5)
        assert log.partitions("t") == 5 and log.read("t", 2, 0).values == [b"kept"]
        assert [log.append("t", 4, [b"new"]).first_offset, log.start_offset("t", 3), log.end_offset("t", 3)] == [0] * 3
        assert log.read("t", 4, 0).values == [b"new"]
        log.create_topic("t", 5)
        with pytest.raises(UnknownTopic, match="0 to 4"):
            log.append("t", 5, [b"x"])

    def test_keep_all_their_partitions(self, log: Log) -> None:
        with pytest.raises(TopicExists, match="3 partitions and keeps them: 2 are fewer"):
            log.add_partitions("t", 2)
        with pytest.raises(UnknownTopic, match="nearest: t"):
            log.add_partitions("tt", 4)
        assert log.partitions("t") == 3

    @SHARED
    def test_that_another_instance_enlarges_can_be_used_at_once(self, log: Log, maker: Maker, tmp_path: Path) -> None:
        with maker.make(tmp_path / "log", None) as other:
            other.send("t", 0, [b"old"])
            other.poll_acks(wait=True)
            assert other.read("t", 0, 0).values == [b"old"]
            log.add_partitions("t", 4)
            other.send("t", 3, [b"new"])
            other.poll_acks(wait=True)
            assert other.wait({TopicPartition("t", 3): 0}, PLENTY_S) and other.partitions("t") == 4
            assert other.read("t", 3, 0).values == log.read("t", 3, 0).values == [b"new"]

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../t", "a b", "ä", "x" * 201, "a\n", "a\0"])
    def test_with_impossible_names_are_refused(self, log: Log, name: str) -> None:
        with pytest.raises(ValueError, match="topic name"):
            log.create_topic(name, 1)

    def test_without_partitions_are_refused(self, log: Log) -> None:
        with pytest.raises(ValueError, match="0 partitions"):
            log.create_topic("none", 0)

    def test_that_do_not_exist_are_named_with_the_nearest(self, log: Log) -> None:
        log.create_topic("orders", 1)
        for use in (
            lambda: log.read("order", 0, 0),
            lambda: log.append("order", 0, [b"x"]),
            lambda: log.end_offset("order", 0),
            lambda: log.partitions("order"),
            lambda: log.wait({TopicPartition("order", 0): 0}, 0),
        ):
            with pytest.raises(UnknownTopic, match="orders"):
                use()

    @pytest.mark.parametrize("partition", [-1, 3])
    def test_have_no_other_partitions(self, log: Log, partition: int) -> None:
        with pytest.raises(UnknownTopic, match=f"no partition {partition}"):
            log.append("t", partition, [b"x"])


class TestAppend:
    def test_gives_consecutive_offsets_from_zero_in_each_partition(self, log: Log) -> None:
        assert log.append("t", 0, numbered(0, 5))[:2] == (0, 5)
        assert log.append("t", 0, numbered(5, 1))[:2] == (5, 1)
        assert log.append("t", 2, numbered(0, 2))[:2] == (0, 2)
        assert [log.end_offset("t", partition) for partition in range(3)] == [6, 0, 2]

    @READING
    def test_keeps_every_column(self, log: Log) -> None:
        first = log.append("t", 0, [b"a", b"", b"c"], headers=[b"", b"\x00h", b""], keys=[None, b"", b"k"])
        second = log.append("t", 0, [b"plain"])
        chunk = log.read("t", 0, 0)
        assert chunk.values == [b"a", b"", b"c", b"plain"]
        assert chunk.headers == [b"", b"\x00h", b"", b""]
        assert chunk.keys == [None, b"", b"k", None]
        assert chunk.offsets.tolist() == [0, 1, 2, 3]
        assert chunk.timestamps_ms.tolist() == [first.timestamp_ms] * 3 + [second.timestamp_ms]
        assert chunk.next_offset == 4

    def test_without_keys_reads_back_without_keys(self, log: Log) -> None:
        log.append("t", 0, [b"a", b"b"], keys=[None, None], headers=[b"", b""])
        chunk = log.read("t", 0, 0)
        assert chunk.keys is None
        assert chunk.headers == [b"", b""]

    def test_of_nothing_changes_nothing(self, log: Log) -> None:
        log.append("t", 0, [b"a"])
        assert log.append("t", 0, [])[:2] == (1, 0)
        assert log.end_offset("t", 0) == 1

    @pytest.mark.parametrize("sizes", [[1] * 20_000, [70_000] * 5, [5 << 20], [0] * 5000, [100, 300_000, 100]])
    def test_takes_small_and_large_records(self, log: Log, sizes: list[int]) -> None:
        values = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
        log.append("t", 0, values)
        assert read_all(log) == values

    def test_refuses_a_record_above_the_limit_with_its_batch(self, log: Log, maker: Maker) -> None:
        with pytest.raises(RecordTooLarge, match=rf"'whale'.* {maker.max_record_bytes + 6} bytes"):
            log.append("t", 0, [b"small", bytes(maker.max_record_bytes + 1)], keys=[None, b"whale"])
        assert log.end_offset("t", 0) == 0

    def test_refuses_columns_of_different_length(self, log: Log) -> None:
        with pytest.raises(ValueError, match="2 values but 1 keys"):
            log.append("t", 0, [b"a", b"b"], keys=[b"k"])
        with pytest.raises(ValueError, match="1 values but 2 headers"):
            log.append("t", 0, [b"a"], headers=[b"", b""])
        assert log.end_offset("t", 0) == 0

    @pytest.mark.parametrize("wrong", ["text", 1, None, bytearray(b"x")])
    def test_refuses_what_is_not_bytes(self, log: Log, wrong: object) -> None:
        with pytest.raises(TypeError, match="records are bytes"):
            log.append("t", 0, [b"good", wrong])  # type: ignore[list-item]
        assert log.end_offset("t", 0) == 0

    @CLOCKED
    def test_times_never_run_backwards(self, maker: Maker, tmp_path: Path) -> None:
        clock = HandClock(5000)
        with maker.make(tmp_path / "log", clock) as log:
            log.create_topic("t", 2)
            for now_ms in (5000, 4000, 6000, 1000):
                clock.now_ms = now_ms
                log.append("t", 0, [b"x"])
            assert log.read("t", 0, 0).timestamps_ms.tolist() == [5000, 5000, 6000, 6000]
            assert log.append("t", 1, [b"x"]).timestamp_ms == 1000


@READING
class TestRead:
    @pytest.mark.parametrize("max_records", [1, 7, 100, 1000, 5000])
    def test_gives_the_same_records_in_pieces_of_any_size(self, log: Log, max_records: int) -> None:
        values = numbered(0, 2000)
        for start in range(0, 2000, 400):
            log.append("t", 0, values[start : start + 400])
        assert read_all(log, max_records=max_records) == values

    def test_starts_at_any_offset(self, log: Log) -> None:
        for start in range(0, 60, 20):
            log.append("t", 0, numbered(start, 20), keys=numbered(start, 20))
        for offset in (0, 1, 19, 20, 21, 39, 59):
            chunk = log.read("t", 0, offset, max_records=3)
            assert chunk.values == numbered(offset, min(3, 60 - offset))
            assert chunk.keys == chunk.values
            assert chunk.offsets.tolist() == list(range(offset, chunk.next_offset))

    def test_keeps_to_the_bytes_but_gives_at_least_one(self, log: Log) -> None:
        log.append("t", 0, [bytes(1000)] * 10, keys=[bytes(24)] * 10)
        assert len(log.read("t", 0, 0, max_bytes=3 * 1024)) == 3
        assert len(log.read("t", 0, 0, max_bytes=3 * 1024 - 1)) == 2
        assert len(log.read("t", 0, 0, max_bytes=1)) == 1
        assert len(read_all(log, max_bytes=2500)) == 10

    def test_goes_to_an_end_that_was_told_however_soon_after_another_read(self, log: Log) -> None:
        for number in range(50):
            assert len(log.read("t", 0, number)) == 0
            log.append("t", 0, [b"v"])
            assert log.end_offset("t", 0) == number + 1
            assert len(log.read("t", 0, number)) == 1

    def test_sees_what_was_appended_here_however_soon_after_another_read(self, log: Log) -> None:
        for number in range(50):
            assert len(log.read("t", 0, number)) == 0
            log.append("t", 0, [b"v"])
            assert len(log.read("t", 0, number)) == 1

    def test_at_the_end_is_empty(self, log: Log) -> None:
        assert log.read("t", 0, 0).next_offset == 0
        log.append("t", 0, [b"a", b"b"])
        chunk = log.read("t", 0, 2)
        assert (len(chunk), chunk.values, chunk.offsets.tolist(), chunk.next_offset) == (0, [], [], 2)

    @pytest.mark.parametrize("offset", [-1, 3, 10**12])
    def test_an_offset_out_of_range_is_refused_with_what_is_there(self, log: Log, offset: int) -> None:
        log.append("t", 0, [b"a", b"b"])
        with pytest.raises(OffsetOutOfRange, match=rf"'t' partition 0: .*offset {offset}; .* 0 to 1"):
            log.read("t", 0, offset)


class TestDeletion:
    @pytest.mark.parametrize("offset", [0, 1, 9, 10, 15, 29])
    def test_drops_what_is_below_and_nothing_else(self, log: Log, offset: int) -> None:
        for start in range(0, 30, 10):
            log.append("t", 0, numbered(start, 10), headers=numbered(start, 10))
        assert log.delete_before("t", 0, offset) == offset
        assert (log.start_offset("t", 0), log.end_offset("t", 0)) == (offset, 30)
        assert read_all(log) == numbered(offset, 30 - offset)
        assert log.read("t", 0, offset).headers == numbered(offset, 30 - offset)
        if offset:
            with pytest.raises(OffsetOutOfRange, match=f"{offset} to 29"):
                log.read("t", 0, offset - 1)

    def test_of_everything_keeps_the_offsets_going(self, log: Log) -> None:
        log.append("t", 0, numbered(0, 10))
        assert log.delete_before("t", 0, 10) == 10
        assert (log.start_offset("t", 0), log.end_offset("t", 0)) == (10, 10)
        assert len(log.read("t", 0, 10)) == 0
        with pytest.raises(OffsetOutOfRange, match="nothing"):
            log.read("t", 0, 9)
        assert log.append("t", 0, numbered(10, 2)).first_offset == 10
        assert log.start_offset("t", 0) == 10
        assert read_all(log) == numbered(10, 2)
        assert log.delete_before("t", 0, 12) == 12
        assert log.append("t", 0, [b"x"]).first_offset == 12

    def test_cannot_go_back_or_beyond_the_end(self, log: Log) -> None:
        log.append("t", 0, numbered(0, 10))
        log.delete_before("t", 0, 5)
        assert log.delete_before("t", 0, 3) == 5
        with pytest.raises(OffsetOutOfRange):
            log.delete_before("t", 0, 11)
        assert log.start_offset("t", 0) == 5

    @CLOCKED
    def test_by_age_keeps_what_is_young(self, maker: Maker, tmp_path: Path) -> None:
        clock = HandClock(0)
        with maker.make(tmp_path / "log", clock) as log:
            log.create_topic("t", 1, retention_ms=1000)
            for now_ms in range(0, 5000, 100):
                clock.now_ms = now_ms
                log.append("t", 0, [b"%d" % now_ms])
            assert read_all(log) == [b"%d" % now_ms for now_ms in range(3900, 5000, 100)]
            clock.now_ms = 60_000
            log.append("t", 0, [b"last"] * 3)
            assert read_all(log)[-3:] == [b"last"] * 3
            with pytest.raises(OffsetOutOfRange):
                log.read("t", 0, 0)


class TestWait:
    def test_returns_at_once_when_there_is_a_record(self, log: Log) -> None:
        log.append("t", 1, [b"a"])
        assert log.wait({TopicPartition("t", 0): 0, TopicPartition("t", 1): 0}, PLENTY_S)

    def test_gives_up_in_time(self, log: Log) -> None:
        log.append("t", 0, [b"a"])
        assert not log.wait({TopicPartition("t", 0): 1, TopicPartition("t", 1): 0}, NOTHING_S)
        assert not log.wait({TopicPartition("t", 0): 1}, 0)
        assert not log.wait({}, 0)

    @SHARED
    def test_wakes_for_each_append_elsewhere(self, log: Log, maker: Maker, tmp_path: Path) -> None:
        other = maker.make(tmp_path / "log", None)
        rounds = 50

        def answer() -> None:
            for number in range(rounds):
                assert other.wait({TopicPartition("t", 0): number}, PLENTY_S)
                other.append("t", 1, [b"answer"])

        thread = threading.Thread(target=answer)
        thread.start()
        for number in range(rounds):
            log.append("t", 0, [b"question"])
            assert log.wait({TopicPartition("t", 2): 0, TopicPartition("t", 1): number}, PLENTY_S)
        thread.join()
        other.close()


class TestEnd:
    def test_flush_changes_nothing_that_is_seen(self, log: Log) -> None:
        log.append("t", 0, [b"a"])
        log.flush()
        assert log.read("t", 0, 0).values == [b"a"]

    def test_close_may_be_repeated_and_ends_all_use(self, log: Log) -> None:
        log.append("t", 0, [b"a"])
        log.close()
        log.close()
        for use in (
            lambda: log.append("t", 0, [b"b"]),
            lambda: log.read("t", 0, 0),
            lambda: log.end_offset("t", 0),
            lambda: log.topics(),
            lambda: log.create_topic("u", 1),
            lambda: log.wait({TopicPartition("t", 0): 0}, 0),
            lambda: log.flush(),
        ):
            with pytest.raises(LogError, match="closed"):
                use()
