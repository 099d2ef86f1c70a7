"""Rows of results, and their comparison as multisets, by a canonical text that distinguishes 1, 1.0, true and "1"."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

Row = Mapping[str, Any]
"""One result: names of columns to what JSON can hold."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)

FIRST = 10
"""How many differences are shown."""


@dataclass(frozen=True, slots=True)
class RecordCounts:
    """Where every input record went; each record counts exactly once."""

    accepted: int
    filtered: int
    late: int
    dead: int

    @property
    def total(self) -> int:
        """All input records."""
        return self.accepted + self.filtered + self.late + self.dead

    def differences(self, got: RecordCounts) -> list[str]:
        """One line for each count that is not as expected (``self`` is what is expected)."""
        names = ("accepted", "filtered", "late", "dead")
        pairs = [(name, getattr(self, name), getattr(got, name)) for name in names]
        return [f"{name}: expected {wanted}, got {found}" for name, wanted, found in pairs if wanted != found]


@dataclass(frozen=True, slots=True)
class ExpectedResults:
    """The results that a query must give on a log."""

    rows: list[dict[str, Any]]
    counts: RecordCounts


@dataclass(frozen=True, slots=True)
class RowComparison:
    """How two multisets of rows differ: a changed row counts twice, once as missing and once as not expected."""

    differences: int
    first: list[str]


@dataclass(frozen=True, slots=True)
class OracleVerdict:
    """An oracle's verdict on a run. ``counts`` are the expected ones."""

    validated: bool
    differences: int
    first: list[str]
    counts: RecordCounts


def canonical(row: Row) -> str:
    """One line of JSON, equal for equal rows whatever the order of their columns."""
    return _ENCODER.encode(row)


def describe(text: str, expected: int, got: int) -> str:
    """One difference in words: a canonical row with how often it was expected and found."""
    if not got:
        return f"missing{_times(expected)}: {text}"
    if not expected:
        return f"not expected{_times(got)}: {text}"
    return f"expected {expected} times, got {got}: {text}"


def compare(expected: Iterable[Row], got: Iterable[Row], *, first: int = FIRST) -> RowComparison:
    """Compare as multisets of rows, of any order of rows and columns."""
    wanted, found = Counter(map(canonical, expected)), Counter(map(canonical, got))
    surplus, missing = found - wanted, wanted - found
    texts = islice(sorted({**missing, **surplus}), first)
    return RowComparison(
        differences=missing.total() + surplus.total(),
        first=[describe(text, wanted[text], found[text]) for text in texts],
    )


def _times(count: int) -> str:
    return "" if count == 1 else f" ({count} times)"
