"""The cost of a slice for open sessions that are columns, and for those that are objects.

    python deploy/bench/lattices/open_sessions.py [--rounds N] [--json]

Microseconds of CPU for each key that comes: a count by key, no row comes twice in a session, so as many sessions close
in a slice as begin. Where few keys come and many sessions are open, objects are quicker, since columns go over all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from holon.dataflow.sessions.open_sessions import OpenSessions  # noqa: E402
from wcrdt import ColumnsOf, GCounter, Max, Min, RecordOf, Session  # noqa: E402

BOTTOM: ColumnsOf[int, tuple[int, int, int], dict[str, int]] = ColumnsOf(
    RecordOf(first=Min(), last=Max(), count=GCounter())
)
SLICE_MS = 10
SLICES = 16
CASES = [(100, 4), (1_000, 4), (10_000, 4), (200, 64), (1_000, 100), (200, 256), (200, 512), (100, 1_000)]
"""Keys that come in a slice, and slices for which a session is open."""


def us_a_key(come: int, slices: int, *, columns: bool) -> float:
    """Median over slices in which sessions open and close."""
    found, session = OpenSessions({}), Session(slices * SLICE_MS, SLICE_MS)
    costs: list[float] = []
    ones = np.ones(come, np.int64)
    for number in range(slices + SLICES):
        at = number * SLICE_MS
        state = BOTTOM.bottom()
        state.insert_many((np.arange(number * come, (number + 1) * come), (ones * at, ones * at, ones)))
        arrived = state.as_columns() if columns else state.entries()
        assert arrived is not None
        began_s = time.process_time()
        found.take(arrived, at + SLICE_MS, session, BOTTOM, ["count"])
        costs.append(time.process_time() - began_s)
    return statistics.median(costs[-SLICES + 2 :]) / come * 1e6


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = [
        {
            "come": come,
            "open": come * slices,
            "columns_us": round(statistics.median(columns), 2),
            "objects_us": round(statistics.median(objects), 2),
        }
        for come, slices in CASES
        for columns, objects in [
            zip(
                *[
                    (us_a_key(come, slices, columns=True), us_a_key(come, slices, columns=False))
                    for _ in range(arguments.rounds)
                ],
                strict=True,
            )
        ]
    ]
    if arguments.json:
        print(json.dumps({"rounds": arguments.rounds, "rows": rows}))
    else:
        for row in rows:
            print(
                "{come:>6} come {open:>7} open {columns_us:>7} us by columns {objects_us:>7} by objects".format(**row)
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
