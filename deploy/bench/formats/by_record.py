"""CPU of a record in the ``by_record`` jobs of ``deploy/bench/ordinary``: a task alone, without log and node.

    python deploy/bench/formats/by_record.py gps payments --rounds 5

A line a job: the least of some rounds, each a new task that is fed the same records in batches. To compare two
checkouts run it in each, in turn.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from holon.formats.input_run import Input  # noqa: E402
from holon.testing import JobTestDriver  # noqa: E402
from nodes.compiled import loading as compiled  # noqa: E402

JOBS = sorted(path.stem for path in (ROOT / "deploy" / "bench" / "ordinary").glob("[a-z]*.py"))
BATCH = 20_000
LOG_MS = 1_753_000_000_000


def cpu_us(job: Any, runs: list[Input]) -> float:
    """CPU of a record in microseconds, in one pass."""
    task = JobTestDriver(job, 1).tasks[0]
    began_s = time.process_time()
    for run in runs:
        task.feed(run)
    return (time.process_time() - began_s) * 1e6 / sum(map(len, runs))


def batches(records: list[bytes]) -> list[Input]:
    runs = []
    for start in range(0, len(records), BATCH):
        payloads = records[start : start + BATCH]
        offsets = np.arange(start, start + len(payloads))
        runs.append(Input(offsets, np.full(len(payloads), LOG_MS), payloads, start + len(payloads)))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"{', '.join(JOBS)}; default: all")
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    compiled.ensure()
    for name in options.jobs or JOBS:
        module = import_module(f"deploy.bench.ordinary.{name}")
        runs = batches(list(islice(module.records(random.Random(0)), options.records)))
        least = min(cpu_us(module.by_record, runs) for _ in range(options.rounds))
        print(json.dumps({"job": name, "cpu_us": round(least, 2), "records": options.records}), flush=True)


if __name__ == "__main__":
    main()
