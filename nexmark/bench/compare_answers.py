"""Whether two engines gave the same rows: as multisets, in a form that both can be brought to.

Engines write times as text or as milliseconds, with or without trailing zeros, and decimals as numbers or as text.
Rows of the same bytes are the same rows; only what is left of both sides is brought to one form, cheaply first.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from nexmark.bench.forms import changed, forms
from nexmark.oracle import canonical, compare
from nexmark.times import put_times_ms

TIMES = ("dateTime", "window_end", "starttime")
FEW = 200_000
"""Up to so many rows the differences themselves are found; beyond, only whether there are any."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """``differences`` 0: the same multiset of rows."""

    query: str
    rows: dict[str, int]
    differences: int
    first: list[str]


def agreement(query: str, answers: dict[str, Sequence[bytes]]) -> Agreement:
    """Compare the first engine's rows with each of the others'."""
    names = list(answers)
    counts = {name: len(rows) for name, rows in answers.items()}
    differences, first = 0, []
    for other in names[1:]:
        mine, theirs = unlike(answers[names[0]], answers[other])
        for form in forms(query):
            mine, theirs = unlike(changed(form, mine), changed(form, theirs))
        if max(len(mine), len(theirs)) <= FEW:
            found = compare(normal(query, theirs), normal(query, mine))
            differences += found.differences
            first += [f"{names[0]} against {other}: {line}" for line in found.first]
        elif digest(query, mine) != digest(query, theirs):
            differences += max(1, abs(len(mine) - len(theirs)))
            first.append(f"{names[0]} and {other} differ: {counts[names[0]]:,} and {counts[other]:,} rows")
    return Agreement(query, counts, differences, first[:10])


def unlike(mine: Iterable[bytes], theirs: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The rest of both when rows of the same bytes are taken away in pairs."""
    surplus = Counter(mine)
    surplus.subtract(theirs)
    left = [(row, count) for row, count in surplus.items() if count]
    return (
        [row for row, count in left for _ in range(count)],
        [row for row, count in left for _ in range(-count)],
    )


def normal(query: str, rows: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Rows with times in ms, and q1's price as text with three decimals."""
    for row in rows:
        found = json.loads(row, parse_float=str)
        put_times_ms(found, TIMES)
        if query == "q1":
            found["price"] = f"{Decimal(found['price']):.3f}"
        yield found


def digest(query: str, rows: Iterable[bytes]) -> int:
    """Equal for equal multisets: the sum of the rows' hashes."""
    total = 0
    for row in normal(query, rows):
        total += int.from_bytes(hashlib.blake2b(canonical(row).encode(), digest_size=16).digest(), "little")
    return total % 2**128
