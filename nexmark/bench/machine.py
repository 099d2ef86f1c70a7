"""The machine of a measurement, and its versions."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

PACKAGES = ("holon-streams", "confluent-kafka", "msgspec", "numpy", "pyspark")


def machine() -> dict[str, str]:
    """Processor, cores, memory, kernel, versions."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory_mb": str(psutil.virtual_memory().total // 2**20),
        "kernel": platform.release(),
        "python": platform.python_version(),
    } | {name: found for name in PACKAGES if (found := _version(name)) is not None}


def pin(cores: tuple[int, ...]) -> list[int]:
    """Keep this process, and all that it starts from now on, on these cores; those that it has, if none are named."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _processor(path: Path = Path("/proc/cpuinfo")) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    pairs = (line.partition(":") for line in lines)
    found = {name.strip(): value.strip() for name, _, value in pairs}
    family = " ".join(found[name] for name in ("cpu family", "model") if name in found)
    return f"{found.get('model name', platform.machine())} (family and model {family}, {found.get('cpu MHz', '?')} MHz)"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
