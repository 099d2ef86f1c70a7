"""Logs on Kafka in tests on a busy machine: what is only slow is waited for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from nodes.log import LogUnavailable
from nodes.log.kafka.direct import consumer as direct_consumer
from nodes.log.kafka.direct import leaders, produce_requests
from nodes.log.kafka.direct import producer as direct_producer
from nodes.log.kafka.log import KafkaLog
from tests.integration.processes import PLENTY_S, until

if TYPE_CHECKING:
    import pytest


def patient_log(bootstrap: str, properties: Mapping[str, str] | None = None, **options: Any) -> KafkaLog:
    """A log that waits for a broker that is only slow; where a test is about its patience, ``options`` say so."""
    patience = {"connect_timeout_s": PLENTY_S, "timeout_s": PLENTY_S}
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


def connect_patiently(patch: pytest.MonkeyPatch) -> None:
    """Direct connections are waited for; those of a slow broker would be left to the library."""
    patch.setattr(leaders, "CONNECT_S", PLENTY_S)
    patch.setattr(direct_producer, "CONNECT_S", PLENTY_S)
    patch.setattr(direct_consumer, "LOOK_S", PLENTY_S)
    patch.setattr(produce_requests, "_PATIENCE_S", PLENTY_S)
