"""The cost of exact sums of Decimals, beside sums of ints.

    python deploy/bench/lattices/decimal_sums.py [--rows N] [--json]

Nanoseconds of CPU a row, medians of rounds that take turns: one batch into a ``Sum``, into maps of some keys, and
inserts one by one. ``columns`` are what compiled loops read, ``lists`` are Decimal objects.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

from holon.columnar.structs.decimals import Decimals
from wcrdt import MapOf, Sum

ROUNDS = 9
KEYS = 1_000


def columns(rows: int) -> dict[str, Decimals]:
    """Amounts as they are met, and what is hardest."""
    draw = np.random.default_rng(7)
    cents = draw.integers(1, 50_000, rows)
    return {
        "cents": Decimals(cents, np.full(rows, -2)),
        "gains and losses": Decimals(cents - 25_000, np.full(rows, -2)),
        "0 to 6 digits": Decimals(cents, -draw.integers(0, 7, rows)),
        "12 digits": Decimals(draw.integers(1, 10**14, rows), np.full(rows, -12)),
    }


def ways(column: Any, keys: np.ndarray[Any, Any], rows: int) -> dict[str, tuple[Callable[[], object], int]]:
    """By name: what adds a column to a lattice that has met all keys, and how many rows that are."""
    one, many, few = Sum(), MapOf(Sum()), MapOf(Sum())
    tens = keys % 10
    many.insert_many((keys, column))
    return {
        "one sum": (lambda: one.insert_many(column), rows),
        "10 keys": (lambda: few.insert_many((tens, column)), rows),
        f"{KEYS} keys": (lambda: many.insert_many((keys, column)), rows),
    }


def one_by_one(column: list[Decimal]) -> tuple[Callable[[], object], int]:
    single, some = Sum(), column[:300]
    return lambda: [single.insert(each) for each in some], len(some)


def cost_ns(insert: Callable[[], object], rows: int) -> float:
    times = max(1, 40_000 // rows)
    began_s = time.process_time()
    for _ in range(times):
        insert()
    return (time.process_time() - began_s) / times / rows * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="of a batch")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    keys = np.random.default_rng(8).integers(0, KEYS, options.rows)
    tried: dict[tuple[str, str, str], tuple[Callable[[], object], int]] = {}
    for name, column in columns(options.rows).items():
        objects = column.tolist()
        ints = column.scaled()[0]
        tried[name, "one by one", "lists"] = one_by_one(objects)
        for kind, given in (("columns", column), ("lists", objects), ("ints", ints)):
            for way, (insert, rows) in ways(given, keys, options.rows).items():
                tried[name, way, kind] = insert, rows
    times: dict[tuple[str, str, str], list[float]] = {key: [] for key in tried}
    for _ in range(ROUNDS):
        for key, (insert, rows) in tried.items():
            times[key].append(cost_ns(insert, rows))
    found = {key: round(statistics.median(each), 1) for key, each in times.items()}
    for name, way in dict.fromkeys((name, way) for name, way, _ in found):
        row = {"column": name, "way": way, **{kind: ns for (n, w, kind), ns in found.items() if (n, w) == (name, way)}}
        print(json.dumps(row) if options.json else "  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
