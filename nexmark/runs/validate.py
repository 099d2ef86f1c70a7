"""Prove results: the oracle of one's choice over the same log, rows as multisets and counts of records."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from nexmark.oracle import OracleVerdict, RecordCounts, compare, expected_plain
from nexmark.queries import TOPIC
from nexmark.runs.plan import Validator
from nodes.api import Log, LogAddress, MissingDependency


def spark_problem_once() -> Callable[[], str | None]:
    """Returns what keeps Spark from running here; checks the machine once, and only on demand."""

    @cache
    def problem() -> str | None:
        from nodes.spark.session import spark_problem

        return spark_problem()

    return problem


def chosen_validator(
    wanted: Validator | None, problem_of_spark: Callable[[], str | None], report: Callable[[str], None]
) -> str | None:
    """``spark`` or ``plain``. Raises ``MissingDependency`` where Spark was requested by name and is not there."""
    if wanted is None or wanted == "plain":
        return wanted
    problem = problem_of_spark()
    if problem is None:
        return "spark"
    if wanted == "spark":
        raise MissingDependency(problem)
    report(f"no Spark here, going on with the plain oracle: {problem}")
    return "plain"


def validate(
    validator: str,
    query: str,
    log: Log,
    address: LogAddress,
    lines: Sequence[bytes],
    counts: RecordCounts | None,
    *,
    max_future_skew_ms: int | None = None,
    atoms: bool = False,
) -> OracleVerdict:
    """Compare ``lines`` (one JSON row each) and ``counts`` with what the oracle computes from the log."""
    if validator == "plain":
        expected = expected_plain(query, log, TOPIC, max_future_skew_ms=max_future_skew_ms, atoms=atoms)
        compared = compare(expected.rows, map(json.loads, lines))
        wrong = [] if counts is None else expected.counts.differences(counts)
        differences = compared.differences + len(wrong)
        return OracleVerdict(differences == 0, differences, wrong + compared.first, expected.counts)
    from nexmark.oracle.spark import validate_spark

    with tempfile.TemporaryDirectory(prefix="holon-results-") as folder:
        rows = Path(folder, "rows.jsonl")
        rows.write_bytes(b"".join(line + b"\n" for line in lines))
        return validate_spark(
            query, address, TOPIC, rows, max_future_skew_ms=max_future_skew_ms, got_counts=counts, atoms=atoms
        )
