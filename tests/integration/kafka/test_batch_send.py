"""Brokers' answers to batches that Holon writes, and the sender where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from nodes.log import LogUnavailable, RecordTooLarge
from nodes.log.kafka.direct import leaders
from nodes.log.kafka.direct.produce_requests import WANTED
from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_broker import session_bootstrap, session_log
from tests.integration.kafka_patience import connect_patiently, patient_log
from tests.integration.kafka_proxy import INIT_PRODUCER_ID, PRODUCE, Proxy
from tests.integration.log_makers import read_by_columns
from tests.integration.processes import PLENTY_S, until

NOT_LEADER, TOO_LATE, TOO_LARGE, LOADING, UNSUPPORTED = 6, 7, 10, 14, 35


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about connections of the log's own."""
    connect_patiently(monkeypatch)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(session_bootstrap()) as proxy:
        yield proxy


@pytest.fixture
def direct(tmp_path: Path) -> Iterator[KafkaLog]:
    with session_log(tmp_path) as log:
        log.create_topic("t", 2)
        yield log


def behind(proxy: Proxy, direct: KafkaLog, timeout_s: float = PLENTY_S) -> KafkaLog:
    """The same log through the proxy."""
    log = patient_log(proxy.bootstrap, prefix=direct.prefix, timeout_s=timeout_s)
    read_by_columns(log)
    return log


@pytest.mark.parametrize("error", [NOT_LEADER, TOO_LATE])
def test_a_batch_that_a_broker_could_not_promise_is_sent_again_and_lies_there_once(
    direct: KafkaLog, proxy: Proxy, error: int
) -> None:
    ends: list[int] = []
    with behind(proxy, direct) as log:
        for number in range(3):
            log.send("t", 0, [b"before %d" % number])
        log.poll_acks(wait=True)
        said = proxy.answer(error)
        for number in range(20):
            log.send("t", 0, [b"%d" % number], done=ends.append)
        log.poll_acks(wait=True)
    assert said.seen == 1
    assert ends == list(range(4, 24))
    assert direct.read("t", 0, 3).values == [b"%d" % number for number in range(20)]


def test_what_is_sent_together_is_one_request(direct: KafkaLog, proxy: Proxy) -> None:
    ends: list[tuple[int, int]] = []
    with behind(proxy, direct) as log:
        log.send("t", 0, [b"before"])
        log.send("t", 1, [b"before"])
        log.poll_acks(wait=True)
        requests = proxy.delay(0, "request", key=PRODUCE)
        with log.batched():
            for partition in (0, 1, 0):
                log.send("t", partition, [b"a", b"b"], done=lambda end, where=partition: ends.append((where, end)))
        log.poll_acks(wait=True)
    assert requests.seen == 1
    assert sorted(ends) == [(0, 3), (0, 5), (1, 3)]
    assert [list(direct.read("t", partition, 1).values) for partition in (0, 1)] == [[b"a", b"b"] * 2, [b"a", b"b"]]


def test_who_is_told_that_numbers_of_producers_are_being_fetched_asks_again(direct: KafkaLog, proxy: Proxy) -> None:
    said = proxy.answer_producer(LOADING)
    asked = proxy.count(INIT_PRODUCER_ID, WANTED[INIT_PRODUCER_ID])
    with behind(proxy, direct) as log:
        log.send("t", 0, [b"one"])
        log.poll_acks(wait=True)
        requests = proxy.delay(0, "request", key=PRODUCE)
        with log.batched():
            log.send("t", 0, [b"two"])
            log.send("t", 1, [b"two"])
        log.poll_acks(wait=True)
    assert said.seen == 1
    assert asked.seen >= 2
    assert requests.seen == 1, "what librdkafka sends takes a request for each partition"


def test_a_slow_broker_is_asked_again_and_does_not_change_how_records_are_written(
    direct: KafkaLog, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaders, "CONNECT_S", 0.5)
    held = proxy.hold("reply", key=INIT_PRODUCER_ID, version=WANTED[INIT_PRODUCER_ID])
    ends: list[int] = []
    with behind(proxy, direct) as log:
        log.send("t", 0, [b"one"], done=ends.append)
        log.send("t", 1, [b"one"])
        until(lambda: held.seen >= 2, "the question was given up, and asked again")
        log.poll_acks()
        assert ends == [], "nothing has left"
        held.release()
        log.send("t", 0, [b"two"], done=ends.append)
        log.poll_acks(wait=True)
        requests = proxy.delay(0, "request", key=PRODUCE)
        with log.batched():
            log.send("t", 0, [b"three"])
            log.send("t", 1, [b"two"])
        log.poll_acks(wait=True)
    assert ends == [1, 2]
    assert requests.seen == 1, "what librdkafka sends takes a request for each partition"
    assert list(direct.read("t", 0, 0).values) == [b"one", b"two", b"three"]
    assert list(direct.read("t", 1, 0).values) == [b"one", b"two"]


def test_what_waits_for_a_broker_is_an_error_when_its_time_is_over(direct: KafkaLog, proxy: Proxy) -> None:
    held = proxy.hold("reply", key=INIT_PRODUCER_ID, version=WANTED[INIT_PRODUCER_ID])
    with behind(proxy, direct, 2.0) as log:
        log.send("t", 0, [b"one"])
        with pytest.raises(LogUnavailable, match=r"partition 0.*not acknowledged"):
            log.poll_acks(wait=True)
        with pytest.raises(LogUnavailable):
            log.send("t", 0, [b"two"])
        held.release()
    assert direct.read("t", 0, 0).values == []


def test_a_broker_that_refuses_a_number_leaves_all_that_waits_to_the_library_in_order(
    direct: KafkaLog, proxy: Proxy
) -> None:
    proxy.answer_producer(UNSUPPORTED)
    held = proxy.hold("reply", key=INIT_PRODUCER_ID, version=WANTED[INIT_PRODUCER_ID])
    direct_requests = proxy.count(PRODUCE, WANTED[PRODUCE])
    with behind(proxy, direct) as log:
        for number in range(3):
            log.send("t", 0, [b"%d" % number], headers=[b"h"], keys=[b"k"])
        held.release()
        log.send("t", 0, [b"3"], headers=[b"h"], keys=[b"k"])
        log.poll_acks(wait=True)
    found = direct.read("t", 0, 0)
    assert (list(found.values), list(found.headers)) == ([b"0", b"1", b"2", b"3"], [b"h"] * 4)
    assert direct_requests.seen == 0


def test_of_what_was_sent_together_only_what_was_not_taken_is_sent_again(direct: KafkaLog, proxy: Proxy) -> None:
    with behind(proxy, direct) as log:
        log.send("t", 0, [b"before"])
        log.send("t", 1, [b"before"])
        log.poll_acks(wait=True)
        said = proxy.answer(NOT_LEADER)  # of the first partition in that answer
        for number in range(10):
            with log.batched():
                log.send("t", 0, [b"%d" % number])
                log.send("t", 1, [b"%d" % number])
        log.poll_acks(wait=True)
    assert said.seen == 1
    for partition in (0, 1):
        assert list(direct.read("t", partition, 1).values) == [b"%d" % number for number in range(10)]


def test_who_waits_for_what_is_gathered_sends_it(direct: KafkaLog) -> None:
    with patient_log(session_bootstrap(), prefix=direct.prefix) as log:
        read_by_columns(log)
        with log.batched():
            log.send("t", 0, [b"one"])
            log.poll_acks(wait=True)
            assert list(direct.read("t", 0, 0).values) == [b"one"]
            log.send("t", 0, [b"two"])
        log.poll_acks(wait=True)
    assert list(direct.read("t", 0, 0).values) == [b"one", b"two"]


def test_what_a_broker_refuses_is_told_by_name_and_nothing_is_sent_after_it(direct: KafkaLog, proxy: Proxy) -> None:
    with behind(proxy, direct) as log:
        log.send("t", 0, [b"one"])
        log.poll_acks(wait=True)
        proxy.answer(TOO_LARGE)
        log.send("t", 1, [b"two"])
        with pytest.raises(RecordTooLarge, match=r"partition 1.*nothing is sent after them"):
            log.poll_acks(wait=True)
        for partition in (0, 1):
            with pytest.raises(RecordTooLarge):
                log.send("t", partition, [b"three"])
    assert direct.read("t", 0, 0).values == [b"one"]
    assert direct.read("t", 1, 0).values == [b"two"]  # the broker has it: only its answer said otherwise


def test_a_broker_that_says_nothing_is_an_error_when_the_time_is_over(direct: KafkaLog, proxy: Proxy) -> None:
    with ExitStack() as stack:
        logs: list[KafkaLog] = []

        def sent() -> bool:
            """One that has met a slow broker sends no more."""
            logs.append(stack.enter_context(behind(proxy, direct, 2.0)))
            with suppress(LogUnavailable):
                logs[-1].send("t", 0, [b"one"])
                logs[-1].poll_acks(wait=True)
                return True
            return False

        until(sent, "a log has sent something")
        held = proxy.hold("reply", key=PRODUCE)
        logs[-1].send("t", 0, [b"two"])
        with pytest.raises(LogUnavailable, match=r"partition 0.*not acknowledged"):
            logs[-1].poll_acks(wait=True)
        held.release()


def test_a_compression_that_is_not_known_here_is_left_to_the_library(direct: KafkaLog) -> None:
    with patient_log(session_bootstrap(), {"compression.type": "zstd"}, prefix=direct.prefix) as log:
        read_by_columns(log)
        log.send("t", 0, [b"a" * 1_000] * 50, headers=[b"h"] * 50)
        log.poll_acks(wait=True)
    chunk = direct.read("t", 0, 0)
    assert (list(chunk.values), list(chunk.headers)) == ([b"a" * 1_000] * 50, [b"h"] * 50)
