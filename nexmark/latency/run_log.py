"""Where a measurement runs: a log in a temporary folder, a Kafka broker of its own, or the broker that was named."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nodes.api import SettingsError, UnknownName, passing_broker

LOGS = ("kafka", "embedded")


@dataclass(frozen=True, slots=True)
class MeasurementBroker:
    """``definitions`` are settings; ``broker`` is the process id of a broker that was started for this."""

    definitions: list[str]
    broker: int | None


@contextmanager
def measuring_place(kind: str, bootstrap: str | None, report: Callable[[str], None]) -> Iterator[MeasurementBroker]:
    """Everything that is made here is gone afterwards, except topics on a broker that was named."""
    if kind not in LOGS:
        raise UnknownName("log", kind, LOGS)
    if kind != "kafka" and bootstrap is not None:
        raise SettingsError(f"--bootstrap is for --log kafka, not --log {kind}")
    with tempfile.TemporaryDirectory(prefix="holon-latency-") as name:
        folder = Path(name)
        checkpoints = f"checkpoints.url={folder / 'checkpoints'}"
        if kind == "embedded":
            yield MeasurementBroker(["log.kind=embedded", f"log.path={folder / 'log'}", checkpoints], None)
        elif bootstrap is not None:
            yield MeasurementBroker(["log.kind=kafka", f"log.bootstrap={bootstrap}", checkpoints], None)
        else:
            report("starting a Kafka broker")
            with passing_broker(folder / "kafka") as broker:
                yield MeasurementBroker(
                    ["log.kind=kafka", f"log.bootstrap={broker.bootstrap}", checkpoints], broker.pid
                )
