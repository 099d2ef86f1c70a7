"""Costs of the compiled loops in a process: machine code that Holon keeps, and numba's own cache, in turn.

    python deploy/bench/formats/loading_loops.py [--rounds N] [--json]

Each round starts a process for either, both with warm caches. Measured are CPU seconds and the resident memory at the
end, of a process that has imported numpy (``nothing``) and then has all loops ready. Medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
_REPORT = "import resource,psutil; u=resource.getrusage(resource.RUSAGE_SELF); " \
    "print(u.ru_utime+u.ru_stime, psutil.Process().memory_info().rss / (1<<20))"  # fmt: skip
_NOTHING = "import numpy, psutil, ctypes"
_KEPT = "from nodes.compiled import loading; assert loading.ensure()"
_NUMBA = """
import importlib
import numba
from numba.core import types
from nodes.compiled.loading import NAMES
for name, (module, arguments) in NAMES.items():
    function = getattr(importlib.import_module(module), name).py_func
    signature = types.int64(*[types.int64] * arguments)
    numba.njit(signature, cache=True, error_model="numpy", boundscheck=False)(function)
"""
WAYS = {"nothing": _NOTHING, "kept by Holon": f"{_NOTHING}\n{_KEPT}", "numba's cache": f"{_NOTHING}\n{_NUMBA}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory(prefix="numba-cache-") as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}
        for number in range(options.rounds + 1):
            for name, code in WAYS.items():
                row = _measured(code, environment)
                if number:  # the first fills the caches
                    found[name].append(row)
    rows = {
        name: {"cpu_s": statistics.median(cpu for cpu, _ in its), "rss_mb": statistics.median(mb for _, mb in its)}
        for name, its in found.items()
    }
    if options.json:
        print(json.dumps(rows))
        return
    for name, row in rows.items():
        print(f"{name:16} {row['cpu_s']:6.2f} s of CPU {row['rss_mb']:6.0f} MB")


def _measured(code: str, environment: dict[str, str]) -> tuple[float, float]:
    command = [sys.executable, "-c", f"{code}\n{_REPORT}"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    cpu_s, mb = done.stdout.split()
    return float(cpu_s), float(mb)


if __name__ == "__main__":
    main()
