"""Costs of the embedded log: records a CPU second, single appends, wake-up latency, processor time while waiting.

    python deploy/bench/logs/embedded.py [--folder DIR] [--records N] [--bytes B] [--json]

One line of JSON with --json, else a table. Rates are per second of CPU time of the measured process (user and system).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from nodes.log import EmbeddedLog, TopicPartition  # noqa: E402
from nodes.log.embedded.notifier import Notifier  # noqa: E402

WAKE_UPS = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=None, help="where the log is made (default: a temporary folder)")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--bytes", type=int, default=250)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--echo", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.echo:
        echo(options.echo)
        return
    folder = Path(tempfile.mkdtemp(prefix="log-bench-", dir=options.folder))
    try:
        row = measure(folder, options.records, options.bytes)
    finally:
        shutil.rmtree(folder)
    if options.json:
        print(json.dumps(row))
        return
    for name, value in row.items():
        print(f"{name:36} {value:>14,}")


def measure(folder: Path, records: int, size: int) -> dict[str, float]:
    """All figures."""
    batch = [random.Random(at).randbytes(size) for at in range(2000)]
    rounds = records // len(batch)
    row: dict[str, float] = {"records": rounds * len(batch), "record_bytes": size}
    with EmbeddedLog(folder / "log") as log:
        log.create_topic("bulk", 1)
        log.create_topic("single", 1)

        def append_all() -> None:
            for _ in range(rounds):
                log.append("bulk", 0, batch)

        def read_all() -> None:
            offset = 0
            while chunk := log.read("bulk", 0, offset, max_records=20_000):
                offset = chunk.next_offset

        def append_single() -> None:
            for _ in range(20_000):
                log.append("single", 0, batch[:1])

        def read_single() -> None:
            offset = 0
            while chunk := log.read("single", 0, offset, max_records=20_000):
                offset = chunk.next_offset

        user_s, system_s = cpu_times_s(append_all)
        row["appends_per_cpu_s"] = round(row["records"] / (user_s + system_s))
        row["appends_per_user_cpu_s"] = round(row["records"] / user_s)  # the rest is the kernel's page cache
        row["reads_per_cpu_s"] = round(row["records"] / cpu_s(read_all))
        row["single_append_cpu_us"] = round(cpu_s(append_single) / 20_000 * 1e6, 2)
        row["single_record_blocks_read_cpu_us"] = round(cpu_s(read_single) / 20_000 * 1e6, 2)
    for policy in ("none", "interval", "batch"):
        with EmbeddedLog(folder / f"log-{policy}", fsync=policy) as log:
            log.create_topic("t", 1)
            log.append("t", 0, batch[:1])
            before = time.perf_counter()
            for _ in range(200):
                log.append("t", 0, batch[:100])
            row[f"append_100_ms_fsync_{policy}"] = round((time.perf_counter() - before) / 200 * 1e3, 3)
    row |= waiting(folder / "log-wake")
    row["load_1_min"] = round(os.getloadavg()[0], 2)
    return row


def waiting(folder: Path) -> dict[str, float]:
    """Wake-up latency across processes and processor time of a reader that waits for 40 partitions."""
    row: dict[str, float] = {}
    with EmbeddedLog(folder) as log:
        log.create_topic("ask", 40)
        log.create_topic("answer", 1)
        command = [sys.executable, __file__, "--echo", str(folder)]
        with subprocess.Popen(command, cwd=ROOT) as reader:
            log.wait({TopicPartition("answer", 0): 0}, 60)
            latencies = []
            for number in range(WAKE_UPS):
                time.sleep(0.004)
                log.append("ask", number % 40, [b"%d" % time.monotonic_ns()])
                log.wait({TopicPartition("answer", 0): number + 1}, 60)
                latencies.append(int(log.read("answer", 0, number + 1).values[0]))
            reader.wait()
        latencies.sort()
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            row[f"wake_up_{name}_ms"] = round(latencies[int(share * WAKE_UPS)] / 1e6, 3)
        row["wake_up_max_ms"] = round(latencies[-1] / 1e6, 3)
        positions = {TopicPartition("ask", at): log.end_offset("ask", at) for at in range(40)}
        row["waiting_cpu_percent"] = share_of_core(lambda: log.wait(positions, 5.0))
        polling = Notifier(folder / "notifier", futex=False)
        row["waiting_cpu_percent_polling"] = share_of_core(lambda: polling.wait(polling.sample(), 5.0))
        polling.close()
    return row


def echo(path: str) -> None:
    """The reader: answers with how long each record was under way, until it wakes up here."""
    with EmbeddedLog(path) as log:
        positions = {TopicPartition("ask", at): 0 for at in range(40)}
        log.wait(positions, 0)
        log.append("answer", 0, [b"ready"])
        for _ in range(WAKE_UPS):
            while not log.wait(positions, 10):
                pass
            woken = time.monotonic_ns()
            where = next(where for where, position in positions.items() if log.end_offset(*where) > position)
            sent = int(log.read(*where, positions[where]).values[0])
            positions[where] += 1
            log.append("answer", 0, [b"%d" % (woken - sent)])


def cpu_s(work: Callable[[], object]) -> float:
    return sum(cpu_times_s(work))


def cpu_times_s(work: Callable[[], object]) -> tuple[float, float]:
    """User and system time of the process."""
    before = os.times()
    work()
    after = os.times()
    return after.user - before.user, after.system - before.system


def share_of_core(work: Callable[[], object]) -> float:
    """Percent of a core, of this thread."""
    cpu, wall = time.thread_time(), time.perf_counter()
    work()
    return round(100 * (time.thread_time() - cpu) / (time.perf_counter() - wall), 2)


if __name__ == "__main__":
    main()
