"""Several processes on one embedded log: order, crashes, growth, creation, waking."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from nodes.log import EmbeddedLog, LogError, TopicExists, TopicPartition
from nodes.log.embedded import log as embedded
from nodes.log.embedded.environment import FIRST_MAP_BYTES
from tests.integration.processes import PLENTY_S, children

MODULE = "tests.integration.log_child"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with EmbeddedLog(path) as log:
        log.create_topic("t", 2)
    return path


def read_all(log: EmbeddedLog, partition: int = 0) -> list[bytes]:
    values, offset = [], log.start_offset("t", partition)
    while chunk := log.read("t", partition, offset):
        assert chunk.offsets.tolist() == list(range(offset, chunk.next_offset))
        values += chunk.values
        offset = chunk.next_offset
    return values


def test_concurrent_writers_keep_their_order_and_leave_no_gap(path: Path) -> None:
    commands: list[tuple[object, ...]] = [("append", path, 0, name, 300, 7, 40) for name in "abc"]
    with children(MODULE, commands) as writers, EmbeddedLog(path) as log:
        for number in range(300):
            log.append("t", 0, [b"own:%d:" % number])
        assert [writer.finish() for writer in writers] == [0, 0, 0]
        values = read_all(log)
    by_name: dict[bytes, list[int]] = {}
    for value in values:
        name, number, _ = value.split(b":")
        by_name.setdefault(name, []).append(int(number))
    assert by_name == {b"own": list(range(300)), **{name: list(range(2100)) for name in (b"a", b"b", b"c")}}


def test_threads_of_one_process_share_a_log(path: Path) -> None:
    with EmbeddedLog(path) as log, EmbeddedLog(path) as twin:

        def work(name: bytes, use: EmbeddedLog) -> None:
            for number in range(300):
                done = use.append("t", 0, [b"%s:%d" % (name, number)])
                assert use.read("t", 0, done.first_offset, max_records=1).values == [b"%s:%d" % (name, number)]

        threads = [threading.Thread(target=work, args=(b"%d" % at, (log, twin)[at % 2])) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Counter(value.split(b":")[0] for value in read_all(log)) == {b"%d" % at: 300 for at in range(4)}


@pytest.mark.long
@pytest.mark.parametrize("batch", [1, 50])
def test_killed_writers_lose_nothing_acknowledged_and_leave_no_half_batch(path: Path, batch: int) -> None:
    acknowledged: dict[int, bytes] = {}
    for life in range(8):
        with children(MODULE, [("append", path, 0, f"life{life}", 0, batch, 300)]) as (writer,):
            assert writer.line() == "ready"
            lines = [writer.line() for _ in range(20 + 30 * life)]
            writer.signal(signal.SIGKILL)
            lines += writer.rest()
        for number, line in enumerate(lines):
            first, count = map(int, line.split())
            for at in range(count):
                acknowledged[first + at] = b"life%d:%d:" % (life, number * batch + at)
    with EmbeddedLog(path) as log:
        values = read_all(log)
        assert log.append("t", 0, [b"goes on"]).first_offset == len(values)
    assert len(acknowledged) >= 8 * 20 * batch
    assert all(values[offset].startswith(expected) for offset, expected in acknowledged.items())
    lives = [value.split(b":")[:2] for value in values]
    for life in range(8):
        numbers = [int(number) for name, number in lives if name == b"life%d" % life]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) % batch == 0


def test_a_reader_in_another_process_wakes_for_each_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "SLICE_S", 3600)  # this side is only woken, it never looks by itself
    rounds = 200
    with children(MODULE, [("echo", path, rounds)]) as (reader,), EmbeddedLog(path) as log:
        assert reader.line() == "ready"
        for number in range(rounds):
            log.append("t", 0, [b"%d" % number])
            assert log.wait({TopicPartition("t", 1): number}, PLENTY_S)
        assert reader.finish() == 0
        assert read_all(log, 1) == [b"%d" % number for number in range(rounds)]


def test_waiting_costs_next_to_no_processor_time(path: Path) -> None:
    with EmbeddedLog(path) as log:
        positions = {TopicPartition("t", partition): 0 for partition in range(2)}
        log.wait(positions, 0)
        before = time.thread_time()
        assert not log.wait(positions, 2.0)
        assert time.thread_time() - before < 0.2


def test_the_log_grows_while_others_have_it_open(path: Path) -> None:
    """Each side grows beyond the map that the other has."""
    record = os.urandom(1 << 20)
    megabytes = FIRST_MAP_BYTES >> 20
    with EmbeddedLog(path) as log:
        log.append("t", 0, [b"first"])
        with children(MODULE, [("append", path, 0, "big", 1, megabytes * 2, 1 << 20)]) as (writer,):
            assert writer.finish() == 0
        assert len(log.read("t", 0, 1, max_records=3)) == 3
        end = log.end_offset("t", 0)
        with children(MODULE, [("append", path, 0, "more", 0, 1, 10)]) as (writer,):
            assert writer.line() == "ready"
            for _ in range(megabytes * 3):
                log.append("t", 0, [record])
            writer.signal(signal.SIGKILL)
        values = read_all(log)
        assert values[end:].count(record) == megabytes * 3
        assert len(values[1:end]) == megabytes * 2


def test_several_processes_create_the_same_log_and_topics_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log"
    commands: list[tuple[object, ...]] = [("create", path, 2)] * 4
    with children(MODULE, commands) as creators:
        for creator in creators:
            assert creator.line() == "ready"
        for creator in creators:
            creator.send_line("go")
        expected = repr({f"topic-{number}": 2 for number in sorted(range(20), key=str)})
        assert [creator.line() for creator in creators] == [expected] * 4
        assert [creator.finish() for creator in creators] == [0] * 4
    with EmbeddedLog(path) as log:
        assert [log.end_offset(topic, 0) for topic in log.topics()] == [4] * 20
    assert list((path / "tmp").iterdir()) == []


def test_threads_that_enlarge_a_topic_at_once_leave_the_largest_one(path: Path) -> None:
    with EmbeddedLog(path) as log:
        log.append("t", 1, [b"it knows the topic"])
        (path / "topics" / "t" / "3").mkdir()
        (path / "topics" / "t" / "3" / "data.mdb").write_bytes(b"of a process that was killed in the middle")
        enlarged = threading.Barrier(4)

        def enlarge(partitions: int) -> None:
            with EmbeddedLog(path) as own:
                enlarged.wait(PLENTY_S)
                try:
                    own.add_partitions("t", partitions)
                except TopicExists:
                    assert own.partitions("t") > partitions

        threads = [threading.Thread(target=enlarge, args=(partitions,)) for partitions in (3, 4, 5, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PLENTY_S)
        assert [log.append("t", partition, [b"a"]).first_offset for partition in range(2, 6)] == [0] * 4
        assert log.partitions("t") == 6


def test_a_forked_child_is_refused_and_does_the_parent_no_harm(path: Path) -> None:
    with EmbeddedLog(path) as log:
        log.append("t", 0, [b"parent"])
        child = os.fork()
        if child == 0:
            os._exit(_use_after_fork(log, path))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        log.append("t", 0, [b"parent again"])
        assert read_all(log) == [b"parent", b"parent again"]
        assert read_all(log, 1) == [b"child"]


def _use_after_fork(log: EmbeddedLog, path: Path) -> int:
    """Exit code of the child: 0 if what it inherited is refused with advice and the rest works."""
    try:
        own = EmbeddedLog(path)
        for use in (
            lambda: log.append("t", 0, [b"x"]),
            lambda: log.read("t", 0, 0),
            lambda: log.end_offset("t", 0),
            lambda: log.wait({TopicPartition("t", 0): 0}, 0),
            lambda: own.append("t", 0, [b"x"]),
        ):
            with pytest.raises(LogError, match="spawn"):
                use()
        log.close()
        own.append("t", 1, [b"child"])
        own.close()
    except BaseException as error:
        os.write(2, repr(error).encode())
        return 1
    return 0


def test_killed_processes_leave_nothing_behind(path: Path) -> None:
    before = sorted(str(file) for file in path.rglob("*"))
    for _ in range(3):
        with children(MODULE, [("append", path, 0, "x", 0, 1, 10), ("echo", path, 1000)]) as started:
            for child in started:
                assert child.line() == "ready"
            started[0].line()
    assert sorted(str(file) for file in path.rglob("*")) == before
