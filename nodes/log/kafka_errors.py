"""librdkafka's errors as the contract's: what happened, where, what to do."""

from __future__ import annotations

import logging
import time

from confluent_kafka import KafkaError, KafkaException

from nodes.log.contract import (
    TRUNCATION_CAUSES,
    LogDamaged,
    LogError,
    LogTruncated,
    LogUnavailable,
    OffsetOutOfRange,
    RecordTooLarge,
    UnknownTopic,
)

logger = logging.getLogger(__name__)

WARN_INTERVAL_S = 10.0

_UNREACHABLE = frozenset(
    [
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._NOENT,  # "no leaders found"
        KafkaError._DESTROY,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError._GAPLESS_GUARANTEE,  # what the client is unable to after a record that was not acknowledged
    ]
)
_REFUSED = frozenset(
    [
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    ]
)
_UNKNOWN = frozenset([KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION])
DAMAGED = frozenset([KafkaError._BAD_MSG, KafkaError.INVALID_MSG, KafkaError._BAD_COMPRESSION])
OUT_OF_RANGE = frozenset([KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])
PASSING = frozenset([KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE])
"""Errors that librdkafka mends by itself when it can; a deadline decides when that has taken too long."""


class Connection:
    """What the clients of one log say about their connection; errors of the log quote it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.refused: KafkaError | None = None
        self.opened = False
        self._warned_s = float("-inf")
        self._last = ""

    def note(self, error: KafkaError) -> None:
        """The clients' ``error_cb``."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._warn()
            return
        if error.code() in _REFUSED:
            self.refused = error
        self._last = error.str()
        logger.debug("Kafka %s: %s", self.bootstrap, error)

    def _warn(self) -> None:
        """Once in a while: each of three clients says it with every attempt. An opening that fails says it itself."""
        now_s = time.monotonic()
        if self.opened and now_s - self._warned_s > WARN_INTERVAL_S:
            self._warned_s = now_s
            logger.warning("Kafka %s: no broker answers; trying again", self.bootstrap)

    def unavailable(self, what: str) -> LogUnavailable:
        """The brokers do not answer, or not to us."""
        said = (self.refused.str() if self.refused is not None else self._last).rstrip(".")
        advice = (
            "check log.kafka.security.protocol, sasl.* and ssl.*, and the rights of this user"
            if self.refused is not None
            else "check log.bootstrap and that the broker runs (holon kafka status)"
        )
        return LogUnavailable(f"Kafka {self.bootstrap}: {what}{f' ({said})' if said else ''}; {advice}")

    def translated(self, error: KafkaError, what: str) -> LogError:
        """The named error for what a client reports; ``what`` says what failed and where."""
        code, said = error.code(), error.str().rstrip(".")
        if code in _REFUSED:
            self.refused = error
            return self.unavailable(what)
        if code in _UNREACHABLE:
            return self.unavailable(f"{what}: {said}")
        where = f"Kafka {self.bootstrap}: {what}"
        if code in _UNKNOWN:
            return UnknownTopic(f"{where}: {said}; was the topic deleted? See holon log ls")
        if code in OUT_OF_RANGE:
            return OffsetOutOfRange(f"{where}: {said}")
        if code == KafkaError._LOG_TRUNCATION:
            return LogTruncated(
                f"{where}: the log was truncated behind what had been read ({said}); a broker lost acknowledged "
                f"records ({TRUNCATION_CAUSES}). Results may rest on them: start again with --reset"
            )
        if code in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE):
            return RecordTooLarge(f"{where}: {said}; raise max.message.bytes of the topic, or make records smaller")
        if code in DAMAGED:
            return LogDamaged(f"{where}: {said}; the stored record or the connection is damaged")
        return LogError(f"{where}: {said} ({error.name()})")


def is_truncation(error: KafkaError) -> bool:
    """True if the client found by the leaders' epochs that the log was shorter meanwhile, though it may be long again.

    With ``auto.offset.reset=error`` only the text says so.
    """
    return error.code() == KafkaError._LOG_TRUNCATION or "truncation" in error.str()


def reason(error: KafkaException) -> KafkaError:
    """The error inside of the exception."""
    return error.args[0]
