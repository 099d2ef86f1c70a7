"""Costs of the Kafka log: appends, reads, questions about offsets, wake-ups, jumps; on a broker that it starts.

    python deploy/bench/logs/kafka.py [--bootstrap HOST:PORT] [--records N] [--bytes B] [--json]

One line of JSON with --json, else a table. Latencies in milliseconds; rates per second of wall time, and of CPU time of
this process (the broker's is its own).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from deploy.bench.logs.brokers import given_or_started  # noqa: E402
from holon.columnar.payloads import BinaryColumn  # noqa: E402
from nodes.compiled import loading as compiled  # noqa: E402
from nodes.log import Log, TopicPartition  # noqa: E402
from nodes.log.kafka.log import KafkaLog  # noqa: E402

ROUNDS = 300
FOLLOWED = 12
"""Partitions that a node of a small job follows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="a broker that runs already")
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--bytes", type=int, default=250)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory(prefix="kafka-bench-")
    with folder as name, given_or_started(options.bootstrap, Path(name)) as bootstrap:
        row = measure(bootstrap, options.records, options.bytes)
    if options.json:
        print(json.dumps(row))
        return
    for name, value in row.items():
        print(f"{name:36} {value:>14,}")


def measure(bootstrap: str, records: int, size: int) -> dict[str, float]:
    """All figures."""
    prefix = f"bench{uuid.uuid4().hex[:8]}-"
    with KafkaLog(bootstrap, prefix=prefix) as log, KafkaLog(bootstrap, prefix=prefix) as other:
        log.create_topic("t", FOLLOWED)
        log.append("t", 0, [b"first"])
        row = {"records": records, "record_bytes": size} | bulk(log, records, size)
        row |= latency("append_1", lambda number: log.append("t", 1, [b"x"]))
        row |= latency("end_offset", lambda number: log.end_offset("t", 1))
        ends = [log.end_offset("t", partition) for partition in range(FOLLOWED)]
        for partition, end in enumerate(ends):
            log.read("t", partition, end)

        def read_ends(number: int) -> None:
            for partition, end in enumerate(ends):
                log.read("t", partition, end)

        row |= latency(f"look_at_{FOLLOWED}_ends", read_ends)
        row |= latency("jump", lambda number: log.read("t", 0, number * (records // ROUNDS), max_records=1))
        row |= wake_up(log, other) | sending(log, records, size, "plain")
        if not compiled.ensure() or not other.use_columns():
            return row
        row |= sending(other, records, size, "columns")
    with KafkaLog(bootstrap, {"holon.writer": "librdkafka"}, prefix=prefix) as third:
        third.use_columns()
        return row | sending(third, records, size, "columns_by_librdkafka")


def sending(log: Log, records: int, size: int, name: str) -> dict[str, float]:
    """Batches of 20,000 that wait for nothing, with identities as headers: given as lists, or as columns."""
    values: Sequence[bytes] = [b"%024d" % number * (size // 24) for number in range(20_000)]
    headers: Sequence[bytes] = [b"%024d" % number for number in range(20_000)]
    if name != "plain":
        values, headers = BinaryColumn.of(values), BinaryColumn.of(headers)
    rounds = max(1, records // 20_000)
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        log.send("t", 3, values, headers=headers)
        log.poll_acks()
    log.poll_acks(wait=True)
    return rates(f"sent_{name}", rounds * 20_000, wall_s, cpu_s)


def bulk(log: Log, records: int, size: int) -> dict[str, float]:
    """Batches of 2,000, written and read with identities as headers."""
    batch, headers, rounds = [bytes(size)] * 2000, [bytes(24)] * 2000, records // 2000
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        log.append("t", 0, batch, headers=headers)
    row = rates("appended", rounds * 2000, wall_s, cpu_s)
    wall_s, cpu_s, offset = time.perf_counter(), time.process_time(), 1
    while (chunk := log.read("t", 0, offset, max_records=20_000)).next_offset > offset:
        offset = chunk.next_offset
    return row | rates("read", rounds * 2000, wall_s, cpu_s)


def rates(name: str, count: int, wall_s: float, cpu_s: float) -> dict[str, float]:
    """By wall time and by this process's CPU time since then."""
    return {
        f"{name}_per_s": round(count / (time.perf_counter() - wall_s)),
        f"{name}_per_cpu_s": round(count / (time.process_time() - cpu_s)),
    }


def latency(name: str, call: Callable[[int], object]) -> dict[str, float]:
    """Median and 99th percentile."""
    taken_ms = []
    for number in range(ROUNDS):
        before_s = time.perf_counter()
        call(number)
        taken_ms.append((time.perf_counter() - before_s) * 1000)
    return spread(name, taken_ms)


def spread(name: str, taken_ms: list[float]) -> dict[str, float]:
    """Median and 99th percentile."""
    return {
        f"{name}_p50_ms": round(statistics.median(taken_ms), 2),
        f"{name}_p99_ms": round(statistics.quantiles(taken_ms, n=100)[98], 2),
    }


def wake_up(log: Log, other: Log) -> dict[str, float]:
    """From the acknowledgement of an append elsewhere to the return of ``wait``; 0 where that came before."""
    acknowledged_s, began = [0.0], log.end_offset("t", 2)
    go, taken_ms = threading.Semaphore(0), []

    def write() -> None:
        for _ in range(ROUNDS):
            go.acquire()
            other.append("t", 2, [b"x"])
            acknowledged_s[0] = time.perf_counter()

    thread = threading.Thread(target=write)
    thread.start()
    for number in range(ROUNDS):
        acknowledged_s[0] = float("inf")
        go.release()
        assert log.wait({TopicPartition("t", 2): began + number}, 60.0)
        taken_ms.append(max(0.0, (time.perf_counter() - acknowledged_s[0]) * 1000))
    thread.join()
    return spread("wake_up_after_ack", taken_ms)


if __name__ == "__main__":
    main()
