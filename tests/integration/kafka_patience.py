"""Logs on Kafka in tests on a busy machine: what is only slow is waited for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nodes.log import Log, LogUnavailable
from nodes.log.kafka.direct import consumer as direct_consumer
from nodes.log.kafka.direct import leaders
from nodes.log.kafka.log import KafkaLog
from tests.integration.processes import PLENTY_S, until

if TYPE_CHECKING:
    import pytest


def patient_log(bootstrap: str, properties: Mapping[str, str] | None = None, **options: Any) -> KafkaLog:
    """A log that waits for a broker that is only slow; where a test is about its patience, ``options`` say so."""
    patience: dict[str, Any] = {"connect_timeout_s": PLENTY_S, "timeout_s": PLENTY_S}
    return KafkaLog(bootstrap, properties, **(patience | options))


def until_refused(open_log: Callable[[], KafkaLog], words: str) -> str:
    """Until the error of a log that cannot be opened says this; gives all of it.

    One whose client had no time to reach the broker, or to hear its answer, knows no reason yet.
    """

    def refused() -> bool:
        try:
            log = open_log()
        except LogUnavailable as error:
            said.append(str(error))
            return re.search(words, said[-1]) is not None
        log.close()
        raise AssertionError("the log was opened")

    said: list[str] = []
    until(refused, f"a refusal says {words!r}")
    return said[-1]


def await_decided(log: Log, topic: str) -> None:
    """Until no transaction is open there: the coordinator says that one has ended, and writes its marks later."""
    places = [(topic, partition) for partition in range(log.partitions(topic))]
    until(lambda: all(log.end_offset(*at) == log.high_watermark(*at) for at in places), f"{topic} is decided")


def connect_patiently(patch: pytest.MonkeyPatch) -> None:
    """Direct connections are waited for; what a slow broker leads would be read by the library for a while."""
    patch.setattr(leaders, "CONNECT_S", PLENTY_S)
    patch.setattr(direct_consumer, "LEADER_SEARCH_S", PLENTY_S)
