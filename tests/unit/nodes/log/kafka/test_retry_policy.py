"""Errors of an outage, class by class: those that wait, those that begin anew, and those that end a node for good."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException

from nodes.cli.errors import classify
from nodes.fleet.supervisor import ENVIRONMENT
from nodes.log import LogError, LogInterrupted, LogUnavailable, UnknownTopic
from nodes.log.kafka import append as kafka_append
from nodes.log.kafka import producer as kafka_send
from nodes.log.kafka.append import Appender
from nodes.log.kafka.direct.in_flight_batches import Track
from nodes.log.kafka.direct.record_batch import Batch, UnsentRecords
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.producer import Sender
from nodes.log.kafka.record_columns import RecordColumns
from nodes.log.kafka.retry_policy import SENT_AGAIN, Remedy, remedy
from nodes.log.kafka.unacknowledged_writes import Unanswered
from nodes.log.kafka.unordered_producer import LooseWriter

CODES = {
    Remedy.WAIT: "_ALL_BROKERS_DOWN _TRANSPORT _MSG_TIMED_OUT NOT_LEADER_FOR_PARTITION COORDINATOR_LOAD_IN_PROGRESS "
    "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR KAFKA_STORAGE_ERROR UNKNOWN",
    Remedy.RENEW: "OUT_OF_ORDER_SEQUENCE_NUMBER UNKNOWN_PRODUCER_ID INVALID_PRODUCER_EPOCH _PURGE_QUEUE "
    "_PURGE_INFLIGHT _FATAL _GAPLESS_GUARANTEE _FENCED",
    Remedy.RECHECK: "UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION",
    Remedy.REFUSED: "TOPIC_AUTHORIZATION_FAILED SASL_AUTHENTICATION_FAILED",
    Remedy.FINAL: "MSG_SIZE_TOO_LARGE POLICY_VIOLATION OFFSET_OUT_OF_RANGE",
}
ERRORS: dict[Remedy, type[LogError]] = {
    Remedy.WAIT: LogUnavailable,
    Remedy.RENEW: LogInterrupted,
    Remedy.RECHECK: UnknownTopic,
    Remedy.REFUSED: LogUnavailable,
    Remedy.FINAL: LogError,
}
EACH = [(help, getattr(KafkaError, name)) for help, names in CODES.items() for name in names.split()]
Report = Callable[[KafkaError | None, Any], None]


class FakeProducer:
    """Keeps what is handed over; ``fails`` are the errors that its next records are reported with."""

    made: list[FakeProducer]

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.fails: list[int] = []
        self.sent: list[bytes] = []
        self.full = self.hides_offsets = False
        self._reports: list[tuple[Report, KafkaError | None, Any]] = []
        FakeProducer.made.append(self)

    def produce(self, name: str, value: bytes, *_: Any, on_delivery: Report | None = None, **__: Any) -> None:
        if self.full:
            raise BufferError
        error = KafkaError(self.fails.pop(0)) if self.fails else None
        self.sent += [value] if error is None else []
        at = len(self.sent) - 1
        offset = None if self.hides_offsets else at
        message = SimpleNamespace(offset=lambda: offset, timestamp=lambda: (1, 5))
        if on_delivery is not None:
            self._reports.append((on_delivery, error, message))

    def poll(self, timeout_s: float) -> int:
        reports, self._reports = self._reports, []
        for report, error, message in reports:
            report(error, message)
        return len(reports)

    def flush(self, timeout_s: float) -> int:
        self.poll(timeout_s)
        return 0

    def purge(self) -> None:
        pass

    def list_topics(self, name: str, timeout: float) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(partitions={0: None})})


@pytest.fixture(autouse=True)
def producers(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """Those that are made, in their order."""
    FakeProducer.made = []
    monkeypatch.setattr(kafka_send, "Producer", FakeProducer)
    monkeypatch.setattr(kafka_append, "Producer", FakeProducer)
    return FakeProducer.made


def loose() -> LooseWriter:
    new_producer: Any = FakeProducer
    config = {"enable.idempotence": True, "enable.gapless.guarantee": True, "acks": "all"}
    connection = Connection("h:1")
    new_appender = lambda: Appender(config, connection, 1.0, renews=True)  # noqa: E731
    return LooseWriter(config, connection, new_appender, Unanswered(), new_producer)


def beat(writer: LooseWriter | Sender, value: bytes) -> list[int]:
    told: list[int] = []
    writer.send("beats", 0, [value], None, None, told.append)
    return told


@pytest.mark.parametrize("kind", ["ordered", "unordered"])
def test_an_acknowledgement_without_an_offset_lies_behind_the_one_before(
    kind: str, producers: list[FakeProducer]
) -> None:
    """The client gives none for a batch that was sent twice and stands on the log once."""
    writer = loose() if kind == "unordered" else Sender({}, Connection("h:1"), 1.0)

    def ends(*values: bytes) -> list[int]:
        told: list[int] = []
        writer.send("beats", 0, values, None, None, told.append)
        writer.poll() if isinstance(writer, LooseWriter) else writer.poll_acks(wait=False)
        return told

    assert ends(b"0", b"1") == [2]
    producers[0].hides_offsets = True
    assert ends(b"2", b"3", b"4") == [5] and ends(b"5") == [6]
    producers[0].hides_offsets = False
    assert ends(b"6") == [7]


def test_an_append_that_is_acknowledged_without_an_offset_begins_behind_the_one_before(
    producers: list[FakeProducer],
) -> None:
    appender = Appender({}, Connection("h:1"), 1.0)

    def first(count: int) -> int:
        return appender.append("beats", 0, [b"x"] * count, None, None, np.array([1] * count), 1 << 20).first_offset

    assert first(2) == 0
    producers[0].hides_offsets = True
    assert first(3) == 2 and first(1) == 5
    producers[0].hides_offsets = False
    assert first(1) == 6


@pytest.mark.parametrize(("help", "code"), EACH)
def test_each_error_has_one_remedy_and_is_named_by_it(help: Remedy, code: int) -> None:
    assert remedy(code) is help
    error = Connection("h:1").translated(KafkaError(code), "sending")
    assert isinstance(error, ERRORS[help])
    assert isinstance(error, LogInterrupted) is (help is Remedy.RENEW)
    comes_back = help in (Remedy.WAIT, Remedy.RENEW, Remedy.REFUSED)
    assert (classify(error)[0] == ENVIRONMENT) is comes_back


@pytest.mark.parametrize(("help", "code"), EACH)
def test_our_own_batches_are_sent_again_where_waiting_helps(help: Remedy, code: int) -> None:
    if code <= 0 and code != KafkaError.UNKNOWN:
        return  # librdkafka's own
    track = Track("t", 0)
    track.pieces.append(UnsentRecords(RecordColumns([b"x"], None, None), print, 0.0))
    batch = track.next_batch(lambda pieces, sequence: Batch(b"", pieces.popleft().records.count, 1, 0.0, []))
    assert batch is not None
    again = track.answered(batch, code, -1) == []
    assert again is (help in (Remedy.WAIT, Remedy.RECHECK)) is (code in SENT_AGAIN)


@pytest.mark.parametrize("code", [code for help, code in EACH if help is Remedy.RENEW])
def test_where_nothing_needs_a_place_a_new_producer_goes_on_by_itself(code: int, producers: list[FakeProducer]) -> None:
    writer = loose()
    beat(writer, b"0")
    producers[0].fails = [code]
    beat(writer, b"lost")
    writer.poll()
    told = beat(writer, b"2")
    writer.poll()
    assert [producer.sent for producer in producers] == [[b"0"], [b"2"]] and told == [1]
    assert (writer.dropped, writer.renewed) == (1, 1)
    assert producers[1].config["enable.idempotence"] is False and "enable.gapless.guarantee" not in producers[1].config


@pytest.mark.parametrize("code", [code for help, code in EACH if help is not Remedy.RENEW])
def test_where_nothing_needs_a_place_other_failures_are_dropped(code: int, producers: list[FakeProducer]) -> None:
    writer = loose()
    beat(writer, b"0")
    producers[0].fails = [code]
    beat(writer, b"lost")
    writer.poll()
    producers[0].full = True
    beat(writer, b"lost too")
    producers[0].full = False
    beat(writer, b"2")
    writer.poll()
    assert [producer.sent for producer in producers] == [[b"0", b"2"]]
    assert (writer.dropped, writer.renewed) == (2, 0)


def test_a_producer_that_refuses_at_once_is_replaced_too(producers: list[FakeProducer]) -> None:
    writer = loose()
    beat(writer, b"0")

    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    producers[0].produce = refuse  # type: ignore[method-assign]
    beat(writer, b"lost")
    beat(writer, b"2")
    assert producers[1].sent == [b"2"]


@pytest.mark.parametrize(("help", "code"), [(help, code) for help, code in EACH if help in ERRORS])
def test_where_order_counts_the_first_failure_ends_the_sender(
    help: Remedy, code: int, producers: list[FakeProducer]
) -> None:
    sender = Sender({}, Connection("h:1"), 1.0)
    beat(sender, b"0")
    producers[0].fails = [code]
    beat(sender, b"lost")
    with pytest.raises(ERRORS[help]) as told:
        sender.poll_acks(wait=False)
    with pytest.raises(ERRORS[help]):
        beat(sender, b"2")
    assert isinstance(told.value, LogInterrupted) is (help is Remedy.RENEW)
    assert [producer.sent for producer in producers] == [[b"0"]]


def test_what_the_client_raises_of_a_fatal_error_is_one_that_a_new_producer_mends(
    monkeypatch: pytest.MonkeyPatch, producers: list[FakeProducer]
) -> None:
    def crash(self: FakeProducer, timeout_s: float) -> int:
        raise SystemError("exception <class 'str'> is not a BaseException subclass")

    writer, sender, appender = loose(), Sender({}, Connection("h:1"), 1.0), Appender({}, Connection("h:1"), 1.0)
    beat(writer, b"0")
    beat(sender, b"0")
    with monkeypatch.context() as patch:
        patch.setattr(FakeProducer, "poll", crash)
        writer.poll()
        with pytest.raises(LogInterrupted):
            sender.poll_acks(wait=False)
        with pytest.raises(LogInterrupted):
            appender.append("beats", 0, [b"x"], None, None, np.array([1]), 1 << 20)
    made = len(producers)
    beat(writer, b"1")
    assert producers[made].sent == [b"1"] and writer.renewed == 1


@pytest.mark.parametrize("renews", [True, False])
def test_an_append_that_failed_stops_all_later_ones_but_where_gaps_do_no_harm(
    renews: bool, producers: list[FakeProducer]
) -> None:
    appender = Appender({}, Connection("h:1"), 1.0, renews=renews)

    def append(value: bytes) -> None:
        appender.append("beats", 0, [value], None, None, np.array([1]), 1 << 20)

    append(b"0")
    producers[0].fails = [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER]
    with pytest.raises(LogInterrupted):
        append(b"lost")
    if renews:
        append(b"2")
        assert [producer.sent for producer in producers] == [[b"0"], [b"2"]]
    else:
        with pytest.raises(LogUnavailable, match="appends nothing any more"):
            append(b"2")
