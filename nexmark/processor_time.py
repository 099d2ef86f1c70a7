"""CPU time of processes and of the whole machine, for whoever measures what a run costs."""

from __future__ import annotations

import psutil


def cpu_s(pid: int) -> float | None:
    """CPU-seconds of a process so far; None if it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return times.user + times.system


def busy_s() -> float:
    """CPU-seconds of the whole machine, all cores added."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
