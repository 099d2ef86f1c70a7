"""The cost of reading one column of an Arrow record batch, beside JSON of the same values by compiled loops.

    python deploy/bench/formats/arrow_columns.py [--rounds N] [--only WORD] [--objects] [--json]

Nanoseconds of CPU a row, medians of rounds in turn. With ``--objects`` each object of the column is read as well.
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


class Item(msgspec.Struct):
    name: str
    price: float
    count: int | None = None


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
        "list of two structs": (list[Item], pa.array([[item(row), item(row + 1)] for row in rows])),
        "list of two ints, of which one is null": (list[int | None], pa.array([[row, None] for row in rows])),
        "list of two timestamps": (list[datetime], pa.array([[when, BEGIN] for when in times])),
        "list of two lists of two ints": (list[list[int]], pa.array([[[row, row], [1, row]] for row in rows])),
        "map of two texts to ints": (
            dict[str, int],
            pa.array([[("sold", row), ("left", 2)] for row in rows], pa.map_(pa.string(), pa.int64())),
        ),
        "map of two ints to floats": (
            dict[int, float],
            pa.array([[(1, row / 2), (2, 2.5)] for row in rows], pa.map_(pa.int32(), pa.float64())),
        ),
    }


def item(row: int) -> dict[str, Any]:
    return {"name": f"name{row % 50}", "price": row / 4, "count": row % 9}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", metavar="WORD", help="columns whose description has this word")
    parser.add_argument("--objects", action="store_true", help="read the objects of the columns as well")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ensure()
    found: dict[str, Any] = {
        name: cost(*column, options.rounds, options.objects)
        for name, column in columns().items()
        if options.only in name
    }
    if options.json:
        print(json.dumps(found | {"load": round(os.getloadavg()[0], 1)}))
        return
    print("| column | Arrow | JSON |\n|---|---|---|")
    for name, (arrow, text) in found.items():
        print(f"| {name} | {arrow:,.0f} | {text:,.0f} |")
    print(f"load {os.getloadavg()[0]:.1f}")


def cost(declared: Any, array: Any, rounds: int, objects: bool) -> tuple[float, float]:
    """Nanoseconds a row from Arrow, and from JSON."""
    of = msgspec.defstruct("Row", [("x", declared)])
    atoms = BinaryColumn.of([write_atom(pa.record_batch({"x": array}))] * RECORDS)
    lines = BinaryColumn.of([msgspec.json.encode({"x": value}) for value in values(array)] * RECORDS)
    ways = (ArrowColumns(of), atoms), (JsonColumns(of), lines)
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for (form, records), into in zip(ways, samples, strict=True):
            before = time.process_time_ns()
            for _ in range(PASSES):
                found = form.decode(records)
                if objects:
                    list(found.columns["x"])
            into.append((time.process_time_ns() - before) / (PASSES * RECORDS * ROWS))
    return statistics.median(samples[0]), statistics.median(samples[1])


def values(array: Any) -> list[Any]:
    return array.to_pylist(maps_as_pydicts="strict")


if __name__ == "__main__":
    main()
