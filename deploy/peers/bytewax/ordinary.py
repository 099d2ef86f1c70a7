"""A job of `holon bench` by Bytewax. One process of its cluster; the job's own code is a file beside the job's module.

Run by the environment of ``requirements.txt``, never by Holon's. Each batch of records is folded in one loop of the
job, as an expert would do. So one value a batch, window and key goes through Bytewax's window operator, which recovers
by snapshots each second.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as windowing
from bytewax._bytewax import cluster_main
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from kafka_source import Printed, Source

WINDOW = timedelta(seconds=10)
ALIGN = datetime(2025, 1, 1, tzinfo=UTC)
CHECKPOINTS = timedelta(seconds=1)


def module_of(path: Path) -> ModuleType:
    """The job's code."""
    spec = importlib.util.spec_from_file_location(f"peer_{path.stem}", path)
    assert spec is not None and spec.loader is not None, f"{path} is a file of Python"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dataflow(options: argparse.Namespace, job: ModuleType) -> Dataflow:
    """The job: a state is the start of its window, its key, and what the job's loop makes of records."""

    def folded(payloads: list[bytes]) -> list[tuple[str, tuple[int, Any, Any]]]:
        found: dict[tuple[int, Any], Any] = {}
        job.folded(payloads, found)
        return [(str(key), (start, key, state)) for (start, key), state in found.items()]

    def merged(one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        return (*other[:2], job.merged(one[2], other[2]))

    def row(found: tuple[str, tuple[int, Any]]) -> str:
        return json.dumps(job.row(*found[1][1]), ensure_ascii=False)

    def at(part: Any) -> datetime:
        return datetime.fromtimestamp(part[0] / 1000, UTC)

    flow = Dataflow("ordinary")
    payloads = op.input("events", flow, Source(options.bootstrap, options.topic, options.partitions))
    parts = op.flat_map_batch("folded", payloads, folded)
    # Workers read partitions at their own pace: nothing is late, and a window closes at the end of the input.
    clock = windowing.EventClock(at, timedelta(days=3650))
    windower = windowing.TumblingWindower(WINDOW, ALIGN)
    found = windowing.fold_window("states", parts, clock, windower, lambda: None, merged, merged, ordered=False)
    op.output("results", op.map("row", found.down, row), Printed())
    return flow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--job", type=Path, required=True, help="the file of the job's code")
    parser.add_argument("--folder", type=Path, required=True, help="for snapshots")
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--addresses", default="", help="of all processes of the cluster, separated by commas")
    options = parser.parse_args()
    addresses = [address for address in options.addresses.split(",") if address]
    ready = options.folder / "ready"
    if options.process == 0:
        options.folder.mkdir(parents=True)
        init_db_dir(options.folder, max(1, len(addresses)))
        ready.touch()
    while not ready.exists():
        if os.getppid() == 1:
            return  # the comparison is gone
        time.sleep(0.01)
    recovery = RecoveryConfig(options.folder)
    flow = dataflow(options, module_of(options.job))
    cluster_main(flow, addresses, options.process, epoch_interval=CHECKPOINTS, recovery_config=recovery)
    print(f"ended {time.time()}", flush=True)
    sys.stdin.read()  # until its CPU time has been read


if __name__ == "__main__":
    main()
