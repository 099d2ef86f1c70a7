"""The outcome of a workload, judged by Spark from the requests and replies on the log and the checkpointed state.

Only how a record of replies and a checkpoint are decoded is shared with the nodes; what follows from them is SQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from nodes.log import LogAddress
from nodes.spark.session import spark_session
from nodes.spark.source import needed_jars, read_topic
from nodes.transactions.bench.spark_sql import ANSWERED, KNOWN
from nodes.transactions.topics import TransactionTopics
from transactional.epochs.messages import BadRecord, reply_message
from transactional.workloads.next_version import unmarked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 20
_REPLIES = (
    "partition int, offset bigint, n bigint, epoch bigint, sequencer int, at bigint, place int, aborted boolean, "
    "result string"
)
_ARROW = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("n", pa.int64()),
        ("epoch", pa.int64()),
        ("sequencer", pa.int32()),
        ("at", pa.int64()),
        ("place", pa.int32()),
        ("aborted", pa.bool_()),
        ("result", pa.string()),
    ]
)
_WIRE = "struct<id: string, operator: string, key: string, function: string, args: string>"
_PLACED_REQUESTS = f"""
SELECT sequencer, at, place, one.* FROM (
    SELECT partition AS sequencer, offset AS at, posexplode(CASE
        WHEN text LIKE '[%' THEN from_json(text, 'array<{_WIRE}>')
        ELSE array(from_json(text, '{_WIRE}')) END) AS (place, one)
    FROM (SELECT *, CAST(value AS STRING) AS text FROM requests))
"""
# A reader drops what does not ascend by (epoch, n) in its partition.
_ANSWERS = """
SELECT * FROM (SELECT *, MAX(struct(epoch, n)) OVER (PARTITION BY partition ORDER BY offset, n
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM replies)
WHERE before IS NULL OR struct(epoch, n) > before
"""
_DONE = """
SELECT placed.*, result
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY sequencer, at, place) AS nth FROM placed) placed
    JOIN answers USING (sequencer, at, place) WHERE nth = 1 AND NOT aborted
"""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How many rules are broken in how many places, and the first of them in words."""

    differences: int
    first: list[str]


def judge(workload: str, program: str, log: LogAddress, state: Path) -> Judgement:
    """``state``: what `saved_state.write_state` has written. The workload is one of `spark_sql.KNOWN`."""
    views, rules = KNOWN[workload]
    topics = TransactionTopics(program)
    with spark_session(jars=needed_jars(log)) as spark, _settings(spark):
        read_topic(spark, log, topics.requests).createOrReplaceTempView("requests")
        _view(spark, "placed", _PLACED_REQUESTS)
        records = read_topic(spark, log, topics.replies).select("partition", "offset", "value")
        records.mapInArrow(_replies, _REPLIES).createOrReplaceTempView("replies")
        _view(spark, "answers", _ANSWERS)
        _view(spark, "done", _DONE)
        schema = "operator string, key string, value string"
        spark.read.schema(schema).json(str(state)).createOrReplaceTempView("state")
        for name in ("placed", "answers", "done", "state"):
            spark.table(name).cache().createOrReplaceTempView(name)
        for name, sql in views.items():
            spark.sql(sql).cache().createOrReplaceTempView(name)
        broken = reduce(_both, [spark.sql(rule) for rule in (ANSWERED, *rules)]).cache()
        first = [row["text"] for row in broken.limit(SHOWN).collect()]
        return Judgement(broken.count() if first else 0, first)


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """A missing value is null, and so differs, and ends no query. Many small queries are not worth compiling."""
    names = ("spark.sql.ansi.enabled", "spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")
    wanted = dict.fromkeys(names, "false") | {"spark.sql.shuffle.partitions": "2"}
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.catalog.clearCache()
        for name, value in before.items():
            spark.conf.set(name, value or "")


def _view(spark: SparkSession, name: str, sql: str) -> None:
    spark.sql(sql).createOrReplaceTempView(name)


def _both(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.union(other)


def _replies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The replies of each record, one a row; runs in Spark's Python workers."""
    for batch in batches:
        rows: list[tuple[object, ...]] = []
        for each in batch.to_pylist():
            try:
                record = reply_message(each["value"])
            except BadRecord:
                continue
            for n, reply in enumerate(record.replies, record.first):
                result = None if reply.result is None else json.dumps(unmarked(reply.outcome), default=str)
                where = each["partition"], each["offset"], n, record.epoch
                rows.append((*where, reply.sequencer, reply.offset, reply.index, reply.failure is not None, result))
        columns = list(zip(*rows, strict=True)) or [()] * len(_ARROW)
        arrays = [pa.array(list(column), kind) for column, kind in zip(columns, _ARROW.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
