"""A log as a Spark DataFrame. On Kafka Spark's own connector reads it (`nodes.spark.kafka`); any other log is read by
the data source here: `spark.read.format("holonlog")`, options ``log`` and ``topic``.

One Spark partition a log partition, up to the end offset at the time of planning, so that repeated reads of one
DataFrame see the same records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from nodes.log import LogAddress, open_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "holonlog"
SCHEMA = "partition int, offset bigint, timestamp_ms bigint, key binary, headers binary, value binary"
_ARROW = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("headers", pa.binary()),
        ("value", pa.binary()),
    ]
)


@dataclass
class Range(InputPartition):
    """Offsets of one log partition, the second one exclusive."""

    partition: int
    first: int
    stop: int


class LogReader(DataSourceReader):
    """Reads the ranges of a topic as Arrow batches; runs in Spark's Python workers."""

    def __init__(self, url: str, topic: str) -> None:
        self.url = url
        self.topic = topic

    def partitions(self) -> Sequence[InputPartition]:
        """All that is in the topic now."""
        with open_log(self.url) as log:
            return [
                Range(number, log.start_offset(self.topic, number), log.end_offset(self.topic, number))
                for number in range(log.partitions(self.topic))
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one range."""
        assert isinstance(partition, Range), f"not planned by this reader: {partition!r}"
        with open_log(self.url) as log:
            offset = partition.first
            while offset < partition.stop:
                limit = min(10_000, partition.stop - offset)
                chunk = log.read(self.topic, partition.partition, offset, max_records=limit)
                offset = chunk.next_offset
                columns = [
                    pa.array([partition.partition] * len(chunk), pa.int32()),
                    pa.array(chunk.offsets, pa.int64()),
                    pa.array(chunk.timestamps_ms, pa.int64()),
                    pa.array(chunk.keys or [None] * len(chunk), pa.binary()),
                    pa.array(chunk.headers, pa.binary()),
                    pa.array(chunk.values, pa.binary()),
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)


class HolonLogSource(DataSource):
    """The format `holonlog`. Options: ``log`` (folder or address, as `open_log` takes it) and ``topic``."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Columns, as DDL."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of one topic; raises ValueError if an option is missing."""
        missing = [name for name in ("log", "topic") if name not in self.options]
        if missing:
            raise ValueError(f"format {FORMAT!r} needs the option {' and '.join(missing)}")
        return LogReader(self.options["log"], self.options["topic"])


def needed_jars(log: str | LogAddress) -> list[Path]:
    """The jars with which a session must be started to read this log; fetched if they are not in the cache."""
    if isinstance(log, LogAddress) and log.bootstrap is not None:
        from nodes.spark.kafka import connector_jars

        return connector_jars()
    return []


def read_topic(spark: SparkSession, log: str | LogAddress, topic: str) -> DataFrame:
    """The records of a topic as a DataFrame with the columns of `SCHEMA`.

    On Kafka the session must have been started with `needed_jars`.
    """
    if isinstance(log, LogAddress) and log.bootstrap is not None:
        from nodes.spark.kafka import read_kafka

        return read_kafka(spark, log, topic)
    spark.dataSource.register(HolonLogSource)
    return (
        spark.read.format(FORMAT).option("log", log if isinstance(log, str) else log.url).option("topic", topic).load()
    )
