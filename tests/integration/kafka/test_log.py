"""The Kafka log beyond the contract: gaps, foreign writers, limits, errors. On a real broker."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from nodes.log import (
    LogDamaged,
    LogError,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicPartition,
    UnknownTopic,
)
from nodes.log.kafka import columns as kafka_columns
from nodes.log.kafka.direct.fetched import positions
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_broker import session_bootstrap, session_log
from tests.integration.kafka_patience import patient_log, until_refused
from tests.integration.log_makers import OWN, read_by_columns
from tests.integration.processes import until

PLENTY_S = 60.0
T = TopicPartition("t", 0)


ALL_READERS = pytest.mark.parametrize("log", ["plain", "columns", "own"], indirect=True)
BOTH_READERS = pytest.mark.parametrize("log", ["plain", "columns"], indirect=True)


@pytest.fixture
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaLog]:
    """With the parameter ``columns`` by the compiled loops, with ``own`` over connections of its own."""
    reader = getattr(request, "param", "plain")
    with session_log(tmp_path, OWN if reader == "own" else None) as log:
        if reader != "plain":
            read_by_columns(log)
        log.create_topic("t", 2)
        yield log


@pytest.fixture
def other(tmp_path: Path, log: KafkaLog) -> Iterator[KafkaLog]:
    """The same log once more."""
    with session_log(tmp_path) as other:
        yield other


def on_broker(log: KafkaLog) -> str:
    """The broker's name of topic t."""
    return f"{log.prefix}t"


def foreign(**properties: Any) -> Producer:
    """A producer that is not Holon's."""
    return Producer({"bootstrap.servers": session_bootstrap(), **properties})


def read_all(log: KafkaLog, offset: int = 0) -> tuple[list[bytes], list[int], int]:
    """Values, offsets, and where reading ended, by reading alone."""
    values: list[bytes] = []
    offsets: list[int] = []
    while True:
        chunk = log.read("t", 0, offset)
        values += chunk.values
        offsets += chunk.offsets.tolist()
        if chunk.next_offset == offset:
            return values, offsets, offset
        offset = chunk.next_offset


@ALL_READERS
class TestTransactionsOfOthers:
    def test_control_records_are_gaps_and_reading_ends_behind_the_last(self, log: KafkaLog) -> None:
        writer = foreign(**{"transactional.id": log.prefix})
        writer.init_transactions(PLENTY_S)
        for number in range(3):
            writer.begin_transaction()
            writer.produce(on_broker(log), b"%d" % number, partition=0)
            writer.commit_transaction(PLENTY_S)
        until(lambda: log.end_offset("t", 0) == 6, "the last is committed: its mark comes after the answer")
        assert read_all(log) == ([b"0", b"1", b"2"], [0, 2, 4], 6)
        assert log.end_offset("t", 0) == 6
        assert log.read("t", 0, 5).next_offset == 6
        assert not log.wait({T: 6}, 0.05)
        assert log.append("t", 0, [b"own"]).first_offset == 6
        assert log.wait({T: 6}, PLENTY_S)
        assert read_all(log, 3) == ([b"2", b"own"], [4, 6], 7)

    def test_what_is_undecided_is_beyond_the_end_and_what_is_aborted_is_nowhere(self, log: KafkaLog) -> None:
        writer = foreign(**{"transactional.id": log.prefix})
        writer.init_transactions(PLENTY_S)
        writer.begin_transaction()
        writer.produce(on_broker(log), b"aborted", partition=0)
        assert writer.flush(PLENTY_S) == 0
        assert (log.end_offset("t", 0), log.high_watermark("t", 0)) == (0, 1)
        assert len(log.read("t", 0, 0)) == 0
        writer.abort_transaction(PLENTY_S)
        # The coordinator answers first, and writes its mark later.
        until(lambda: log.end_offset("t", 0) == 2, "the transaction is aborted")
        log.append("t", 0, [b"own"])
        assert read_all(log) == ([b"own"], [2], 3)


class TestForeignRecords:
    @ALL_READERS
    def test_are_read_without_their_headers_and_a_missing_value_is_empty(self, log: KafkaLog) -> None:
        writer = foreign()
        writer.produce(on_broker(log), b"v", b"k", partition=0, headers=[("trace", b"1"), ("holon", b"2")])
        writer.produce(on_broker(log), b"w", partition=0, headers=[("trace", b"1")])
        writer.produce(on_broker(log), None, b"dead", partition=0)
        assert writer.flush(PLENTY_S) == 0
        chunk = log.read("t", 0, 0)
        assert chunk.values == [b"v", b"w", b""]
        assert chunk.headers == [b"2", b"", b""]
        assert chunk.keys == [b"k", None, b"dead"]

    def test_have_the_logs_time_and_none_is_too_old_to_keep(self, log: KafkaLog) -> None:
        before_ms = log.append("t", 0, [b"own"]).timestamp_ms
        writer = foreign()
        writer.produce(on_broker(log), b"v", partition=0, timestamp=1)
        assert writer.flush(PLENTY_S) == 0
        assert log.read("t", 0, 1).timestamps_ms[0] >= before_ms

    def test_do_not_end_up_between_the_records_of_a_batch(self, log: KafkaLog, other: KafkaLog) -> None:
        def write(writer: KafkaLog, name: bytes) -> None:
            for _ in range(15):
                done = writer.append("t", 0, [name] * 3000)
                # The end that another client has heard of may be some milliseconds old: it is asked for again.
                assert other.end_offset("t", 0) >= done.first_offset + 3000
                assert other.read("t", 0, done.first_offset, max_records=3000).values == [name] * 3000

        threads = [threading.Thread(target=write, args=pair) for pair in ((log, b"a"), (other, b"b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        values = read_all(log)[0]
        assert len(values) == 90_000
        assert all(len(set(values[at : at + 3000])) == 1 for at in range(0, 90_000, 3000))


class TestTopics:
    def test_keep_everything_unless_told_otherwise_by_the_logs_own_time(self, log: KafkaLog) -> None:
        log.create_topic("short", 1, retention_ms=60_000)
        admin = AdminClient({"bootstrap.servers": session_bootstrap()})
        for topic, retention in (("t", "-1"), ("short", "60000")):
            resource = ConfigResource(ResourceType.TOPIC, log.prefix + topic)
            config = admin.describe_configs([resource])[resource].result(PLENTY_S)
            assert config["message.timestamp.type"].value == "LogAppendTime"
            assert (config["retention.ms"].value, config["retention.bytes"].value) == (retention, "-1")
            assert config["cleanup.policy"].value == "delete"

    def test_that_were_made_or_grew_since_are_found(self, log: KafkaLog, other: KafkaLog) -> None:
        log.create_topic("new", 1)
        assert other.append("new", 0, [b"x"]).first_offset == 0
        assert log.read("new", 0, 0).values == [b"x"]

    def test_of_other_programs_and_of_kafka_itself_do_not_show(self, log: KafkaLog) -> None:
        assert log.topics() == {"t": 2}
        with patient_log(session_bootstrap()) as whole:
            assert on_broker(log) in whole.topics()
            assert not [name for name in whole.topics() if name.startswith("__")]

    def test_with_small_limits_name_the_record_that_is_too_large(self, log: KafkaLog) -> None:
        create_limited(log, 50_000)
        with pytest.raises(RecordTooLarge, match=r"'whale'.* 60005 bytes, the limit is 49"):
            log.append("limited", 0, [b"small", bytes(60_000)], keys=[None, b"whale"])
        assert log.end_offset("limited", 0) == 0

    def test_with_small_limits_take_large_batches_in_pieces(self, log: KafkaLog) -> None:
        create_limited(log, 50_000)
        values = [b"%06d" % number * 100 for number in range(1000)]
        assert log.append("limited", 0, values)[:2] == (0, 1000)
        assert log.read("limited", 0, 0).values == values

    @BOTH_READERS
    def test_with_small_limits_take_what_is_sent_without_waiting(self, log: KafkaLog) -> None:
        """The client joins what is on its way to batches; none may be too large for this topic."""
        create_limited(log, 50_000)
        ends: list[int] = []
        values = [b"%06d" % number * 100 for number in range(1000)]
        for at in range(0, 1000, 20):
            log.send("limited", 0, values[at : at + 20], done=ends.append)
        log.poll_acks(wait=True)
        assert ends == list(range(20, 1001, 20))
        assert log.read("limited", 0, 0).values == values


@BOTH_READERS
def test_a_record_that_the_broker_refuses_ends_all_sending(log: KafkaLog) -> None:
    """The topic's limit becomes smaller behind the log's back."""
    ends: list[int] = []
    log.send("t", 0, [b"first"], done=ends.append)
    log.poll_acks(wait=True)
    admin = AdminClient({"bootstrap.servers": session_bootstrap()})
    smaller = ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, on_broker(log), incremental_configs=[smaller])
    admin.incremental_alter_configs([resource])[resource].result(PLENTY_S)
    noise = random.Random(1).randbytes(5000)
    with pytest.raises(LogError, match="Message size too large"):
        until(lambda: _sent(log, noise, ends), "the broker knows the new limit")
    with pytest.raises(LogError, match="Message size too large"):
        log.send("t", 1, [b"after"], done=ends.append)
    assert log.end_offset("t", 1) == 0
    assert log.end_offset("t", 0) == len(ends)


def _sent(log: KafkaLog, value: bytes, ends: list[int]) -> bool:
    """False: the broker has taken it."""
    log.send("t", 0, [value], done=ends.append)
    log.poll_acks(wait=True)
    return False


def create_limited(log: KafkaLog, max_bytes: int) -> None:
    """A topic whose batches must be small."""
    admin = AdminClient({"bootstrap.servers": session_bootstrap()})
    name = f"{log.prefix}limited"
    admin.create_topics([NewTopic(name, 1, config={"max.message.bytes": str(max_bytes)})])[name].result(PLENTY_S)
    until(lambda: "limited" in log.topics(), "the topic is known")


@ALL_READERS
class TestReading:
    def test_jumps_find_what_is_there(self, log: KafkaLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """With little room in the buffers, so that partitions are let go and taken up again all the time."""
        monkeypatch.setattr(kafka_columns, "BUFFER_RECORDS", 200)
        for partition in (0, 1):
            for first in range(0, 3000, 500):
                log.append("t", partition, [b"%d-%d" % (partition, number) for number in range(first, first + 500)])
        chosen, position = random.Random(5), [0, 0]
        for step in range(120):
            partition = chosen.randrange(2)
            if step % 4 == 0:
                position[partition] = chosen.randrange(3001)
            at, most = position[partition], chosen.choice([1, 40, 700])
            chunk = log.read("t", partition, at, max_records=most)
            wanted = range(at, min(at + most, 3000))
            assert chunk.offsets.tolist() == list(wanted), (step, partition, at, most)
            assert chunk.values == [b"%d-%d" % (partition, number) for number in wanted]
            position[partition] = chunk.next_offset

    def test_sees_at_once_what_was_acknowledged_to_it(self, log: KafkaLog) -> None:
        for number in range(50):
            log.append("t", 0, [b"%d" % number])
            assert log.wait({T: number}, PLENTY_S)
            assert log.read("t", 0, number).values == [b"%d" % number]

    def test_at_the_end_finds_what_others_append(self, log: KafkaLog, other: KafkaLog) -> None:
        assert len(log.read("t", 0, 0)) == 0
        for number in range(5):
            other.append("t", 0, [b"%d" % number])
            until(lambda number=number: log.read("t", 0, number).values == [b"%d" % number], "it is read")

    def test_of_deleted_records_is_refused_even_on_the_way(
        self, log: KafkaLog, other: KafkaLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With little room, so that all but a batch on its way had not been fetched before they were deleted."""
        monkeypatch.setattr(kafka_columns, "BUFFER_RECORDS", 3)
        monkeypatch.setattr(positions, "PARTITION_BYTES", 1)
        log.append("t", 0, [b"x"] * 10)
        assert log.read("t", 0, 0, max_records=5).next_offset == 5
        for _ in range(2):
            log.append("t", 0, [b"y"] * 5)
        other.delete_before("t", 0, 18)
        assert log.read("t", 0, 5, max_records=5).values == [b"x"] * 5
        with pytest.raises(OffsetOutOfRange, match="18 to 19"):
            assert log.read("t", 0, 10).values == [b"y"] * 5
            log.read("t", 0, 15)
        assert log.read("t", 0, 18).values == [b"y"] * 2

    def test_of_a_log_that_lost_its_end_is_refused(self, log: KafkaLog, other: KafkaLog) -> None:
        """The topic is made anew with less in it, as an unclean election leaves it."""
        log.append("t", 0, [b"x"] * 10)
        assert log.read("t", 0, 0).next_offset == 10
        admin = AdminClient({"bootstrap.servers": session_bootstrap()})
        admin.delete_topics([on_broker(log)])[on_broker(log)].result(PLENTY_S)
        until(lambda: "t" not in other.topics(), "the topic is gone")
        other.create_topic("t", 2)

        def refused() -> bool:
            try:
                log.read("t", 0, 10)
            except (LogDamaged, OffsetOutOfRange):
                return True
            except UnknownTopic:
                return False  # its metadata is older than the new topic
            return False

        until(refused, "the loss is noticed")

    def test_goes_on_while_another_thread_appends_and_one_waits(self, log: KafkaLog) -> None:
        """An append does not wait for who waits for it."""
        thread = threading.Thread(target=lambda: log.append("t", 1, [b"awaited"]))
        thread.start()
        assert log.wait({TopicPartition("t", 1): 0}, PLENTY_S)
        thread.join()


class TestErrors:
    def test_an_address_where_nobody_listens_is_named_with_what_to_do(self) -> None:
        until_refused(
            lambda: KafkaLog("127.0.0.1:1", connect_timeout_s=3.0),
            r"127\.0\.0\.1:1: no answer.*refused.*holon kafka status",
        )

    def test_a_broker_that_speaks_another_protocol_is_named_with_what_to_check(self) -> None:
        sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
        given = {**sasl, "sasl.password": "swordfish"}
        said = until_refused(lambda: KafkaLog(session_bootstrap(), given, connect_timeout_s=3.0), r"sasl\.\*")
        assert "swordfish" not in said

    def test_a_lost_connection_is_warned_of_once_for_all_clients(self, caplog: pytest.LogCaptureFixture) -> None:
        connection = Connection("b:1")
        lost = KafkaError(KafkaError._ALL_BROKERS_DOWN)
        connection.note(lost)
        assert not caplog.records, "an opening that fails says so itself"
        connection.opened = True
        connection.note(lost)
        connection.note(lost)
        assert len(caplog.records) == 1

    def test_an_impossible_property_is_named(self) -> None:
        with pytest.raises(LogError, match=r"properties are refused.*ssl\.ca\.location"):
            KafkaLog(session_bootstrap(), {"security.protocol": "ssl", "ssl.ca.location": "/no-such-file"})
