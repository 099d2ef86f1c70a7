"""Oracles: what a query must give on a log, by code that the engine does not share.

`expected_plain` needs nothing but Python; `validate_spark` needs Spark and Java, which are imported when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nexmark.oracle.compare import (
    FIRST,
    ExpectedResults,
    OracleVerdict,
    RecordCounts,
    Row,
    RowComparison,
    canonical,
    compare,
)
from nexmark.oracle.plain import expected_plain
from nodes.log import LogAddress

__all__ = [
    "ExpectedResults",
    "OracleVerdict",
    "RecordCounts",
    "Row",
    "RowComparison",
    "canonical",
    "compare",
    "expected_plain",
    "validate_plain",
    "validate_spark",
]


def validate_plain(
    expected: ExpectedResults, got: Iterable[Row], *, got_counts: RecordCounts | None = None
) -> OracleVerdict:
    """Compare the rows (and counts, if given) that a query gave with the plain oracle's."""
    found = compare(expected.rows, got)
    wrong_counts = expected.counts.differences(got_counts) if got_counts else []
    differences = found.differences + len(wrong_counts)
    return OracleVerdict(differences == 0, differences, (wrong_counts + found.first)[:FIRST], expected.counts)


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
    atoms: bool = False,
) -> OracleVerdict:
    """As `nexmark.oracle.spark.validate_spark`; `nodes.spark.session.spark_problem` returns whether it can run."""
    from nexmark.oracle.spark import validate_spark as validate

    return validate(
        query,
        log,
        topic,
        got,
        out_of_orderness_ms=out_of_orderness_ms,
        lateness_ms=lateness_ms,
        max_future_skew_ms=max_future_skew_ms,
        got_counts=got_counts,
        atoms=atoms,
    )
