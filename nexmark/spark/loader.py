"""Generation at scale: one Spark task a log partition into a log, or slices of the stream into Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from nexmark.generator import GeneratorConfig, generate_slice
from nexmark.generator.arrow_columns import SPARK_SCHEMA, to_arrow
from nexmark.loading import BATCH_RECORDS, Stream, load_partition
from nodes.log import LogAddress, open_log
from nodes.spark.session import spark_session

PARQUET_ROWS = 20_000


def load_with_spark(log: str | LogAddress, stream: Stream, *, batch_records: int = BATCH_RECORDS) -> int:
    """Create the topic and load it with one task a partition; returns how many records were appended by the last tries.

    ``log`` is what `open_log` takes. A task that Spark runs again goes on where the first one stopped.
    """
    with open_log(log) as opened:
        opened.create_topic(stream.topic, stream.partitions)

    def run(partition: int) -> int:
        with open_log(log) as opened:
            return load_partition(opened, stream, partition, batch_records=batch_records)

    with spark_session() as spark:
        context = spark.sparkContext
        return sum(context.parallelize(range(stream.partitions), stream.partitions).map(run).collect())


def write_parquet(path: str, events: int, config: GeneratorConfig, *, slices: int = 4) -> None:
    """The first events of a seed as Parquet files (one a slice) with typed columns; the folder must not exist."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                for first, stop in _pieces(events * number // slices, events * (number + 1) // slices):
                    yield to_arrow(generate_slice(config, first, stop))

    with spark_session() as spark:
        spark.range(0, slices, 1, slices).mapInArrow(rows, SPARK_SCHEMA).write.parquet(path)


def _pieces(first: int, stop: int) -> Iterator[tuple[int, int]]:
    for start in range(first, stop, PARQUET_ROWS):
        yield start, min(start + PARQUET_ROWS, stop)
