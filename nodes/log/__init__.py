"""Logs: one contract, several implementations, chosen by an address."""

from __future__ import annotations

import os
from collections.abc import Mapping

from nodes.log.address import LogAddress
from nodes.log.contract import (
    Appended,
    FetchedRecords,
    Log,
    LogDamaged,
    LogError,
    LogFull,
    LogInterrupted,
    LogTruncated,
    LogUnavailable,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicExists,
    TopicPartition,
    UnknownTopic,
)
from nodes.log.embedded.log import EmbeddedLog, Fsync
from nodes.log.memory import MemoryLog

__all__ = [
    "Appended",
    "EmbeddedLog",
    "FetchedRecords",
    "Fsync",
    "Log",
    "LogAddress",
    "LogDamaged",
    "LogError",
    "LogFull",
    "LogInterrupted",
    "LogTruncated",
    "LogUnavailable",
    "MemoryLog",
    "OffsetOutOfRange",
    "RecordTooLarge",
    "TopicExists",
    "TopicPartition",
    "UnknownTopic",
    "open_log",
]


def open_log(
    address: str | os.PathLike[str] | LogAddress,
    *,
    fsync: Fsync = "interval",
    fsync_interval_ms: int = 1000,
    kafka: Mapping[str, str] | None = None,
    prefix: str = "",
    timeout_s: float = 15.0,
) -> Log:
    """Open ``embedded:/path`` (or just a path), ``kafka:HOST:PORT[,HOST:PORT...]``, or ``memory:`` (a new, empty log).

    The fsync settings are the embedded log's; ``kafka`` are librdkafka properties, secrets included. ``prefix``
    precedes the topics' names on the brokers, ``timeout_s`` is how long they may not answer. ``ValueError`` for another
    scheme.
    """
    if isinstance(address, LogAddress):
        found = address
    else:
        text = os.fspath(address)
        scheme, colon, _ = text.partition(":")
        url = text if colon and "/" not in scheme else f"embedded:{text}"
        found = LogAddress(url, kafka or {}, prefix, fsync, fsync_interval_ms, timeout_s)
    return _open(found)


def _open(address: LogAddress) -> Log:
    scheme, _, rest = address.url.partition(":")
    rest = rest.removeprefix("//")
    if scheme == "embedded":
        return EmbeddedLog(rest, address.fsync, address.fsync_interval_ms)
    if scheme == "memory":
        return MemoryLog()
    if scheme == "kafka":
        from nodes.log.kafka.log import CONNECT_TIMEOUT_S, STALL_TIMEOUT_S, KafkaLog  # comes with an extra

        return KafkaLog(
            rest,
            address.kafka,
            prefix=address.prefix,
            connect_timeout_s=CONNECT_TIMEOUT_S if address.connect_timeout_s is None else address.connect_timeout_s,
            timeout_s=address.timeout_s,
            stall_timeout_s=STALL_TIMEOUT_S if address.stall_timeout_s is None else address.stall_timeout_s,
        )
    raise ValueError(
        f"{address.url!r}: unknown kind of log {scheme!r}; use embedded:PATH, a path, kafka:HOST:PORT, or memory:"
    )
