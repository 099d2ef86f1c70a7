"""Where a log is, as one value that goes to other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodes.log.embedded.log import Fsync


@dataclass(frozen=True, slots=True)
class LogAddress:
    """All that `open_log` needs. ``kafka`` are librdkafka properties, which may hold secrets and are not shown.

    ``url``: ``embedded:PATH``, ``kafka:HOST:PORT[,HOST:PORT...]`` or ``memory:``; ``prefix``: the beginning of topic
    names on the Kafka cluster. ``timeout_s``: how long its brokers may not answer; ``connect_timeout_s``: the same of
    opening the log, None for the 5 s of commands in a terminal. ``stall_timeout_s``: after so long without records of a
    partition its end is requested, 0: never; None for the 10 s of the settings.
    """

    url: str
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    prefix: str = ""
    fsync: Fsync = "interval"
    fsync_interval_ms: int = 1000
    timeout_s: float = 15.0
    connect_timeout_s: float | None = None
    stall_timeout_s: float | None = None

    @property
    def bootstrap(self) -> str | None:
        """The brokers of a log on Kafka, None of any other."""
        scheme, _, rest = self.url.partition(":")
        return rest if scheme == "kafka" else None

    def __str__(self) -> str:
        """For messages."""
        scheme, _, rest = self.url.partition(":")
        return rest if scheme == "embedded" else self.url
