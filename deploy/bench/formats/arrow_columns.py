"""The cost of reading one column of an Arrow record batch, beside JSON of the same values by compiled loops.

    python deploy/bench/formats/arrow_columns.py [--rounds N] [--json]

Nanoseconds of CPU a row, medians of rounds in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from holon import JsonColumns  # noqa: E402
from holon.arrow import ArrowColumns, write_atom  # noqa: E402
from holon.columnar.payloads import BinaryColumn  # noqa: E402
from nodes.compiled.loading import ensure  # noqa: E402

ROWS, RECORDS, PASSES = 4096, 4, 2
BEGIN = datetime(2024, 1, 1)


class Place(msgspec.Struct):
    lat: float
    lon: float


def columns() -> dict[str, tuple[Any, Any]]:
    """Declared types and arrays, by what they are."""
    rows = range(ROWS)
    texts = [f"name{row % 50}" for row in rows]
    times = [BEGIN + timedelta(seconds=row) for row in rows]
    return {
        "int64": (int, pa.array(rows)),
        "int32": (int, pa.array(rows, pa.int32())),
        "int64 with nulls": (int | None, pa.array([row if row % 5 else None for row in rows])),
        "string": (str, pa.array(texts)),
        "large_string": (str, pa.array(texts, pa.large_string())),
        "string by a dictionary": (str, pa.array(texts).dictionary_encode()),
        "timestamp": (datetime, pa.array(times)),
        "decimal": (Decimal, pa.array([Decimal(row) / 100 for row in rows])),
        "list of two ints": (list[int], pa.array([[row, row] for row in rows])),
        "struct of two floats": (Place, pa.array([{"lat": 1.5, "lon": row / 2} for row in rows])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ensure()
    found: dict[str, Any] = {name: cost(*column, options.rounds) for name, column in columns().items()}
    if options.json:
        print(json.dumps(found | {"load": round(os.getloadavg()[0], 1)}))
        return
    print("| column | Arrow | JSON |\n|---|---|---|")
    for name, (arrow, text) in found.items():
        print(f"| {name} | {arrow:,.0f} | {text:,.0f} |")
    print(f"load {os.getloadavg()[0]:.1f}")


def cost(declared: Any, array: Any, rounds: int) -> tuple[float, float]:
    """Nanoseconds a row from Arrow, and from JSON."""
    of = msgspec.defstruct("Row", [("x", declared)])
    atoms = BinaryColumn.of([write_atom(pa.record_batch({"x": array}))] * RECORDS)
    lines = BinaryColumn.of([msgspec.json.encode({"x": value}) for value in array.to_pylist()] * RECORDS)
    ways = (ArrowColumns(of), atoms), (JsonColumns(of), lines)
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for (form, records), into in zip(ways, samples, strict=True):
            before = time.process_time_ns()
            for _ in range(PASSES):
                form.decode(records)
            into.append((time.process_time_ns() - before) / (PASSES * RECORDS * ROWS))
    return statistics.median(samples[0]), statistics.median(samples[1])


if __name__ == "__main__":
    main()
