"""librdkafka's errors as the contract's: what happened, where, what to do."""

from __future__ import annotations

import logging
import time

from confluent_kafka import KafkaError, KafkaException

from nodes.log.contract import (
    TRUNCATION_CAUSES,
    LogDamaged,
    LogError,
    LogInterrupted,
    LogTruncated,
    LogUnavailable,
    OffsetOutOfRange,
    RecordTooLarge,
    UnknownTopic,
)
from nodes.log.kafka.retry_policy import Remedy, remedy

logger = logging.getLogger(__name__)

_ALERT = "SSL alert number"
"""Part of OpenSSL's message when the peer ends a handshake; the client reports it as a lost connection."""

WARN_INTERVAL_S = 10.0

DAMAGED = frozenset([KafkaError._BAD_MSG, KafkaError.INVALID_MSG, KafkaError._BAD_COMPRESSION])
OUT_OF_RANGE = frozenset([KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])


class Connection:
    """The reports of one log's clients about their connection; errors of the log quote it."""

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
        if remedy(error.code()) is Remedy.REFUSED or _ALERT in error.str():
            self.refused = error
        self._last = error.str()
        logger.debug("Kafka %s: %s", self.bootstrap, error)

    def _warn(self) -> None:
        """Rate-limited, since each of three clients reports every attempt. An opening that fails raises by itself."""
        now_s = time.monotonic()
        if self.opened and now_s - self._warned_s > WARN_INTERVAL_S:
            self._warned_s = now_s
            logger.warning("Kafka %s: no broker answers; trying again", self.bootstrap)

    def unavailable(self, what: str) -> LogUnavailable:
        """The brokers do not answer, or not to us."""
        detail = (self.refused.str() if self.refused is not None else self._last).rstrip(".")
        advice = (
            "check log.kafka.security.protocol, sasl.* and ssl.*, and the rights of this user"
            if self.refused is not None
            else "check log.bootstrap and that the broker runs (holon kafka status)"
        )
        if _ALERT in detail:
            advice = (
                "the broker ends the TLS handshake: it wants a certificate of this client, signed by an authority that "
                "it knows, see log.kafka.ssl.certificate.location and ssl.key.location; else check ssl.*"
            )
        return LogUnavailable(f"Kafka {self.bootstrap}: {what}{f' ({detail})' if detail else ''}; {advice}")

    def translated(self, error: KafkaError, what: str) -> LogError:
        """The named error for what a client reports; ``what`` names the failed operation and its topic."""
        code, detail = error.code(), error.str().rstrip(".")
        where = f"Kafka {self.bootstrap}: {what}"
        match remedy(code):
            case Remedy.REFUSED:
                self.refused = error
                return self.unavailable(what)
            case Remedy.WAIT:
                return self.unavailable(f"{what}: {detail}")
            case Remedy.RENEW:
                return LogInterrupted(f"{where}: {detail} ({error.name()}); a new writer goes on from a checkpoint")
            case Remedy.RECHECK:
                return UnknownTopic(f"{where}: {detail}; was the topic deleted? See holon log ls")
            case Remedy.FINAL:
                return self._final(error, where)

    def _final(self, error: KafkaError, where: str) -> LogError:
        code, detail = error.code(), error.str().rstrip(".")
        if code in OUT_OF_RANGE:
            return OffsetOutOfRange(f"{where}: {detail}")
        if code == KafkaError._LOG_TRUNCATION:
            return LogTruncated(
                f"{where}: the log was truncated behind what had been read ({detail}); a broker lost acknowledged "
                f"records ({TRUNCATION_CAUSES}). Results may rest on them: start again with --reset"
            )
        if code in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE):
            return RecordTooLarge(f"{where}: {detail}; raise max.message.bytes of the topic, or make records smaller")
        if code in DAMAGED:
            return LogDamaged(f"{where}: {detail}; the stored record or the connection is damaged")
        return LogError(f"{where}: {detail} ({error.name()})")


def is_truncation(error: KafkaError) -> bool:
    """True if the client found by the leaders' epochs that the log was shorter meanwhile, though it may be long again.

    With ``auto.offset.reset=error`` only the text shows it.
    """
    return error.code() == KafkaError._LOG_TRUNCATION or "truncation" in error.str()


def reason(error: KafkaException) -> KafkaError:
    """The error inside of the exception."""
    return error.args[0]
