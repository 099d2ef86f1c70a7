"""Costs of the implementations of Kafka's reader and writer, in turn on one broker: A B A B.

    python deploy/bench/logs/implementations.py [--bootstrap HOST:PORT] [--rounds N] [--of NAME,...] [--json]

Records of 250 bytes with identities of 24, as columns. Microseconds of this process's CPU time for a record, medians
over the rounds; the broker's CPU is its own. An implementation is a pair of settings, READER:WRITER.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from deploy.bench.logs.brokers import given_or_started  # noqa: E402
from holon.columnar.loops import install  # noqa: E402
from holon.columnar.payloads import BinaryColumn  # noqa: E402
from nodes.compiled import loading as compiled  # noqa: E402
from nodes.log.kafka.log import KafkaLog  # noqa: E402

BATCH = 20_000
SIZE = 250
FEW_ROUNDS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="brokers that run already")
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--of", default="direct:direct,librdkafka:librdkafka", help="READER:WRITER,...")
    parser.add_argument("--property", action="append", default=[], metavar="NAME=VALUE", help="of the connection")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names, given = options.of.split(","), dict(one.split("=", 1) for one in options.property)
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
        taken = {name: [] for name in names}
        prefix = f"bench{uuid.uuid4().hex[:8]}-"
        with given_or_started(options.bootstrap, Path(folder)) as bootstrap:
            for number in range(options.rounds):
                for name in names:
                    topic = f"{prefix}{name.replace(':', '-')}-{number}"
                    taken[name].append(measured(bootstrap, topic, name, options.records, given))
    rows = {
        name: {key: round(statistics.median(one[key] for one in its), 3) for key in its[0]}
        for name, its in taken.items()
    }
    if options.json:
        print(json.dumps(rows))
        return
    for key in rows[names[0]]:
        print(f"{key:24}", *(f"{name} {row[key]:>9}" for name, row in rows.items()))


def measured(bootstrap: str, topic: str, name: str, records: int, given: dict[str, str]) -> dict[str, float]:
    """Microseconds of CPU a record: sent and read in large batches, then a few at a time."""
    reader, _, writer = name.partition(":")
    with KafkaLog(bootstrap, {"holon.reader": reader, "holon.writer": writer, **given}) as log:
        assert compiled.ensure() and log.use_columns()
        install(None)
        log.create_topic(topic, 2)
        values = BinaryColumn.of([b"%024d" % number * (SIZE // 24) for number in range(BATCH)])
        headers = BinaryColumn.of([b"%024d" % number for number in range(BATCH)])
        rounds = max(1, records // BATCH)
        log.send(topic, 0, [b"first"])
        log.poll_acks(wait=True)
        cpu_s = time.process_time()
        for _ in range(rounds):
            log.send(topic, 0, values, headers=headers)
            log.poll_acks()
        log.poll_acks(wait=True)
        row = {"sent": _us(cpu_s, rounds * BATCH)}
        log.read(topic, 0, 0, max_records=1)
        cpu_s, offset = time.process_time(), 1
        while (chunk := log.read(topic, 0, offset, max_records=BATCH)).next_offset > offset:
            offset = chunk.next_offset
        row["read"] = _us(cpu_s, rounds * BATCH)
        return row | _few(log, topic)


def _few(log: KafkaLog, topic: str) -> dict[str, float]:
    """One record there and back."""
    position, began_s, cpu_s = log.end_offset(topic, 1), time.perf_counter(), time.process_time()
    for number in range(FEW_ROUNDS):
        log.send(topic, 1, [b"%d" % number])
        while not (chunk := log.poll(topic, 1, position)).next_offset > position:
            log.poll_acks()
            log.wait({next(iter(_place(topic))): position}, 0.01)
        position = chunk.next_offset
    log.poll_acks(wait=True)
    return {
        "one there and back": _us(cpu_s, FEW_ROUNDS),
        "its wall us": round((time.perf_counter() - began_s) / FEW_ROUNDS * 1e6, 1),
    }


def _place(topic: str) -> list:
    from nodes.log import TopicPartition

    return [TopicPartition(topic, 1)]


def _us(cpu_s: float, count: int) -> float:
    return (time.process_time() - cpu_s) / count * 1e6


if __name__ == "__main__":
    main()
