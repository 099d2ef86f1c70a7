"""The general keyed columns beside the lattices of ``nexmark/queries``: what replacing these would cost.

    python deploy/bench/lattices/keyed_beside_nexmark.py [--rows N] [--keys N] [--persons N] [--sellers N] [--json]

Nanoseconds of CPU a row, medians of rounds that take turns. *insert*: a batch into a window that knows its keys.
*first*: the same into an empty window. *insert and wire*: it becomes bytes and comes back. *read*: the value, as the
query reads it. A batch of q8 has few persons and sellers: 2 and 6 of a hundred events.
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

from nexmark.queries.counts import KeyCounts
from nexmark.queries.people import Named, Numbers
from wcrdt import Bag, ColumnsOf, GCounter, Max
from wcrdt.lattices.keyed.view import KeyedView

ROUNDS = 15


def steps(state: Any, column: Any, read: Callable[[Any], object]) -> dict[str, Callable[[], object]]:
    state.insert_many(column, actor=2)
    return {
        "first": lambda: state.bottom().insert_many(column, actor=2),
        "insert": lambda: state.insert_many(column, actor=2),
        "insert and wire": lambda: state.from_wire(inserted(state, column).to_wire()),
        "read": lambda: read(state.value),
    }


def inserted(state: Any, column: Any) -> Any:
    """The state with the column in it, since bytes of a state that did not change are there already."""
    state.insert_many(column, actor=2)
    return state


def pairs(rows: int, keys: int, persons: int, sellers: int) -> dict[str, dict[str, dict[str, Callable[[], object]]]]:
    draw = np.random.default_rng(5)
    auctions, ones = draw.integers(0, keys, rows), np.ones(rows, np.int64)
    came = np.arange(persons), [f"person {number % 97}" for number in range(persons)]
    sell = draw.integers(0, persons, sellers)
    return {
        "counts of q5": {
            "nexmark": steps(KeyCounts(), auctions, tuple),
            "general": steps(ColumnsOf(GCounter()), (auctions, ones), KeyedView.columns),
            "bag": steps(Bag(), auctions, dict),
        },
        "persons of q8": {
            "nexmark": steps(Named(), came, tuple),
            "general": steps(ColumnsOf(Max()), (came, np.ones(persons, np.int64)), KeyedView.columns),
        },
        "sellers of q8": {
            "nexmark": steps(Numbers(), sell, frozenset),
            "general": steps(ColumnsOf(Max()), (sell, np.ones(sellers, np.int64)), KeyedView.columns),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--persons", type=int, default=400)
    parser.add_argument("--sellers", type=int, default=1_200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    heights = {
        "counts of q5": options.rows,
        "persons of q8": options.persons,
        "sellers of q8": options.sellers,
    }
    for name, kinds in pairs(options.rows, options.keys, options.persons, options.sellers).items():
        for step in kinds["nexmark"]:
            times: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(ROUNDS):
                for kind, of in kinds.items():
                    began_s = time.process_time()
                    of[step]()
                    times[kind].append((time.process_time() - began_s) / heights[name] * 1e9)
            found: dict[str, Any] = {kind: round(statistics.median(each), 1) for kind, each in times.items()}
            row = {"state": name, "step": step, **found, "times": round(found["general"] / found["nexmark"], 2)}
            print(json.dumps(row) if options.json else "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
