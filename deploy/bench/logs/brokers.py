"""Kafka for a benchmark: the brokers that it was given, or one of its own for as long as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nodes.local_kafka import broker as kafka_broker


@contextmanager
def given_or_started(bootstrap: str | None, folder: Path) -> Iterator[str]:
    """The address of the brokers given, else of one that is started in ``folder`` and dropped at the end."""
    if bootstrap is not None:
        yield bootstrap
        return
    with kafka_broker.passing(folder) as broker:
        yield broker.bootstrap
