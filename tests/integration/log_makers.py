"""The logs that the contract suite runs on. Another implementation adds itself to ``MAKERS`` and gets all its tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from holon.columnar.loops import install
from nodes.compiled import loading as compiled
from nodes.log import EmbeddedLog, Log, MemoryLog
from nodes.log.embedded import log as embedded_log
from nodes.log.embedded.columns import Gatherer
from tests.integration.kafka_broker import session_log

OWN = {"holon.reader": "direct"}
"""All topics are read over connections of the log's own."""


class HandClock:
    """Log time that a test moves."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True)
class Maker:
    """How to make a log, and what it can be asked for beyond the contract."""

    make: Callable[[Path, HandClock | None], Log]
    has_clock: bool
    """Log time can be set by the test."""
    shared: bool
    """A second instance sees the same records, and other threads may append while one waits."""
    max_record_bytes: int


def _memory(folder: Path, clock: HandClock | None) -> Log:
    return MemoryLog(clock or HandClock(), max_record_bytes=6 << 20)


def _embedded(folder: Path, clock: HandClock | None) -> Log:
    return EmbeddedLog(folder, max_record_bytes=6 << 20, **({"clock_ms": clock} if clock else {}))


def _embedded_columns(folder: Path, clock: HandClock | None) -> Log:
    """Values as columns, also where little is read."""
    assert compiled.ensure(), "numba is part of the development environment"
    log = EmbeddedLog(folder, max_record_bytes=6 << 20, **({"clock_ms": clock} if clock else {}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded_log, "Gatherer", partial(Gatherer, small_bytes=0))
        log.use_columns()
    install(None)  # the log keeps them; other tests of this process do without
    return log


def _kafka(folder: Path, clock: HandClock | None) -> Log:
    assert clock is None, "the broker has a clock of its own"
    return session_log(folder, max_record_bytes=6 << 20)


def _kafka_own(folder: Path, clock: HandClock | None) -> Log:
    """The reader of its own connections, for all topics."""
    log = session_log(folder, OWN, max_record_bytes=6 << 20)
    read_by_columns(log)
    return log


def _kafka_columns(folder: Path, clock: HandClock | None) -> Log:
    """The reader by compiled loops, which must be all that the plain one is."""
    log = _kafka(folder, clock)
    read_by_columns(log)
    return log


def read_by_columns(log: Log) -> None:
    """From now on by the compiled loops."""
    assert compiled.ensure(), "numba is part of the development environment"
    assert log.use_columns()
    install(None)  # the log keeps them; other tests of this process do without


MAKERS = {
    "memory": Maker(_memory, has_clock=True, shared=False, max_record_bytes=6 << 20),
    "embedded": Maker(_embedded, has_clock=True, shared=True, max_record_bytes=6 << 20),
    "embedded-columns": Maker(_embedded_columns, has_clock=True, shared=True, max_record_bytes=6 << 20),
    "kafka": Maker(_kafka, has_clock=False, shared=True, max_record_bytes=6 << 20),
    "kafka-columns": Maker(_kafka_columns, has_clock=False, shared=True, max_record_bytes=6 << 20),
}
READERS = {**MAKERS, "kafka-own": Maker(_kafka_own, has_clock=False, shared=True, max_record_bytes=6 << 20)}
"""And one that differs from another only in how it reads."""
