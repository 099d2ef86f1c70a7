"""Faults of a broker's answers on their way: late, cut off in the middle of a frame, damaged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from nodes.log import LogDamaged, LogUnavailable, TopicPartition
from nodes.log.kafka.log import KafkaLog
from tests.integration.fleet_support import UNTRIMMED, owners
from tests.integration.kafka_broker import session_bootstrap, session_log
from tests.integration.kafka_patience import patient_log
from tests.integration.kafka_proxy import END_TXN, FETCH, METADATA, PRODUCE, Direction, Proxy
from tests.integration.kafka_stage import KafkaStage
from tests.integration.log_makers import OWN, read_by_columns
from tests.integration.processes import until

PLENTY_S = 60.0


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(session_bootstrap()) as proxy:
        yield proxy


@pytest.fixture
def direct(tmp_path: Path) -> Iterator[KafkaLog]:
    with session_log(tmp_path) as log:
        log.create_topic("t", 1)
        yield log


@pytest.fixture(params=["plain", "columns", "own"])
def behind(direct: KafkaLog, proxy: Proxy, request: pytest.FixtureRequest) -> Iterator[KafkaLog]:
    """The same log through the proxy, by the plain reader, the one on librdkafka itself, and its own connections."""
    properties = OWN if request.param == "own" else {}
    with patient_log(proxy.bootstrap, properties, prefix=direct.prefix) as log:
        if request.param != "plain":
            read_by_columns(log)
        yield log


def values(log: KafkaLog) -> list[bytes]:
    """All of topic t."""
    found: list[bytes] = []
    offset = 0
    while (chunk := log.read("t", 0, offset)).next_offset > offset:
        found += chunk.values
        offset = chunk.next_offset
    return found


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("size", [4, 30])
def test_an_answer_that_breaks_off_is_asked_for_again_and_nothing_is_written_twice(
    direct: KafkaLog, behind: KafkaLog, proxy: Proxy, size: int
) -> None:
    """The acknowledgement of an append, then the answer to a read, end after some bytes."""
    behind.append("t", 0, [b"first"])
    cut = proxy.cut_at(size, "reply", key=PRODUCE)
    assert behind.append("t", 0, [b"second"]).first_offset == 1
    assert cut.seen == 1
    cut.release()
    cut = proxy.cut_at(size, "reply", key=FETCH)
    assert values(behind) == [b"first", b"second"] == values(direct)
    until(lambda: cut.seen == 1 or bool(behind.wait({TopicPartition("t", 0): 2}, 0.05)), "an answer was cut off")


def test_a_request_that_breaks_off_is_sent_again(direct: KafkaLog, behind: KafkaLog, proxy: Proxy) -> None:
    behind.append("t", 0, [b"first"])
    cut = proxy.cut_at(50, "request", key=PRODUCE)
    behind.append("t", 0, [b"second"])
    assert cut.seen == 1
    assert values(direct) == [b"first", b"second"]


@pytest.mark.parametrize("direction", ["request", "reply"])
def test_what_is_sent_without_waiting_arrives_once_and_in_order_when_connections_break(
    direct: KafkaLog, behind: KafkaLog, proxy: Proxy, direction: Direction
) -> None:
    """Two requests, or their acknowledgements, end in the middle while others are on their way behind them."""
    ends: list[int] = []
    behind.send("t", 0, [b"first"])
    behind.poll_acks(wait=True)
    for size in (30, 50):
        cut = proxy.cut_at(size, direction, key=PRODUCE)
        for number in range(40):
            behind.send("t", 0, [b"%d-%d" % (size, number)] * 2, done=ends.append)
        behind.poll_acks(wait=True)
        until(lambda cut=cut: cut.seen == 1, "it was cut off")
        cut.release()
    assert ends == list(range(3, 163, 2))
    assert values(direct)[1:] == [b"%d-%d" % (size, n) for size in (30, 50) for n in range(40) for _ in range(2)]


def test_damage_on_the_way_is_noticed_and_read_again(direct: KafkaLog, behind: KafkaLog, proxy: Proxy) -> None:
    """One flipped bit in an answer; the record itself is intact on the broker, and so are those behind it."""
    for value in (b"one", b"marked-value", b"three"):
        direct.append("t", 0, [value])
    flip = proxy.damage(b"marked-value", "reply", key=FETCH)
    assert values(behind) == [b"one", b"marked-value", b"three"]
    assert flip.seen == 1


def test_damage_that_stays_is_an_error_and_nothing_is_skipped(direct: KafkaLog, behind: KafkaLog, proxy: Proxy) -> None:
    for value in (b"one", b"marked-value", b"three"):
        direct.append("t", 0, [value])
    proxy.damage(b"marked-value", "reply", key=FETCH, once=False)
    found, offset = [], 0

    def follow() -> bool:
        nonlocal offset
        chunk = behind.poll("t", 0, offset)
        found.extend(chunk.values)
        offset = chunk.next_offset
        return False

    with pytest.raises(LogDamaged, match=r"topic 't' partition 0 from offset 1"):
        until(follow, "it is damaged")
    assert found == [b"one"]


def test_damage_in_what_is_sent_is_refused_by_the_broker(direct: KafkaLog, behind: KafkaLog, proxy: Proxy) -> None:
    """It never gets onto the log; whether it is sent again or the append fails, nothing is written twice."""
    proxy.damage(b"marked-value", "request", key=PRODUCE)
    try:
        behind.append("t", 0, [b"marked-value"])
    except Exception as error:
        assert type(error).__name__ in ("LogDamaged", "LogUnavailable", "LogError"), error
        assert values(direct) == []
    else:
        assert values(direct) == [b"marked-value"]


def test_a_reader_that_waited_long_for_an_answer_goes_on(direct: KafkaLog, behind: KafkaLog, proxy: Proxy) -> None:
    """The first look at a topic hangs for longer than a partition is followed that nobody reads."""
    held = proxy.hold("reply", key=METADATA)
    found: list[list[bytes]] = []
    reader = in_thread(lambda: found.append(behind.read("t", 0, 0).values))
    until(lambda: held.seen > 0, "it waits for the answer")
    direct.append("t", 0, [b"x"] * 10)
    over = threading.Event()
    over.wait(2.5)
    held.release()
    reader.join(PLENTY_S)
    assert found == [[b"x"] * 10]


def test_a_commit_that_comes_late_is_seen_as_a_whole(direct: KafkaLog, proxy: Proxy) -> None:
    """A producer of others: its EndTxn is held, then the answer to the next one. Readers see all of a transaction."""
    writer = Producer({"bootstrap.servers": proxy.bootstrap, "transactional.id": direct.prefix})
    writer.init_transactions(PLENTY_S)
    for number, direction in enumerate(("request", "reply")):
        writer.begin_transaction()
        for value in (b"a", b"b"):
            writer.produce(f"{direct.prefix}t", value + b"%d" % number, partition=0)
        assert writer.flush(PLENTY_S) == 0
        before = values(direct)
        held = proxy.hold(direction, key=END_TXN)
        with pytest.raises(KafkaException):
            writer.commit_transaction(1.0)
        until(lambda held=held: held.seen > 0, "the end of the transaction is on its way")
        if direction == "request":
            assert values(direct) == before
        held.release()
        writer.commit_transaction(PLENTY_S)
        whole = [*before, b"a%d" % number, b"b%d" % number]
        until(lambda whole=whole: values(direct) == whole, "the transaction is there")


def late_acknowledgements(tmp_path: Path, proxy: Proxy, hold_s: float | None, *definitions: str) -> KafkaStage:
    """A node whose appends arrive while their acknowledgements do not, for so long; another one takes over.

    None: until the node has ended.
    """
    stage = KafkaStage(tmp_path, session_bootstrap(), UNTRIMMED)
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(0) as fleet:
        stage.add(fleet, 0, f"log.bootstrap={proxy.bootstrap}", *definitions, expected=2)
        stage.add(fleet, 1, expected=2)
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
            held = proxy.hold("reply", key=PRODUCE)
            if hold_s is None:
                late = fleet.members[0].process
                stage.until(monitor, lambda: late.poll() is not None, "the node that waits has ended", fleet)
            else:
                over = threading.Event()
                threading.Timer(hold_s, over.set).start()
                stage.until(monitor, over.is_set, "the time is over", fleet)
            held.release()
            before = monitor.consumed
            stage.until(monitor, lambda: monitor.consumed > before + 500, "work goes on", fleet)
        stage.finish(run, fleet)
        stage.codes = [member.process.poll() for member in fleet.members]
    return stage


@pytest.mark.long
def test_acknowledgements_that_come_late_change_nothing(tmp_path: Path, proxy: Proxy) -> None:
    stage = late_acknowledgements(tmp_path, proxy, 4.0)
    stage.assert_exact()
    assert stage.codes == [0, 0]
    stage.log.close()


@pytest.mark.nightly
def test_acknowledgements_that_never_come_end_the_node(tmp_path: Path, proxy: Proxy) -> None:
    """Held for longer than a node waits: it ends with code 4, and what it wrote is there once."""
    stage = late_acknowledgements(tmp_path, proxy, None, "log.timeout_ms=15000")
    stage.assert_exact()
    assert stage.codes == [4, 0]
    stage.log.close()


def test_a_broker_that_accepts_and_never_answers_is_named_within_seconds(proxy: Proxy) -> None:
    proxy.hold("request")
    with pytest.raises(LogUnavailable, match=r"no answer within 2 s.*holon kafka status"):
        KafkaLog(proxy.bootstrap, connect_timeout_s=2.0)
