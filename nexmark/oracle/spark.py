"""The Spark oracle: what a query must give on a log, in SQL, compared with what it gave. No line of it is the engine's.

The comparison happens in Spark too, so that only the first differences reach this process.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nexmark.oracle.compare import FIRST, OracleVerdict, RecordCounts, Row, canonical, describe
from nexmark.oracle.spark_parse import PARSED, parser
from nexmark.oracle.spark_queries import SPARK_QUERIES
from nodes.log import LogAddress
from nodes.spark.session import spark_session
from nodes.spark.source import needed_jars, read_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TEXT = "text string"

# Watermark before a record: over the earlier records of its partition that are not dead.
_CLASSIFIED = """
WITH timed AS (
    SELECT *, CASE WHEN kind IS NOT NULL AND {not_ahead} THEN event_ms END AS used_ms FROM parsed),
tracked AS (
    SELECT *, used_ms - PMOD(used_ms, {slide_ms}) + {window_ms} AS window_end,
           {watermark} - {lateness_ms} AS closed_ms FROM timed)
SELECT *, CASE
    WHEN used_ms IS NULL THEN 'dead'
    WHEN NOT ({where}) THEN 'filtered'
    WHEN window_end <= closed_ms THEN 'late'
    ELSE 'accepted' END AS class
FROM tracked
"""
_WATERMARK = (
    "MAX(used_ms - {out_of_orderness_ms}) OVER "
    "(PARTITION BY partition ORDER BY offset, place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
)
_DIFFERENT = """
SELECT text, SUM(expected) AS expected, SUM(got) AS got
FROM (SELECT text, 1 AS expected, 0 AS got FROM expected_rows UNION ALL SELECT text, 0, 1 FROM got_rows)
GROUP BY text HAVING SUM(expected) <> SUM(got)
"""


def validate_spark(
    query: str,
    log: str | LogAddress,
    topic: str,
    got: Iterable[Row] | Path,
    *,
    out_of_orderness_ms: int = 0,
    lateness_ms: int = 0,
    max_future_skew_ms: int | None = None,
    got_counts: RecordCounts | None = None,
    first: int = FIRST,
    atoms: bool = False,
) -> OracleVerdict:
    """Compare the rows that a query gave with those that it must give on everything that is in the topic now.

    ``log`` is what `open_log` takes. ``got``: rows, or a file or folder with one JSON object a line. Counts that differ
    from ``got_counts`` are differences too. ``atoms``: the records are Arrow record batches, else JSON. Raises
    ValueError for a query that it does not know.
    """
    if query not in SPARK_QUERIES:
        raise ValueError(f"the Spark oracle does not know {query!r}; it knows {', '.join(SPARK_QUERIES)}")
    with spark_session(jars=needed_jars(log)) as spark, tempfile.TemporaryDirectory(prefix="holon-oracle-") as folder:
        _view_partitions(spark, log, topic)
        read_topic(spark, log, topic).mapInArrow(parser(query, atoms=atoms), PARSED).createOrReplaceTempView("parsed")
        classified = spark.sql(_classified_sql(query, out_of_orderness_ms, lateness_ms, max_future_skew_ms)).persist()
        try:
            classified.createOrReplaceTempView("classified")
            counts = _counts(classified)
            spark.sql("SELECT * FROM classified WHERE class = 'accepted'").createOrReplaceTempView("accepted")
            expected = spark.sql(SPARK_QUERIES[query].sql).mapInArrow(_canonical_rows, _TEXT)
            expected.createOrReplaceTempView("expected_rows")
            _got_rows(spark, got, Path(folder)).createOrReplaceTempView("got_rows")
            differences, lines = _compare(spark, first)
        finally:
            classified.unpersist()
    wrong_counts = counts.differences(got_counts) if got_counts else []
    differences += len(wrong_counts)
    return OracleVerdict(differences == 0, differences, (wrong_counts + lines)[:first], counts)


def _classified_sql(query: str, out_of_orderness_ms: int, lateness_ms: int, max_future_skew_ms: int | None) -> str:
    spec = SPARK_QUERIES[query]
    watermark = _WATERMARK.format(out_of_orderness_ms=int(out_of_orderness_ms))
    return _CLASSIFIED.format(
        not_ahead="TRUE" if max_future_skew_ms is None else f"event_ms <= timestamp_ms + {int(max_future_skew_ms)}",
        window_ms=spec.window_ms,
        slide_ms=spec.slide_ms,
        watermark=watermark if spec.windowed else "CAST(NULL AS BIGINT)",
        where=spec.where,
        lateness_ms=int(lateness_ms),
    )


def _view_partitions(spark: SparkSession, log: str | LogAddress, topic: str) -> None:
    from nodes.log import open_log

    with open_log(log) as opened:
        partitions = opened.partitions(topic)
    spark.range(partitions).selectExpr("CAST(id AS INT) AS partition").createOrReplaceTempView("partitions")


def _counts(classified: DataFrame) -> RecordCounts:
    found = {row["class"]: row["count"] for row in classified.groupBy("class").count().collect()}
    return RecordCounts(*(found.get(name, 0) for name in ("accepted", "filtered", "late", "dead")))


def _got_rows(spark: SparkSession, got: Iterable[Row] | Path, folder: Path) -> DataFrame:
    """The rows of the run in canonical form, by way of a file, which takes less memory than passing them."""
    if isinstance(got, Path):
        return spark.read.text(str(got)).mapInArrow(_canonical_lines, _TEXT)
    path = folder / "got.jsonl"
    with path.open("w", encoding="ascii") as lines:
        lines.writelines(f"{canonical(row)}\n" for row in got)
    return spark.read.schema("value string").text(str(path)).selectExpr("value AS text")


def _compare(spark: SparkSession, first: int) -> tuple[int, list[str]]:
    different = spark.sql(_DIFFERENT)
    total = different.selectExpr("COALESCE(SUM(ABS(expected - got)), 0) AS total").collect()[0]["total"]
    rows = different.orderBy("text").limit(first).collect() if total else []
    return total, [describe(row["text"], row["expected"], row["got"]) for row in rows]


def _canonical_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names, columns = batch.schema.names, [_values(column) for column in batch.columns]
        yield _texts([canonical(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)])


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; decimals without a fraction, which integers beyond 64 bits are, as integers."""
    values = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values


def _canonical_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield _texts([canonical(json.loads(line)) for line in batch.column("value").to_pylist()])


def _texts(texts: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], names=["text"])
