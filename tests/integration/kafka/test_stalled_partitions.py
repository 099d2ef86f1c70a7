"""Partitions of a real broker of which nothing arrives: broken on purpose, they are read on; others are not accused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from nodes.log import TopicPartition
from nodes.log.kafka import confluent_reader
from nodes.log.kafka.direct import fetch_requests
from nodes.log.kafka.direct.fetched import session
from nodes.log.kafka.log import KafkaLog
from tests.integration import jobs_forgetful
from tests.integration.jobs_forgetful import forgetful
from tests.integration.jobs_mixed import INPUT
from tests.integration.kafka_broker import session_bootstrap, session_log
from tests.integration.kafka_load import IMPLEMENTATIONS
from tests.integration.kafka_patience import await_decided, patient_log
from tests.integration.kafka_proxy import Proxy
from tests.integration.kafka_quorum import throttle
from tests.integration.kafka_stage import KafkaStage
from tests.integration.log_makers import OWN, read_by_columns
from tests.integration.processes import PLENTY_S, until
from tests.integration.scraping import ports, scrape, total

STALL_TIMEOUT_S = 0.5
STUCK, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
PLACES = [TopicPartition("t", number) for number in range(4)]
BOTH = pytest.mark.parametrize("log", sorted(IMPLEMENTATIONS), indirect=True)


class Clients(Consumer):
    """Consumers that the log has made."""

    made: list[Any]

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.made.append(self)


@pytest.fixture
def log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaLog]:
    """Its reader is that of the parameter; partitions count as stalled soon."""
    monkeypatch.setattr(Clients, "made", [], raising=False)
    monkeypatch.setattr(confluent_reader, "Consumer", Clients)
    properties = {**IMPLEMENTATIONS[request.param], "client.id": f"stalled-{tmp_path.name}"}
    with session_log(tmp_path, properties, stall_timeout_s=STALL_TIMEOUT_S) as log:
        read_by_columns(log)
        log.create_topic("t", len(PLACES))
        yield log


class Reading:
    """Follows all partitions as a node does."""

    def __init__(self, log: KafkaLog) -> None:
        self.log = log
        self.at = dict.fromkeys(PLACES, 0)
        self.values: dict[TopicPartition, list[bytes]] = {where: [] for where in PLACES}
        self.longest_s = 0.0
        self._came_s = time.monotonic()

    def turn(self) -> bool:
        """Whether anything came."""
        self.log.wait(self.at, 0.02)
        before = dict(self.at)
        for where in PLACES:
            chunk = self.log.poll(*where, self.at[where])
            self.values[where] += list(chunk.values)
            self.at[where] = chunk.next_offset
        now_s = time.monotonic()
        self.longest_s = max(self.longest_s, now_s - self._came_s)
        if self.at != before:
            self._came_s = now_s
        return self.at != before

    def until(self, ends: dict[TopicPartition, int]) -> None:
        def reached() -> bool:
            self.turn()
            return all(self.at[where] >= end for where, end in ends.items())

        until(reached, f"read up to {ends}, and not only {self.at}")

    def seconds(self, duration_s: float) -> None:
        """Read on for so long."""
        end_s = time.monotonic() + duration_s
        while time.monotonic() < end_s:
            self.turn()


def break_session(monkeypatch: pytest.MonkeyPatch, log: KafkaLog) -> Callable[[], bool]:
    """The broker forgets the partition in the reader's session, and the reader does not know; whether it is done."""
    name = (log.prefix + STUCK.topic, STUCK.partition)
    sent, forgot_at = forgetful(session.__dict__["_body"], name, before=1)
    monkeypatch.setitem(session.__dict__, "_body", sent)
    return lambda: bool(forgot_at)


def break_client(log: KafkaLog) -> Callable[[], bool]:
    """The client of confluent-kafka requests nothing more of the partition, and the reader does not know."""
    Clients.made[-1].pause([KafkaPartition(log.prefix + STUCK.topic, STUCK.partition)])
    return lambda: True


@BOTH
def test_a_partition_that_is_forgotten_behind_the_readers_back_is_read_on_and_counted(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    reading = Reading(log)
    for number, where in enumerate(PLACES):
        log.append(*where, [b"%d" % n for n in range(3 + number)])
    reading.until({where: 3 + number for number, where in enumerate(PLACES)})
    direct = "direct" in request.node.callspec.id
    done = break_session(monkeypatch, log) if direct else break_client(log)
    until(lambda: reading.turn() or done(), "the session is broken")
    with caplog.at_level("INFO", "nodes.log.kafka"):
        for where in PLACES:
            log.append(*where, [b"more", b"and more"])
        reading.until({where: 5 + number for number, where in enumerate(PLACES) if where != STUCK})
        assert reading.at[STUCK] == 3 and log.stalls.count == 0, "what is broken is broken"
        reading.until({STUCK: 5})
        assert log.stalls.count == 1
        log.append(*STUCK, [b"last"])
        reading.until({STUCK: 6})
    for number, where in enumerate(PLACES):
        expected = [*[b"%d" % n for n in range(3 + number)], b"more", b"and more"]
        assert reading.values[where] == (expected if where != STUCK else [*expected, b"last"])
    (warning,) = [text for text in caplog.messages if "is stalled" in text]
    assert "topic 't' partition 0" in warning and "at offset 3" in warning and "ends at 5" in warning
    assert not direct or "is read by confluent-kafka" not in caplog.text


def test_a_node_whose_broker_forgot_a_partition_reads_on_and_its_results_are_exact(tmp_path: Path) -> None:
    stage = KafkaStage(tmp_path, session_bootstrap(), f"log.stall_timeout_ms={STALL_TIMEOUT_S * 1000:.0f}")
    stage.read_by("own")
    stage.reference = f"{jobs_forgetful.__name__}:job"
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(1, environment={jobs_forgetful.FORGETS: stage.prefix + INPUT}) as fleet:
        with stage.feeding():
            stage.until(monitor, lambda: len(ports(monitor)) == 1, "it serves its figures", fleet)
            (port,) = ports(monitor).values()
            until(lambda: total([scrape(port)], "holon_stalled_reads_total") == 1, "the partition is noticed")
        stage.finish(run, fleet)
    stage.assert_exact()
    stage.log.close()


@BOTH
def test_transactions_and_their_marks_accuse_nobody(log: KafkaLog, caplog: pytest.LogCaptureFixture) -> None:
    reading = Reading(log)
    options = {"bootstrap.servers": session_bootstrap(), "transactional.id": log.prefix, "linger.ms": 5}
    writer = Producer(options)
    writer.init_transactions(PLENTY_S)
    for commits in (True, False, True):
        writer.begin_transaction()
        for number in range(500):
            writer.produce(log.prefix + "t", b"%d" % number, partition=STUCK.partition)
        assert writer.flush(PLENTY_S) == 0
        log.append(*OTHER, [b"beside it"])
        reading.seconds(6 * STALL_TIMEOUT_S)  # it is open
        (writer.commit_transaction if commits else writer.abort_transaction)(PLENTY_S)
        await_decided(log, "t")
        reading.until({STUCK: log.end_offset(*STUCK)})
        reading.seconds(6 * STALL_TIMEOUT_S)  # the mark is at the end
    assert reading.values[STUCK] == [b"%d" % number for number in range(500)] * 2
    assert log.stalls.count == 0, caplog.text


@BOTH
def test_a_quota_accuses_nobody(
    log: KafkaLog, tmp_path: Path, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    reading = Reading(log)
    client, rate = f"stalled-{tmp_path.name}", 30_000
    throttle(session_bootstrap(), client, rate)
    try:
        with session_log(tmp_path) as other:
            for number in range(60):
                for where in PLACES:
                    other.append(*where, [b"%03d" % number * 500])
                reading.seconds(0.05)
            reading.until(dict.fromkeys(PLACES, 60))
    finally:
        throttle(session_bootstrap(), client, None)
    assert reading.longest_s > 2.5 * STALL_TIMEOUT_S, "it was slowed down"
    assert all(values == [b"%03d" % number * 500 for number in range(60)] for values in reading.values.values())
    assert log.stalls.count == 0, caplog.text


def test_answers_on_a_slow_line_are_awaited_and_accuse_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_requests, "SILENT_S", 1.0)  # of three, so that a third of the records shows the same
    record, count = b"x" * 10_000, 200
    with session_log(tmp_path) as writer, Proxy(session_bootstrap()) as proxy:
        writer.create_topic("t", len(PLACES))
        for where in PLACES[:2]:
            writer.append(*where, [record] * count)
        proxy.fetched_per_s = 1_000_000
        with patient_log(proxy.bootstrap, OWN, prefix=writer.prefix, stall_timeout_s=STALL_TIMEOUT_S) as log:
            read_by_columns(log)
            reading = Reading(log)
            reading.until(dict.fromkeys(PLACES[:2], count))
            assert reading.longest_s > 2.0, "it was slow"
            assert log.stalls.count == 0
    assert reading.values == {where: [record] * count if where in PLACES[:2] else [] for where in PLACES}


@BOTH
def test_idle_partitions_and_their_first_records_accuse_nobody(log: KafkaLog, tmp_path: Path) -> None:
    reading = Reading(log)
    with session_log(tmp_path) as other:
        for number in range(8):
            reading.seconds(1.2 * STALL_TIMEOUT_S)
            other.append(*PLACES[number % 3], [b"%d" % number])
        reading.until({PLACES[0]: 3, PLACES[1]: 3, PLACES[2]: 2})
    reading.seconds(4 * STALL_TIMEOUT_S)
    assert log.stalls.count == 0
