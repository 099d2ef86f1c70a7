"""CPU time of the processes of a measurement, and of everything else on the machine."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from nexmark.processor_time import busy_s, cpu_s


class Load(msgspec.Struct):
    """Cores in use on average: by nodes together, the producer, the broker (None: not ours), and by everybody else."""

    nodes: float
    feed: float
    broker: float | None
    others: float


class LoadMeter:
    """Measures between ``__init__`` and ``read``; a process that dies meanwhile counts up to its last ``sample``."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._busy_s = busy_s()
        self._first: dict[tuple[str, int], float] = {}
        self._last: dict[tuple[str, int], float] = {}

    def sample(self, processes: Mapping[str, list[int]]) -> None:
        """Note what processes (ids, by role) have used; call it now and then."""
        for role, ids in processes.items():
            for pid in ids:
                used_s = cpu_s(pid)
                if used_s is None:
                    continue
                self._first.setdefault((role, pid), used_s)
                self._last[role, pid] = used_s

    def read(self) -> Load:
        """Averages so far."""
        passed_s = max(time.monotonic() - self._began_s, 1e-3)
        cores = {"nodes": 0.0, "feed": 0.0, "broker": 0.0}
        for (role, pid), used_s in self._last.items():
            cores[role] += (used_s - self._first[role, pid]) / passed_s
        everybody = (busy_s() - self._busy_s) / passed_s
        broker = any(role == "broker" for role, _ in self._last)
        return Load(
            nodes=round(cores["nodes"], 2),
            feed=round(cores["feed"], 2),
            broker=round(cores["broker"], 2) if broker else None,
            others=round(max(0.0, everybody - sum(cores.values())), 2),
        )
