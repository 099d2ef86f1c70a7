"""Costs of a run: CPU time of the engine's processes, their own memory, and the CPU time of all other processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import psutil

from nexmark.processor_time import busy_s, cpu_s
from nodes.api import private_bytes

POLL_INTERVAL_S = 0.1
MEMORY_POLLS = 5
"""Memory is sampled every so many samples of CPU time."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One run of one engine. ``others_s``: CPU-seconds, while it ran, of processes that are not of the comparison."""

    seconds: float
    cpu_s: float
    peak_process_mb: float
    peak_all_mb: float
    others_s: float


@dataclass(slots=True)
class EngineMeter:
    """Between ``begin`` and ``end``. ``engine`` gives the ids of the engine's processes.

    They are sampled beside the run, in a thread; the caller knows when the engine began to work and was done.
    """

    engine: Callable[[], Sequence[int]]
    _cpu: dict[int, float] = field(default_factory=dict)
    _last_cpu: dict[int, float] = field(default_factory=dict)
    _peaks: dict[int, int] = field(default_factory=dict)
    _peak_all: int = 0
    _used: list[tuple[float, float]] = field(default_factory=list)
    _busy_s: float = 0.0
    _ours_s: dict[int, float] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _watch: threading.Thread | None = None

    def begin(self) -> None:
        """Sample from now on; the engine begins to work now or later."""
        self._cpu = {pid: cpu_s(pid) or 0.0 for pid in self.engine()}
        self._busy_s, self._ours_s = busy_s(), ours_s()
        self._note()
        self._watch = threading.Thread(target=self._run, name="bench-memory", daemon=True)
        self._watch.start()

    def end(self, began_s: float | None = None, ended_s: float | None = None) -> Measure:
        """The engine is done. It worked between these times (of ``time.time``), or since ``begin``."""
        self.stop()
        self._note()
        self._sample()  # a run that is shorter than the pause between two samples has begun to work since the first
        times, used = zip(*self._used, strict=True)
        first, last = times[0] if began_s is None else began_s, times[-1] if ended_s is None else ended_s
        cpu = float(np.interp(last, times, used) - np.interp(first, times, used))
        busy = busy_s() - self._busy_s
        ours = sum(after - self._ours_s.get(pid, 0.0) for pid, after in ours_s().items())
        others = max(0.0, busy - ours) / max(times[-1] - times[0], 1e-3)
        seconds = max(last - first, 1e-3)
        return Measure(seconds, cpu, max(self._peaks.values(), default=0) / 1e6, self._peak_all / 1e6, others * seconds)

    @property
    def sampled_cpu_s(self) -> float:
        """CPU-seconds of the engine between ``begin`` and the last sample."""
        return self._used[-1][1]

    def stop(self) -> None:
        """Sample no more; safe to call twice."""
        self._over.set()
        if self._watch is not None:
            self._watch.join()

    def _run(self) -> None:
        polls = 0
        while True:
            self._note()
            if polls % MEMORY_POLLS == 0:
                self._sample()
            polls += 1
            if self._over.wait(POLL_INTERVAL_S):
                return

    def _note(self) -> None:
        for pid in self._cpu:
            used_s = cpu_s(pid)
            if used_s is not None:  # a process that has ended keeps its last sample
                self._last_cpu[pid] = used_s
        used = sum(self._last_cpu.get(pid, before) - before for pid, before in self._cpu.items())
        self._used.append((time.time(), used))

    def _sample(self) -> None:
        total = 0
        for pid in self.engine():
            try:
                used = private_bytes(pid)
            except (psutil.Error, OSError):
                continue
            self._peaks[pid] = max(self._peaks.get(pid, 0), used)
            total += used
        self._peak_all = max(self._peak_all, total)


def ours_s() -> dict[int, float]:
    """CPU-seconds by process: this one and all that came from it."""
    me = psutil.Process(os.getpid())
    return {pid: cpu_s(pid) or 0.0 for pid in [me.pid, *(child.pid for child in me.children(recursive=True))]}
