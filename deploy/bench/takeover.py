"""How long results stay away after `kill -9` of one of three nodes, at a steady rate of input.

    .venv/bin/python deploy/bench/takeover.py [--rate 10000] [--seconds 20] [--runs 3] [--replicas 1 2] [--healthy]

Each run is `holon nexmark run q0 --api procedural` (a result for every bid, so that a gap cannot hide between windows)
with one kill in the middle, on the embedded log. With --healthy there is none, and the number of results that were
written twice counts.
The delay is `longest_delay_ms` of the command's JSON: the longest gap between results that contains the kill, beyond
the longest gap of the same run that contains none. Every run is proven by the plain oracle.

    .venv/bin/python deploy/bench/takeover.py --idle-timeout-ms 500 [--seconds 12] [--runs 3] [--replicas 1 2]

A job with an idle timeout: windows of 100 ms over six partitions, every third of them silent from the start on. Event
time is that of the wall clock. The delay is the longest time from a window's end to its result's on the log.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Tumbling, Window, on_window
from holon.outputs.identity import OutputId
from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet
from nodes.log import EmbeddedLog
from nodes.settings.settings import load_settings
from nodes.streams.jobs import load_job, open_job
from wcrdt.lattices.counters import GCounter

ROOT = Path(__file__).resolve().parents[2]
SILENT_JOB = "deploy.bench.takeover:silent_job"
PARTITIONS = 6
WINDOW_MS = 100
START_S = 60.0
SETTLE_S = 3.0
"""From the first record on: standbys have come up, and silences have begun."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--standby-after-ms", type=int, default=30)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--idle-timeout-ms", type=int, default=0)
    options = parser.parse_args()
    if options.idle_timeout_ms:
        return _idle(options)
    for replicas in options.replicas:
        rows = [_run(options, replicas, number) for number in range(options.runs)]
        p50 = statistics.median(row["latency_ms"]["p50"] for row in rows)
        p99 = statistics.median(row["latency_ms"]["p99"] for row in rows)
        print(f"{replicas} replicas: latency p50 {p50:.1f} ms, p99 {p99:.1f} ms (medians of the runs)")
        print(f"{replicas} replicas: results written again, of all: {_share(rows):.3%}")
        if not options.healthy:
            delays = [row["longest_delay_ms"] for row in rows]
            median, longest = statistics.median(delays), max(delays)
            print(f"{replicas} replicas: longest delay after kill -9: median {median:.0f} ms, max {longest:.0f} ms")


def _run(options: argparse.Namespace, replicas: int, number: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "nodes.cli", "nexmark", "run", "q0", "--api", "procedural", "--rate",
               str(options.rate), "--seconds", str(options.seconds), "--nodes", "3", "--partitions", "6", "--seed",
               str(number), "--replicas", str(replicas), "-D",
               f"node.standby_after_ms={options.standby_after_ms}", "--validate", "plain", "--json"]  # fmt: skip
    command += [] if options.healthy else ["--kill", "1@0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    result = json.loads(done.stdout)
    if done.returncode != 0:
        raise SystemExit(f"run {number} failed: {result}\n{done.stderr}")
    load = os.getloadavg()[0]
    print(
        f"{replicas} replicas, run {number}: longest delay {result['longest_delay_ms']}, "
        f"latency {result['latency_ms']}, "
        f"{result['repeats_dropped']} of {result['outputs']} written again; load {load:.1f}"
    )
    return result


# --- a job with an idle timeout ---------------------------------------------------------------------------------------


class Counted(ProcessingFunction[dict[str, Any]]):
    """Counts records by window."""

    count = WCRDT(GCounter(), Tumbling(WINDOW_MS))

    def process(self, event: dict[str, Any], ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)

    @on_window(count, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        ctx.emit({"end": window.end_ms, "count": await self.count.window_value(window)})


def silent_job() -> Job:
    """As ``SILENT_JOB``."""
    timeout_ms = int(os.environ["IDLE_TIMEOUT_MS"])
    source: Source[dict[str, Any]] = Source(
        "events", Json(dict[str, Any]), timestamp=lambda event: event["ts"], idle_timeout_ms=timeout_ms
    )
    return Job("silent", source, Counted, output="counts")


def _idle(options: argparse.Namespace) -> None:
    os.environ["IDLE_TIMEOUT_MS"] = str(options.idle_timeout_ms)
    for replicas in options.replicas:
        rows = []
        for number in range(options.runs):
            with tempfile.TemporaryDirectory() as folder:
                rows.append(_idle_run(options, replicas, Path(folder)))
            before, after, written, windows = rows[-1]
            print(
                f"{replicas} replicas, run {number}: longest from a window's end to its result {before} ms before the "
                f"kill and {after} ms behind it; {written} results of {windows} windows; load {os.getloadavg()[0]:.1f}"
            )
        before = statistics.median(row[0] for row in rows)
        after = statistics.median(row[1] for row in rows)
        print(f"{replicas} replicas: medians {before:.0f} ms before, {after:.0f} ms behind the kill")


def _idle_run(options: argparse.Namespace, replicas: int, folder: Path) -> tuple[int, int, int, int]:
    """The longest delays before and behind the kill, results that were written, and windows that there were."""
    definitions = (
        f"log.path={folder / 'log'}",
        f"node.replicas={replicas}",
        f"node.standby_after_ms={options.standby_after_ms}",
    )
    settings = load_settings(definitions=definitions, environ={}, directory=folder)
    log = EmbeddedLog(folder / "log")
    log.create_topic("events", PARTITIONS)
    run = open_job(log, load_job(SILENT_JOB))
    monitor = Monitor(log, run)
    environment = {"PYTHONPATH": str(ROOT), "IDLE_TIMEOUT_MS": str(options.idle_timeout_ms)}
    with Fleet(SILENT_JOB, settings, 3, environment=environment) as fleet:
        _until_owned(monitor)
        began = time.monotonic()
        kill_at, killed_ms = began + options.seconds / 2, 0
        while (now := time.monotonic()) < began + options.seconds:
            record = json.dumps({"ts": int(time.time() * 1000)}).encode()
            for partition in range(PARTITIONS):
                if partition % 3 != 0:
                    log.append("events", partition, [record])
            if not killed_ms and not options.healthy and now >= kill_at:
                fleet.kill(1)
                killed_ms = int(time.time() * 1000)
            time.sleep(0.01)
    ended_ms = int(time.time() * 1000)
    delays = _delays(log)
    since_ms = ended_ms - int(1000 * (options.seconds - SETTLE_S))
    until_ms = killed_ms or ended_ms
    # A window that ended just before the kill was to be answered behind it.
    before = max(delay for end, delay in delays.items() if since_ms < end < until_ms - 500)
    after = max((delay for end, delay in delays.items() if until_ms - 500 <= end < ended_ms - 1500), default=0)
    written = sum(log.end_offset("counts", partition) for partition in range(PARTITIONS))
    log.close()
    return before, after, written, len(delays)


def _until_owned(monitor: Monitor) -> None:
    """Until three nodes share the partitions."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        monitor.poll()
        owners = [monitor.ownership.owner(partition) for partition in range(PARTITIONS)]
        if None not in owners and len(set(owners)) == 3:
            return
        time.sleep(0.05)
    raise SystemExit(f"three nodes did not share the partitions within {START_S:.0f} s")


def _delays(log: EmbeddedLog) -> dict[int, int]:
    """By window end, ms from there until the first result was on the log."""
    first: dict[int, int] = {}
    for partition in range(PARTITIONS):
        chunk = log.poll("counts", partition, 0, max_records=1_000_000)
        for header, at_ms in zip(chunk.headers, chunk.timestamps_ms.tolist(), strict=True):
            if header is not None:
                end = OutputId.from_bytes(header).position
                first[end] = min(first.get(end, at_ms), at_ms)
    return {end: at_ms - end for end, at_ms in first.items()}


def _share(rows: list[dict[str, Any]]) -> float:
    return sum(row["repeats_dropped"] for row in rows) / sum(row["outputs"] for row in rows)


if __name__ == "__main__":
    main()
