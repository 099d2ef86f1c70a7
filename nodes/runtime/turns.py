"""The loop of a node process: a turn, then a wait until the log has something for the node, or time has passed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from nodes.log.contract import Log, TopicPartition
from nodes.runtime.watchdog import Watchdog


class Wait(NamedTuple):
    """So long at most, unless records come behind these positions."""

    positions: Mapping[TopicPartition, int]
    seconds: float


class TurnMeter(Protocol):
    """Counts the turns of a node and its waits."""

    def turned(self) -> None: ...

    def idle(self) -> AbstractContextManager[None]: ...


def turn_until(
    is_over: Callable[[], bool],
    turn: Callable[[Collection[TopicPartition] | None], Wait | None],
    log: Log,
    watchdog: Watchdog,
    measured: TurnMeter,
) -> None:
    """Let the node turn. ``turn`` gets the places that have records now (None: perhaps all); it gives None to go on."""
    ready: Collection[TopicPartition] | None = None
    while not is_over():
        watchdog.turned()
        wait = turn(ready)
        measured.turned()
        ready = None
        if wait is not None:
            with measured.idle():
                ready = log.wait(wait.positions, wait.seconds)
