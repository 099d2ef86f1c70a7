"""The cost of exact sums of floats, beside sums of ints and a plain sum of floats (which depends on the order).

    python deploy/bench/lattices/float_sums.py [--rows N] [--json]

Nanoseconds of CPU a row, medians of rounds that take turns: columns of one batch into one ``Sum``, into a map of 1,000
keys, and inserts one by one. ``plain`` is the same lattice with NumPy's own sum of a group in place of the exact one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

from wcrdt import MapOf, Sum
from wcrdt.lattices.columns import Groups

ROUNDS = 15
BATCHES = 20
KEYS = 1_000


class Plain(Sum):
    """Floats added up by NumPy, with rounding at each step."""

    __slots__ = ()

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        gains = np.maximum(column, 0.0)
        losses = gains - column
        sums = (np.add.reduceat(groups.arranged(each), groups.starts).tolist() for each in (gains, losses))
        return list(zip(*sums, strict=True))

    def fold(self, element: Any) -> Any:
        return (element, 0.0) if element >= 0 else (0.0, -element)


Plain._add = staticmethod(lambda a, b: a + b)


def columns(rows: int) -> dict[str, np.ndarray[Any, Any]]:
    """Readings as they are met, and what is hardest."""
    draw = np.random.default_rng(7)
    prices = np.round(draw.uniform(0.5, 500, rows), 2)
    return {
        "prices": prices,
        "gains and losses": prices - 250,
        "logarithmic": np.exp(draw.normal(0, 20, rows)),
    }


def cost_ns(insert: Callable[[], object], rows: int) -> float:
    began_s = time.process_time()
    for _ in range(BATCHES):
        insert()
    return (time.process_time() - began_s) / BATCHES / rows * 1e9


def ways(column: np.ndarray[Any, Any], keys: np.ndarray[Any, Any], kind: type[Sum]) -> dict[str, Callable[[], object]]:
    """By name; each adds the whole column to a lattice that has met all keys."""
    one, many, single = kind(), MapOf(kind()), kind()
    few = column[:500].tolist()
    many.insert_many((keys, column))
    return {
        "one sum": lambda: one.insert_many(column),
        f"{KEYS} keys": lambda: many.insert_many((keys, column)),
        "one by one": lambda: [single.insert(each) for each in few],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000, help="of a batch")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    keys = np.random.default_rng(8).integers(0, KEYS, options.rows)
    tried: dict[tuple[str, str, str], tuple[Callable[[], object], int]] = {}
    for name, column in columns(options.rows).items():
        for kind, taken in (
            ("exact", ways(column, keys, Sum)),
            ("plain", ways(column, keys, Plain)),
            ("ints", ways((column * 100).clip(-1e15, 1e15).astype(np.int64), keys, Sum)),
        ):
            for way, insert in taken.items():
                tried[name, way, kind] = insert, 500 if way == "one by one" else options.rows
    times: dict[tuple[str, str, str], list[float]] = {key: [] for key in tried}
    for _ in range(ROUNDS):
        for key, (insert, rows) in tried.items():
            times[key].append(cost_ns(insert, rows))
    found = {key: statistics.median(each) for key, each in times.items()}
    rows = [
        {"column": name, "way": way, **{kind: round(found[name, way, kind], 1) for kind in ("exact", "plain", "ints")}}
        for name, way in dict.fromkeys((name, way) for name, way, _ in found)
    ]
    for row in rows:
        row["times_plain"] = round(row["exact"] / row["plain"], 2)
        print(json.dumps(row) if options.json else "  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
