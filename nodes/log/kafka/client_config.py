"""How the clients of Kafka are set up: what correctness needs, under what users pass through."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from nodes.log.kafka.direct.security import KNOWN as SECURITY
from nodes.log.kafka.direct.security import unsupported_security

logger = logging.getLogger(__name__)

FETCH_WAIT_MS = 20
"""How long the broker holds a fetch that finds nothing. It is answered at once when something arrives; but a partition
that is looked at for the first time waits until the fetch before it is answered."""
FETCH_QUEUE_KBYTES = 16_384
FETCH_QUEUE_RECORDS = 20_000
SEND_QUEUE_KBYTES = 65_536
"""Sent and not yet acknowledged; who sends more waits."""
SEND_BATCH_BYTES = 1_000_000
"""Of what is sent without waiting; fits into Kafka's default limit. A single record may be larger."""
MAX_BATCH_RECORDS = 1_000_000
UNUSED_GROUP = "holon"
"""Consumers must name a group; no offset is ever committed to it or fetched from it."""
OWN_PREFIX = "holon."
"""Not librdkafka's: how this log itself uses Kafka."""
WRITER, READER = f"{OWN_PREFIX}writer", f"{OWN_PREFIX}reader"
IMPLEMENTATIONS = ("direct", "librdkafka")
"""Writers and readers of columns: connections of Holon's own (the default), or those of confluent-kafka."""
_KNOWN = frozenset(["client.id", "group.id", "debug"])
_HARMLESS = (OWN_PREFIX, "compression.", "reconnect.", "retry.", "metadata.", "topic.metadata.", "connections.")


class ClientLog:
    """Takes what librdkafka logs. Its errors come back in exceptions, so here they are details for who debugs."""

    def log(self, level: int, text: str, *arguments: object) -> None:
        """Called by confluent-kafka while a client is polled."""
        logger.debug("librdkafka (level %d): " + text, level, *arguments)


def writes_directly(properties: Mapping[str, str]) -> bool:
    """True where ``WRITER`` is the direct writer, or is not set."""
    return properties.get(WRITER, IMPLEMENTATIONS[0]) == IMPLEMENTATIONS[0]


def not_read_directly(properties: Mapping[str, str]) -> str | None:
    """The reason why topics are read by confluent-kafka; None: they are read directly.

    Connections of our own know no preferences about networks and racks.
    """
    if properties.get(READER, IMPLEMENTATIONS[0]) != IMPLEMENTATIONS[0]:
        return f"log.kafka.{READER} is {properties[READER]}"
    unknown = [name for name in properties if not (name in _KNOWN or name in SECURITY or name.startswith(_HARMLESS))]
    wrong = unsupported_security(properties) or (unknown[0] if unknown else None)
    return None if wrong is None else f"Holon's own connections do not know log.kafka.{wrong}"


def log_reader(bootstrap: str, why: str | None) -> None:
    """A line for who wonders why reading is slow; ``why`` is what ``not_read_directly`` gives."""
    if why is not None:
        logger.info("Kafka %s: topics are read by confluent-kafka: %s", bootstrap, why)


def common(bootstrap: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """The properties of every client: short pauses, so that a broker that comes back is found quickly."""
    return {
        "client.id": "holon",
        "socket.keepalive.enable": True,
        "socket.nagle.disable": True,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "retry.backoff.ms": 50,
        **{name: value for name, value in properties.items() if not name.startswith(OWN_PREFIX)},
        "bootstrap.servers": bootstrap,
        "logger": ClientLog(),
    }


def consumer(base: Mapping[str, Any], error: Callable[[KafkaError], None]) -> dict[str, Any]:
    """A reader of assigned partitions: no group, no commits, no jump to another offset behind the reader's back.

    ``read_committed``: what an aborted transaction has written is not part of the log, and the end is where
    everything is decided; so all readers agree, whenever they read.
    """
    return {
        "group.id": UNUSED_GROUP,
        **base,
        "error_cb": error,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "check.crcs": True,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
        "fetch.error.backoff.ms": 50,
        "fetch.queue.backoff.ms": 2,
        "queued.min.messages": FETCH_QUEUE_RECORDS,
        "queued.max.messages.kbytes": FETCH_QUEUE_KBYTES,
        "allow.auto.create.topics": False,
    }


def producer(
    base: Mapping[str, Any], error: Callable[[KafkaError], None], batch_bytes: int, timeout_s: float
) -> dict[str, Any]:
    """A writer whose batch goes out as one piece, when it is flushed and not before.

    Kafka takes or refuses a batch as a whole, at consecutive offsets. ``linger.ms`` is long because a flush overrides
    it: a shorter one could cut a batch in two while it is still being handed over.
    """
    return {
        **{key: value for key, value in base.items() if key != "group.id"},
        "error_cb": error,
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "linger.ms": int(timeout_s * 500),
        "batch.num.messages": MAX_BATCH_RECORDS,
        "batch.size": 2 * batch_bytes,
        "message.max.bytes": 2 * batch_bytes,
        "queue.buffering.max.messages": MAX_BATCH_RECORDS + 10_000,
        "message.timeout.ms": int(timeout_s * 1000),
    }


def sender(
    base: Mapping[str, Any], error: Callable[[KafkaError], None], batch_bytes: int, timeout_s: float
) -> dict[str, Any]:
    """A writer that waits for nothing: what is handed over leaves at once, in order, without a gap.

    Compressed, unless users set another value: it saves more of the network and of the broker than it costs here.
    """
    return {
        "compression.type": "lz4",
        **{key: value for key, value in base.items() if key != "group.id"},
        "error_cb": error,
        "acks": "all",
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "linger.ms": 0,
        "batch.size": SEND_BATCH_BYTES,
        "message.max.bytes": 2 * batch_bytes,
        "queue.buffering.max.kbytes": SEND_QUEUE_KBYTES,
        "message.timeout.ms": int(timeout_s * 1000),
    }


def in_transactions(sender: Mapping[str, Any], name: str, timeout_ms: int) -> dict[str, Any]:
    """A sender whose records show when their transaction is committed."""
    return {
        **sender,
        "transactional.id": name,
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": min(timeout_ms, sender["message.timeout.ms"]),
    }


def admin(base: Mapping[str, Any], error: Callable[[KafkaError], None]) -> dict[str, Any]:
    """A client for topics."""
    return {key: value for key, value in base.items() if key != "group.id"} | {"error_cb": error}
