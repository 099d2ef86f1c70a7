"""Requests to a Kafka cluster about topics, where the connection breaks between request and answer."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from nodes.log.contract import LogUnavailable, TopicPartition, UnknownTopic
from nodes.log.kafka import topics as kafka_topics
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.topics import TopicAdmin

T = TopicPartition("t", 0)
NO_OFFSET = -1001
"""The offset that librdkafka returns without an error where the broker was lost before it had answered."""


class Broker:
    """Gives one offset after the other; None: it never answers."""

    def __init__(self, *answers: int | None) -> None:
        self._answers = list(answers)

    def list_offsets(self, wishes: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        answer = self._answers.pop(0)
        asked = {wish: Future[Any]() for wish in wishes}
        for future in asked.values() if answer is not None else ():
            future.set_result(SimpleNamespace(offset=answer))
        return asked

    def describe_configs(self, resources: list[Any], **options: Any) -> dict[Any, Future[Any]]:
        return {resource: Future() for resource in resources}

    def list_topics(self, timeout: float) -> None:
        pass


def topics(broker: Any, timeout_s: float = 60.0) -> TopicAdmin:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_topics, "AdminClient", lambda properties: broker)
        return TopicAdmin({}, Connection("b:1"), "", timeout_s)


def test_no_offset_is_no_answer_and_is_asked_for_again() -> None:
    assert topics(Broker(NO_OFFSET, NO_OFFSET, 7)).offsets([T], at_end=True) == {T: 7}


@pytest.mark.slow
def test_whoever_gets_no_answer_says_so_by_name() -> None:
    silent = topics(Broker(None, None, None), timeout_s=0.05)
    with pytest.raises(LogUnavailable, match="requesting offsets"):
        silent.offsets([T], at_end=True)
    with pytest.raises(LogUnavailable, match="requesting limits of 't'"):
        silent.limit("t")


class Newcomer(Broker):
    """Does not know the topic for so many questions."""

    def __init__(self, ignorant: int) -> None:
        super().__init__()
        self.ignorant = ignorant

    def _answered(self, value: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.ignorant -= 1
        if self.ignorant >= 0:
            future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        else:
            future.set_result(value)
        return future

    def list_offsets(self, wishes: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        return {wish: self._answered(SimpleNamespace(offset=7)) for wish in wishes}

    def describe_configs(self, resources: list[Any], **options: Any) -> dict[Any, Future[Any]]:
        return {one: self._answered({"max.message.bytes": SimpleNamespace(value="900")}) for one in resources}


def test_a_broker_that_a_new_topic_has_not_reached_yet_is_asked_again() -> None:
    assert topics(Newcomer(3)).offsets([T], at_end=True) == {T: 7}
    assert topics(Newcomer(3)).limit("t") == 900


def test_a_topic_that_stays_unknown_is_named_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_topics, "SPREAD_S", 0.05)
    with pytest.raises(UnknownTopic, match="was the topic deleted"):
        topics(Newcomer(1_000_000)).offsets([T], at_end=True)
    with pytest.raises(UnknownTopic, match="requesting limits of 't'"):
        topics(Newcomer(1_000_000)).limit("t")


class Committed(Broker):
    """Gives the ends of what is committed to whoever requests those."""

    def list_offsets(self, wishes: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        assert options["isolation_level"] is IsolationLevel.READ_COMMITTED
        return super().list_offsets(wishes, **options)


def test_ends_that_are_not_waited_for_come_when_they_are_there() -> None:
    broker = Committed(5, NO_OFFSET, None)
    admin = topics(broker)
    assert admin.request_ends([T]).found() == {T: 5}
    assert admin.request_ends([T]).found() == {}, "no end is no answer"
    assert admin.request_ends([T]).found() is None, "it is on its way"
    assert topics(Newcomer(1)).request_ends([T]).found() == {}, "an error is none either"


def test_a_client_that_refuses_a_request_for_ends_gives_none() -> None:
    class Refusing(Broker):
        def list_offsets(self, wishes: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
            raise KafkaException(KafkaError(KafkaError._STATE))

    assert topics(Refusing()).request_ends([T]).found() == {}
