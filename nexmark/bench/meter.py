"""What a run costs: CPU time of the engine's processes, their own memory, and what everybody else took meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil

from nodes.api import private_bytes

LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Measure:
    """One run of one engine. ``others_s``: CPU-seconds, while it ran, of processes that are not of the comparison."""

    seconds: float
    cpu_s: float
    peak_process_mb: float
    peak_all_mb: float
    others_s: float


@dataclass(slots=True)
class Meter:
    """Between ``begin`` and ``end``. ``engine`` gives the ids of the engine's processes.

    The memory of the engine is looked at beside the run, in a thread; times come from the caller.
    """

    engine: Callable[[], Sequence[int]]
    _cpu: dict[int, float] = field(default_factory=dict)
    _peaks: dict[int, int] = field(default_factory=dict)
    _peak_all: int = 0
    _busy_s: float = 0.0
    _ours_s: dict[int, float] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _watch: threading.Thread | None = None

    def begin(self) -> None:
        """The engine begins to work."""
        self._cpu = {pid: cpu_s(pid) for pid in self.engine()}
        self._busy_s, self._ours_s = busy_s(), ours_s()
        self._watch = threading.Thread(target=self._run, name="bench-memory", daemon=True)
        self._watch.start()

    def end(self, seconds: float) -> Measure:
        """The engine is done; it took so many seconds."""
        used = sum(cpu_s(pid) - before for pid, before in self._cpu.items())
        busy = busy_s() - self._busy_s
        ours = sum(after - self._ours_s.get(pid, 0.0) for pid, after in ours_s().items())
        self.stop()
        peak = max(self._peaks.values(), default=0)
        return Measure(seconds, used, peak / 1e6, self._peak_all / 1e6, max(0.0, busy - ours))

    def stop(self) -> None:
        """Look no more; safe to call twice."""
        self._over.set()
        if self._watch is not None:
            self._watch.join()

    def _run(self) -> None:
        while True:
            self._look()
            if self._over.wait(LOOK_S):
                return

    def _look(self) -> None:
        total = 0
        for pid in self.engine():
            try:
                used = private_bytes(pid)
            except (psutil.Error, OSError):
                continue
            self._peaks[pid] = max(self._peaks.get(pid, 0), used)
            total += used
        self._peak_all = max(self._peak_all, total)


def cpu_s(pid: int) -> float:
    """CPU-seconds of a process so far; 0 if it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system


def ours_s() -> dict[int, float]:
    """CPU-seconds by process: this one and all that came from it."""
    me = psutil.Process(os.getpid())
    return {pid: cpu_s(pid) for pid in [me.pid, *(child.pid for child in me.children(recursive=True))]}


def busy_s() -> float:
    """CPU-seconds of the whole machine."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
