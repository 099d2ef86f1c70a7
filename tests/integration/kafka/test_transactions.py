"""Outputs in Kafka transactions: what a plain consumer of committed records sees, also when their writer is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from nodes.errors import SettingsError
from nodes.log.kafka.log import KafkaLog
from nodes.log.kafka.retry_policy import Remedy, remedy
from nodes.settings.settings import load_settings
from tests.integration.fleet_support import OUTPUT
from tests.integration.kafka.test_log import create_limited
from tests.integration.kafka_broker import session_bootstrap, session_log
from tests.integration.kafka_patience import await_decided
from tests.integration.kafka_stage import KafkaStage
from tests.integration.processes import PLENTY_S, ROOT, until

A, B = "a", "b"
PLENTY_MS = int(PLENTY_S * 1000)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KafkaLog]:
    with session_log(tmp_path) as log:
        log.create_topic(A, 1)
        log.create_topic(B, 2)
        yield log


def seen(name: str, partition: int, *, committed: bool) -> list[bytes]:
    """The records that a plain consumer, none of Holon's, reads of a partition up to where it may read."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer(
        {
            "bootstrap.servers": session_bootstrap(), "group.id": "plain", "isolation.level": level,
            "enable.partition.eof": True, "enable.auto.commit": False, "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    found: list[bytes] = []
    try:
        consumer.assign([KafkaPartition(name, partition, 0)])
        while True:
            message = consumer.poll(PLENTY_S)
            assert message is not None, "the broker does not answer"
            error = message.error()
            if error is None:
                found.append(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                assert remedy(error.code()) is Remedy.WAIT, error
    finally:
        consumer.close()


def all_seen(log: KafkaLog, *, committed: bool) -> list[list[bytes]]:
    return [seen(log.prefix + topic, p, committed=committed) for topic, p in ((A, 0), (B, 0), (B, 1))]


def test_what_is_sent_together_shows_together(log: KafkaLog, tmp_path: Path) -> None:
    with session_log(tmp_path) as writer:
        writer.use_transactions([A, B], f"{log.prefix}writer", timeout_ms=PLENTY_MS)
        callbacks: list[tuple[str, int]] = []
        for name, topic, partition in (("a0", A, 0), ("b0", B, 0), ("b1", B, 1)):
            value = name.encode()
            writer.send(topic, partition, [value, value], done=lambda end, name=name: callbacks.append((name, end)))
        until(lambda: all_seen(log, committed=False)[2] == [b"b1"] * 2, "all is on the broker")
        assert all_seen(log, committed=True) == [[], [], []]
        assert callbacks == [], "not committed is not acknowledged"
        writer.poll_acks()
        for topic in (A, B):
            await_decided(log, topic)
        assert all_seen(log, committed=True) == [[b"a0"] * 2, [b"b0"] * 2, [b"b1"] * 2]
        assert sorted(callbacks) == [("a0", 2), ("b0", 2), ("b1", 2)]
        writer.send(A, 0, [b"taken back"])
    assert all_seen(log, committed=True)[0] == [b"a0"] * 2, "a log that is closed takes back what is open"


def test_topics_with_small_limits_take_what_is_sent_together(log: KafkaLog, tmp_path: Path) -> None:
    """The client joins what is on its way to batches; none may be too large for the topic with the smallest limit."""
    create_limited(log, 50_000)
    values = [b"%06d" % number * 100 for number in range(1000)]
    with session_log(tmp_path) as writer:
        writer.use_transactions([A, "limited"], f"{log.prefix}writer", timeout_ms=PLENTY_MS)
        ends: list[int] = []
        for at in range(0, 1000, 20):
            writer.send("limited", 0, values[at : at + 20], done=ends.append)
        writer.poll_acks(wait=True)
    assert ends == list(range(20, 1001, 20))
    await_decided(log, "limited")
    assert seen(log.prefix + "limited", 0, committed=True) == values


def test_of_a_killed_writer_nothing_shows_and_readers_wait_until_its_time_is_over(
    log: KafkaLog, tmp_path: Path
) -> None:
    """The price of transactions: what others commit meanwhile is hidden behind what the dead one left open."""
    script = (
        "import sys, time; from nodes.log.kafka.log import KafkaLog\n"
        "log = KafkaLog(sys.argv[1], prefix=sys.argv[2], connect_timeout_s=120.0, timeout_s=120.0)\n"
        "log.use_transactions(['a'], 'killed', timeout_ms=15000)\n"
        "log.send('a', 0, [b'lost'], done=print)\n"
        "print('sent', flush=True); time.sleep(300)"
    )
    arguments = [sys.executable, "-c", script, session_bootstrap(), log.prefix]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "sent\n"
        until(lambda: all_seen(log, committed=False)[0] == [b"lost"], "it is on the broker")
        process.kill()
    log.use_transactions([A], f"{log.prefix}survivor", timeout_ms=PLENTY_MS)
    log.send(A, 0, [b"kept"])
    log.poll_acks()
    assert all_seen(log, committed=False)[0] == [b"lost", b"kept"]
    until(lambda: all_seen(log, committed=True)[0] == [b"kept"], "the broker has ended what was left open")


def test_a_killed_node_leaves_no_result_out_and_none_torn(tmp_path: Path) -> None:
    """A node is killed between a transaction's begin and its end; the other goes on, also for plain consumers."""
    stage = KafkaStage(tmp_path, session_bootstrap(), "log.transactional_outputs=true")
    try:
        run = stage.open()
        stage.feed(400)
        with stage.fleet(2, crashpoints={0: "after-output:3"}) as fleet:
            first = fleet.members[0].process
            with stage.feeding():
                until(lambda: first.poll() is not None, "the node is killed where it should be")
            assert first.returncode == -signal.SIGKILL
            stage.feed(2000)
            stage.finish(run, fleet)
        await_decided(stage.log, OUTPUT)  # what the killed node left open, too
        stage.assert_exact()
        name = stage.prefix + OUTPUT
        shown = [seen(name, p, committed=True) for p in range(stage.log.partitions(OUTPUT))]
        read = stage.results()
        assert {value.decode() for values in shown for value in values} == set(read)
    finally:
        stage.log.close()


@pytest.mark.parametrize(
    ("definitions", "says"),
    [(["log.transactional_outputs=true"], "log.kind is embedded"),
     (["log.transactional_outputs=true", "log.kind=kafka", "log.bootstrap=h:1", "node.replicas=2"], "standby")],
)  # fmt: skip
def test_where_transactions_cannot_be_they_are_refused(definitions: list[str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_settings(definitions=definitions, environ={}, directory=Path("/nowhere"))
