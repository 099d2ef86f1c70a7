"""Fill a Kafka topic with Nexmark events three ways: this process, Spark with Holon's appender, Spark's own Kafka sink.

The sink is here to compare with: a task that it runs again appends its records again, so runs do not use it.
"""

from __future__ import annotations

import argparse
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator

import psutil
import pyarrow as pa

from nexmark.generator import GeneratorConfig
from nexmark.loading import Stream, load
from nexmark.spark.loader import load_with_spark
from nodes.log import LogAddress, open_log
from nodes.log.kafka.log import KafkaLog
from nodes.spark.kafka import connector_jars
from nodes.spark.session import spark_session

BATCH_RECORDS = 4096


def cpu_s() -> float:
    """CPU time of this process and of all that it has started."""
    me = psutil.Process()
    return sum(sum(p.cpu_times()[:4]) for p in [me, *me.children(recursive=True)])


def with_sink(address: LogAddress, stream: Stream) -> None:
    """One Spark task a partition makes the records, and Spark's connector writes them."""
    with open_log(address) as log:
        log.create_topic(stream.topic, stream.partitions)

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for partition in batch.column("id").to_pylist():
                wanted = stream.records_in(partition)
                for first in range(0, wanted, BATCH_RECORDS):
                    values = stream.encode(partition, first, min(first + BATCH_RECORDS, wanted))
                    columns = [pa.array(values, pa.binary()), pa.array([partition] * len(values), pa.int32())]
                    yield pa.RecordBatch.from_arrays(columns, names=["value", "partition"])

    with spark_session(jars=connector_jars()) as spark:
        made = spark.range(0, stream.partitions, 1, stream.partitions).mapInArrow(rows, "value binary, partition int")
        writer = made.write.format("kafka").option("kafka.bootstrap.servers", address.bootstrap or "")
        writer.option("topic", address.prefix + stream.topic).save()


def measured(title: str, address: LogAddress, stream: Stream, fill: Callable[[], object]) -> None:
    """Print what one way costs, and check that all is there."""
    cpu, begun = cpu_s(), time.monotonic()
    fill()
    wall, used = time.monotonic() - begun, cpu_s() - cpu
    with open_log(address) as log:
        there = sum(log.end_offset(stream.topic, p) for p in range(stream.partitions))
    assert there == stream.events, f"{there} of {stream.events}"
    rate, per_cpu = stream.events / wall, stream.events / used
    print(f"{title:28} {wall:7.1f} s {rate:10,.0f} events/s {per_cpu:10,.0f} a CPU s; load {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Run all three on the broker that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT; holon kafka up prints it")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    chosen = parser.parse_args()
    address = LogAddress(f"kafka:{chosen.bootstrap}", prefix=f"fill-{secrets.token_hex(3)}.")

    def stream(topic: str) -> Stream:
        return Stream(topic, chosen.events, chosen.partitions, GeneratorConfig())

    with open_log(address) as log:
        measured("this process", address, stream("plain"), lambda: load(log, stream("plain")))
    with spark_session(jars=connector_jars()) as spark:
        spark.range(2).mapInArrow(lambda batches: batches, "id bigint").collect()  # workers run
        measured("Spark, Holon's appender", address, stream("task"), lambda: load_with_spark(address, stream("task")))
        measured("Spark, Spark's sink", address, stream("sink"), lambda: with_sink(address, stream("sink")))
    with open_log(address) as log:
        assert isinstance(log, KafkaLog), "the address is a broker's"
        log.delete_topics(["plain", "task", "sink"])


if __name__ == "__main__":
    main()
