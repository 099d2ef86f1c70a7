"""The general keyed columns beside the counts of ``nexmark/queries``: what replacing these would cost.

    python deploy/bench/lattices/keyed_beside_nexmark.py [--rows N] [--keys N] [--json]

Nanoseconds of CPU a row, medians of rounds that take turns. A batch is inserted into a window that knows its keys; the
window becomes bytes and comes back. Its value is read as the query reads it, as columns.
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
from wcrdt import ColumnsOf, GCounter
from wcrdt.lattices.keyed.view import KeyedView

ROUNDS = 15


def steps(state: Any, column: Any, read: Callable[[Any], object]) -> dict[str, Callable[[], object]]:
    state.insert_many(column, actor=2)
    return {
        "insert": lambda: state.insert_many(column, actor=2),
        "insert and wire": lambda: state.from_wire(inserted(state, column).to_wire()),
        "read": lambda: read(state.value),
    }


def inserted(state: Any, column: Any) -> Any:
    """The state with the column in it, since bytes of a state that did not change are there already."""
    state.insert_many(column, actor=2)
    return state


def pairs(rows: int, keys: int) -> dict[str, dict[str, dict[str, Callable[[], object]]]]:
    draw = np.random.default_rng(5)
    auctions, ones = draw.integers(0, keys, rows), np.ones(rows, np.int64)
    return {
        "counts of q5": {
            "nexmark": steps(KeyCounts(), auctions, tuple),
            "general": steps(ColumnsOf(GCounter()), (auctions, ones), KeyedView.columns),
        }
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for name, kinds in pairs(options.rows, options.keys).items():
        for step in ("insert", "insert and wire", "read"):
            times: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(ROUNDS):
                for kind, of in kinds.items():
                    began_s = time.process_time()
                    of[step]()
                    times[kind].append((time.process_time() - began_s) / options.rows * 1e9)
            found: dict[str, Any] = {kind: round(statistics.median(each), 1) for kind, each in times.items()}
            row = {"state": name, "step": step, **found, "times": round(found["general"] / found["nexmark"], 2)}
            print(json.dumps(row) if options.json else "  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
