"""What is asked of a Kafka cluster about topics, where the connection breaks between question and answer."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.log.contract import LogUnavailable, TopicPartition
from nodes.log.kafka_errors import Connection
from nodes.log.kafka_topics import Topics

T = TopicPartition("t", 0)
NO_OFFSET = -1001
"""What librdkafka tells without an error where the broker was lost before it had answered."""


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


def topics(broker: Any, timeout_s: float = 60.0) -> Topics:
    made = Topics({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, Connection("b:1"), "", timeout_s)
    made._admin = broker
    return made


def test_no_offset_is_no_answer_and_is_asked_for_again() -> None:
    assert topics(Broker(NO_OFFSET, NO_OFFSET, 7)).offsets([T], at_end=True) == {T: 7}


def test_whoever_gets_no_answer_says_so_by_name() -> None:
    silent = topics(Broker(None, None, None), timeout_s=0.05)
    with pytest.raises(LogUnavailable, match="asking for offsets"):
        silent.offsets([T], at_end=True)
    with pytest.raises(LogUnavailable, match="asking for limits of 't'"):
        silent.limit("t")
