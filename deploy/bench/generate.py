"""How fast Nexmark events are made: columns, JSON, one process into the embedded log, and Spark into it.

Run from the root of the checkout: `python deploy/bench/generate.py --events 4000000`. Processor time is that of this
process and all below it (the JVM, its workers), so it can be compared on a busy machine too.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.loading import BATCH_RECORDS, Stream, load
from nexmark.spark.loader import load_with_spark, write_parquet
from nodes.log import open_log
from nodes.spark.session import spark_problem, spark_session

CONFIG = GeneratorConfig(seed=1)


def columns_only(events: int) -> None:
    """Columns of numbers and text, batch by batch."""
    for first in range(0, events, BATCH_RECORDS):
        generate_slice(CONFIG, first, min(first + BATCH_RECORDS, events))


def to_json(events: int) -> None:
    """Columns and JSON."""
    for first in range(0, events, BATCH_RECORDS):
        encode_json(generate_slice(CONFIG, first, min(first + BATCH_RECORDS, events)))


def into_log(folder: str, events: int, partitions: int) -> None:
    """This process alone into the embedded log."""
    with open_log(folder) as log:
        load(log, Stream("plain", events, partitions, CONFIG))


def cpu_seconds() -> float:
    """Processor time of this process and of all below it that still live."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def report(what: str, events: int, work: Callable[[], object], *, tries: int = 1) -> None:
    """Print the best rate of some tries, by the wall and by processor time."""
    wall_s = cpu_s = float("inf")
    for _ in range(tries):
        cpu, wall = cpu_seconds(), time.perf_counter()
        work()
        wall_s = min(wall_s, time.perf_counter() - wall)
        cpu_s = min(cpu_s, cpu_seconds() - cpu)
    print(f"{what:<34}{events / wall_s:>12,.0f} events/s, {events / cpu_s:>12,.0f} a CPU second", flush=True)


def main() -> None:
    """Measure and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=4_000_000)
    options.add_argument("--partitions", type=int, default=4)
    chosen = options.parse_args()
    few = min(chosen.events, 400_000)
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before")
    generate_slice(CONFIG, 0, 1000)  # fills the pools
    report("columns, one process", few, lambda: columns_only(few), tries=3)
    report("JSON, one process", few, lambda: to_json(few), tries=3)
    with tempfile.TemporaryDirectory(prefix="holon-bench-") as folder:
        report("embedded log, one process", few, lambda: into_log(folder, few, chosen.partitions))
        problem = spark_problem()
        if problem:
            print(problem)
            return
        with_spark(folder, chosen.events, chosen.partitions)


def with_spark(folder: str, events: int, partitions: int) -> None:
    """Spark on two cores; the first job also starts the Python workers."""
    started = time.perf_counter()
    with spark_session(cores=2):
        print(f"{'start of the session':<34}{time.perf_counter() - started:>12.1f} s")
        for number in (1, 2):
            stream = Stream(f"spark{number}", events, partitions, CONFIG)

            def work(stream: Stream = stream) -> None:
                load_with_spark(str(Path(folder, "log")), stream)

            report(f"embedded log, Spark, job {number}", events, work)
        report("Parquet, Spark", events, lambda: write_parquet(str(Path(folder, "parquet")), events, CONFIG))


if __name__ == "__main__":
    main()
