"""Faults at the named steps of a move of keys: a node is cut off from the log, or a checkpoint is damaged.

They are drawn when the record of a step gets to the log, from a stream of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random

from nodes.sim.case import ELEVENTH_SEED
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics, checkpoint_job
from tests.sim.cut_off_log import CutOffLog

TAGS = {
    "planned": b"\xa4plan",
    "moved": b"\xa5moved",
    "copied": b"\xa6copied",
    "arrived": b"\xa7arrived",
    "proposed": b"\xa6layout",
    "handed over": b"\xa8handover",
    "ended": b"layout done",
    "in portions": b"layout in portions",
    "portion ended": b"layout portion",
}
"""Steps by what their records hold: see docs/design/migration.md."""
REQUESTED = "requested"
STEPS = (REQUESTED, *TAGS)
ANY_TIME = "any time"
HEAD = 40
"""The tag of a record is among so many bytes, also behind the heads of a batch of records."""
UNITS = 8
"""More than a fleet has."""
WAYS = ((True, False), (False, True), (True, True))
"""Of a split: whether it holds reads, and writes."""


class MovingFaults:
    """Of one fleet. ``met``: how often each fault came at each step."""

    def __init__(self, seed: int, topics: TransactionTopics, store: MemoryCheckpoints, *, trims: bool) -> None:
        self.met: Counter[tuple[str, str]] = Counter()
        self._draw = Random(seed ^ 0x5717)
        self._odds = self._draw.choice([0.0, 0.1, 0.4, 0.8])
        self._job = checkpoint_job(topics.job)
        self._names = {
            topics.epochs: ("planned", "copied", "arrived", "proposed", "handed over"),
            topics.calls: ("moved",),
            topics.control: ("ended", "in portions", "portion ended"),
        }
        self._store = store
        self._trims = trims
        self._until_ms: dict[str, int] = {}
        self._splits = Random(seed ^ 0x5711)  # its own stream, so that earlier draws stay as they are
        self._any_time = self._splits.choice([0.0, 0.0, 0.001, 0.004]) if seed >= ELEVENTH_SEED else 0.0

    def arrived(self, topic: str, values: Iterable[bytes], now_ms: int, logs: dict[str, CutOffLog]) -> None:
        """Records are on the log: those of a step may meet a fault."""
        for value in values if self._odds else ():
            if (step := self._step(topic, value)) is not None:
                self.reached(step, now_ms, logs)

    def go_on(self, now_ms: int, logs: dict[str, CutOffLog]) -> None:
        """Splits end."""
        for name in [name for name, until_ms in self._until_ms.items() if until_ms <= now_ms]:
            del self._until_ms[name]
            if name in logs:
                logs[name].rejoin()
        if self._any_time and self._splits.random() < self._any_time:
            self._split(ANY_TIME, now_ms, logs, self._splits)

    def end(self, logs: dict[str, CutOffLog]) -> None:
        """All of them, and no more come."""
        self._odds = self._any_time = 0.0
        self.go_on(max(self._until_ms.values(), default=0), logs)

    def _step(self, topic: str, value: bytes) -> str | None:
        names = self._names.get(topic, ())
        return next((name for name in names if TAGS[name] in value[:HEAD]), None)

    def reached(self, step: str, now_ms: int, logs: dict[str, CutOffLog]) -> None:
        """Perhaps a node is cut off now, or a checkpoint is damaged."""
        draw = self._draw
        if draw.random() >= self._odds:
            return
        if draw.random() < 0.4:
            if self._damages():
                self.met[step, "damage"] += 1
            return
        self._split(step, now_ms, logs, draw)

    def _split(self, step: str, now_ms: int, logs: dict[str, CutOffLog], draw: Random) -> None:
        free = [name for name, log in sorted(logs.items()) if not log.is_cut_off]
        if free:
            name, (reads, writes) = draw.choice(free), draw.choice(WAYS)
            logs[name].cut_off(reads=reads, writes=writes)
            self._until_ms[name] = now_ms + draw.choice([50, 400, 1_500, 4_000])
            self.met[step, "split"] += 1

    def _damages(self) -> bool:
        """The newest file of some partition, or, where topics are trimmed, one of several copies of it."""
        found = [name for unit in range(UNITS) for name in self._store.list(self._job, FIRST_INCARNATION, unit)[:1]]
        if self._trims:
            found = [name for name in found if len(self._store.copies(name)) > 2]
        if found:
            self._store.damage(self._draw.choice(found), self._draw)
        return bool(found)
