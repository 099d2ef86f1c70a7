"""Costs of one node: events a CPU-second, the share of the windowed CRDT in it, and the node's own memory.

    .venv/bin/python deploy/bench/node.py [--query q7] [--format arrow] [--events 2000000] [--runs 5]

The input (JSON, one event a record, or Arrow record batches) is generated into a temporary embedded log first and not
measured. Each run is one node process with everything that it does in production: control topic, heartbeats, deltas,
checkpoints, outputs. CPU seconds are those of the whole process after its imports. A further run under cProfile gives
the share.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import multiprocessing
import os
import platform
import pstats
import resource
import statistics
import tempfile
import time
from typing import Any

from nexmark.generator import GeneratorConfig
from nexmark.loading import Stream, load
from nexmark.queries import TOPIC, nexmark_job
from nexmark.runs.fill import atom_rows_of
from nodes.checkpoints.opening import open_checkpoints
from nodes.log import open_log
from nodes.metrics.process_memory import private_bytes
from nodes.runtime.log_opening import open_job_log
from nodes.settings.settings import load_settings
from nodes.streams.jobs import declare_end, open_job
from nodes.streams.process import NodeProcess, node_config

WCRDT_ENTRIES = (("holon/program/scope.py", ("insert", "insert_many")), ("wcrdt/replica/slots.py", ("take_delta",)),
                 ("wcrdt/replica/replica.py", ("receive", "final_value")))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="q7")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--format", choices=("json", "arrow"), default="json")
    parser.add_argument("--profile", action="store_true", help="Print where the profiled run spends its time.")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="holon-bench-") as folder:
        with open_log(folder) as log:
            rows = atom_rows_of(options.format)
            load(log, Stream(TOPIC, options.events, options.partitions, GeneratorConfig(seed=7), rows))
        rows = []
        for number in range(options.runs + 1):
            queue = context.Queue()
            profiled = number == options.runs
            process = context.Process(target=_run, args=(folder, options, number, profiled, queue))
            process.start()
            rows.append(queue.get())
            process.join()
    *timed, profile = rows
    rates = [options.events / row["cpu_s"] for row in timed]
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{options.query}, {options.events:,} events ({options.format}), {options.partitions} partitions, one node")
    print(f"events per CPU-second of the node: {_spread(rates)}")
    print(f"events per second of wall time:    {_spread([options.events / row['wall_s'] for row in timed])}")
    print(f"own memory in MB (peak while running): {_spread([row['own_mb'] for row in timed])}")
    print(f"share of the windowed CRDT by profile: {profile['share']:.1%}")
    print(json.dumps({"events_per_cpu_s": statistics.median(rates), "wcrdt_share": profile["share"]}))


def _run(folder: str, options: argparse.Namespace, incarnation: int, profiled: bool, queue: Any) -> None:
    settings = load_settings(definitions=[f"log.path={folder}"], environ={})
    with open_job_log(settings) as log:
        run = open_job(log, nexmark_job(options.query, atoms=int(options.format == "arrow")), reset=incarnation > 0)
        declare_end(log, run)
        store = open_checkpoints(settings)
        process = NodeProcess(run, log, store, node_config(settings, 0, 1), settings)
        profile = cProfile.Profile()
        peak = [0]
        turn = process.driver.turn

        def watched(*arguments: Any) -> bool:
            moved = turn(*arguments)
            if process.node.left is not None or process.driver.input_records % 400_000 < 20_000:
                peak[0] = max(peak[0], private_bytes(os.getpid()))
            return moved

        if not profiled:
            process.driver.turn = watched  # type: ignore[method-assign]
        before, begun = _cpu_s(), time.monotonic()
        if profiled:
            profile.enable()
        process.loop()
        profile.disable()
        if profiled and options.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        queue.put({
            "cpu_s": _cpu_s() - before, "wall_s": time.monotonic() - begun, "own_mb": peak[0] / 1e6,
            "share": _share(profile) if profiled else 0.0,
        })  # fmt: skip


def _share(profile: cProfile.Profile) -> float:
    """Time inside of the windowed CRDT's entry points, of all time."""
    stats: Any = pstats.Stats(profile)
    inside = 0.0
    for (file, _, name), (_, _, _, cumulative, _) in stats.stats.items():
        if any(file.endswith(path) and name in names for path, names in WCRDT_ENTRIES):
            inside += cumulative
    return inside / stats.total_tt


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _spread(values: list[float]) -> str:
    return f"median {statistics.median(values):,.0f} (min {min(values):,.0f}, max {max(values):,.0f})"


if __name__ == "__main__":
    main()
