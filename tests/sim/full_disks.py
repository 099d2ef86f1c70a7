"""Disks that are full for a while, under nodes of a simulated fleet: appends find no room, and saves take as long.

A node waits in the midst of its turn, as it does on the embedded log (``nodes/log/patient.py``). The others go on
meanwhile, so it may have lost all that it owns when there is room again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from nodes.log.contract import Appended, Log, LogError, LogFull
from nodes.log.patient import PatientLog
from nodes.machine import messages as m
from nodes.sim.case import TENTH_SEED
from nodes.transactions.process import SILENT_AFTER_MS
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics
from tests.sim.cut_off_log import CutOffLog

DEEPEST = 4
"""So many nodes at most wait for room, each on the stack of the one before. The next ones find some."""
HEARTBEAT_MS = 50
DEADLY = 0.01
"""Of the steps of a fleet in which some node waits."""


class Killed(Exception):
    """The node is dead that has waited for room."""


class FullAtTimes(CutOffLog):
    """As ``CutOffLog``; while ``refuses`` a topic there is no room for it, and nothing of a batch is taken."""

    refuses: Callable[[str], bool] = staticmethod(lambda topic: False)

    def send(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> None:
        self._check_room(topic, partition)
        super().send(topic, partition, values, **more)

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        self._check_room(topic, partition)
        return super().append(topic, partition, values, **more)

    def _check_room(self, topic: str, partition: int) -> None:
        if self.refuses(topic):
            raise LogFull(f"topic {topic!r} partition {partition}: no space left in the simulation")


@dataclass(frozen=True)
class Spell:
    """Until then appends of ``node`` ("": of all) to ``topic`` ("": to all) find no room, ``store``: and saves too."""

    until_ms: int
    node: str
    topic: str
    store: bool


class FullDisks:
    """Of one fleet, from a stream of its own. ``go_on`` passes time while a node waits; it is in ``waiting`` then.

    ``spells``: how many there were, ``waits``: so often an append has waited, ``killed``: so many nodes died meanwhile.
    """

    spells = waits = killed = 0

    def __init__(
        self, seed: int, topics: TransactionTopics, now_ms: Callable[[], int], go_on: Callable[[], None]
    ) -> None:
        self.waiting: list[str] = []
        self._draw = Random(seed ^ 0xF011)
        self._odds = self._draw.choice([0.0, 0.0, 0.002, 0.01]) if seed >= TENTH_SEED else 0.0
        own = (topics.epochs, topics.calls, topics.replies, topics.commits, topics.control, topics.heartbeats)
        self._topics = ("", "", "", *own)
        self._heartbeats = topics.heartbeats
        self._now_ms = now_ms
        self._go_on = go_on
        self._open: list[Spell] = []

    def maybe_begin(self, names: Sequence[str]) -> bool:
        """Perhaps a disk is full now: that of one of these nodes, or of all; True if so."""
        draw, now_ms = self._draw, self._now_ms()
        self._open = [spell for spell in self._open if spell.until_ms > now_ms]
        if not self._odds or draw.random() >= self._odds or not names:
            return False
        until_ms = now_ms + draw.choice([100, 500, 2_000, 6_000])
        node, topic = draw.choice(["", draw.choice(names)]), draw.choice(self._topics)
        self._open.append(Spell(until_ms, node, topic, draw.random() < 0.5))
        self.spells += 1
        return True

    def dying(self) -> list[str]:
        """Now and then one of those that wait."""
        return [self._draw.choice(self.waiting)] if self.waiting and self._draw.random() < DEADLY else []

    def end(self) -> None:
        """There is room, and no more spells come."""
        self._odds = 0.0
        self._open.clear()

    @property
    def met(self) -> tuple[int, int, int]:
        """Spells, waits and deaths meanwhile."""
        return self.spells, self.waits, self.killed

    def store_ms(self, node: str) -> int:
        """So long the store has no room for what this node saves."""
        until_ms = [spell.until_ms for spell in self._open if spell.store and spell.node in ("", node)]
        return max([0, *(each - self._now_ms() for each in until_ms)])

    def patient(self, log: FullAtTimes, node: str, lives: Callable[[], bool], leaves: Callable[[], bool]) -> Log:
        """The log of this node, on which it waits for room."""

        def sleep(pause_s: float) -> None:
            waits = patient.waiting
            assert waits is not None
            silent_ms = int(1000 * waits.since_s) + SILENT_AFTER_MS
            self._sleep(log, node, self._now_ms() + int(1000 * pause_s), silent_ms, lives)

        log.refuses = lambda topic: self._refuses(node, topic)
        patient = PatientLog(log, node, leaves, sleep=sleep, clock_s=lambda: self._now_ms() / 1000)
        return cast("Log", patient)

    def _refuses(self, node: str, topic: str) -> bool:
        if not self._open or (len(self.waiting) >= DEEPEST and node not in self.waiting):
            return False
        return any(
            spell.until_ms > self._now_ms() and spell.node in ("", node) and spell.topic in ("", topic)
            for spell in self._open
        )

    def _sleep(self, log: FullAtTimes, node: str, until_ms: int, silent_ms: int, lives: Callable[[], bool]) -> None:
        """Its watchdog sends heartbeats until ``silent_ms``. Raises ``Killed`` where the node was killed meanwhile."""
        self.waits += 1
        beat_ms = self._now_ms()
        self.waiting.append(node)
        try:
            while self._now_ms() < until_ms and lives():
                self._go_on()
                if beat_ms + HEARTBEAT_MS <= self._now_ms() < silent_ms and lives():
                    beat_ms = self._now_ms()
                    with suppress(LogError):
                        log.append(self._heartbeats, 0, [m.encode(m.Heartbeat(FIRST_INCARNATION, node, 0))])
        finally:
            self.waiting.remove(node)
        if not lives():
            self.killed += 1
            raise Killed(node)
