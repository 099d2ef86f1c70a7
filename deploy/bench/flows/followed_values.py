"""CPU of a row of functions that read times or look into dicts: by columns, and called for each row.

    python deploy/bench/flows/followed_values.py --rounds 9

A line a function: the median of some rounds in turn, in ns. Called for each row it gets objects that are there.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from holon.columnar.payloads import Texts  # noqa: E402
from holon.dataflow.expressions import column_of  # noqa: E402
from holon.dataflow.rows import Rows  # noqa: E402
from holon.dataflow.steps import followed  # noqa: E402
from nodes.compiled import loading as compiled  # noqa: E402

ROWS = 20_000
BEGIN_S = 1_753_000_000


class Row(msgspec.Struct):
    time: str
    local: str
    basic: str
    code: str
    id: str
    number: int
    few: str
    wide: int


CODES = {f"C{number}": number for number in range(200)}
NAMES = {f"C{number}": f"name of {number}" for number in range(200)}
IDS = {f"{number:08x}": number for number in range(100_000)}
NUMBERS = {number: number / 7 for number in range(1000)}

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "int(timestamp() * 1000), zone": lambda r: int(datetime.fromisoformat(r.time).timestamp() * 1000),
    "int(timestamp() * 1000), no zone": lambda r: int(datetime.fromisoformat(r.local).timestamp() * 1000),
    "int(timestamp() * 1000), other form": lambda r: int(datetime.fromisoformat(r.basic).timestamp() * 1000),
    "hour": lambda r: datetime.fromisoformat(r.time).hour,
    "date().isoformat()": lambda r: datetime.fromisoformat(r.time).date().isoformat(),
    "text to int, 200 keys": lambda r: CODES[r.code],
    "text to text, 200 keys": lambda r: NAMES.get(r.code, "none"),
    "text to int, 100,000 keys": lambda r: IDS[r.id],
    "int to float, 1,000 keys": lambda r: NUMBERS[r.number],
    "text to int, 4,000 keys": lambda r: IDS[r.few],
    "int to float, 1,000,000 ints": lambda r: NUMBERS.get(r.wide, 0.0),
    "text in dict": lambda r: r.code in CODES,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    compiled.ensure()
    rows, columns = drawn(random.Random(1))
    for name, function in FUNCTIONS.items():
        found = [(by_columns(function, columns), row_by_row(function, rows)) for _ in range(options.rounds)]
        new, old = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"{name:40} {new:7.0f} ns by columns {old:7.0f} row by row {old / new:6.1f} times")


def drawn(draw: random.Random) -> tuple[list[Row], dict[str, Any]]:
    """Rows as objects, and as columns."""
    rows = []
    for number in range(ROWS):
        at = datetime.fromtimestamp(BEGIN_S + number / 100, UTC)
        local = at.isoformat(timespec="milliseconds").removesuffix("+00:00")
        basic = f"{at:%Y%m%dT%H%M%S}Z"
        code, place = f"C{draw.randrange(200)}", f"{draw.randrange(100_000):08x}"
        few, wide = f"{draw.randrange(4_000):08x}", draw.randrange(1_000_000)
        rows.append(Row(f"{local}000000Z", local, basic, code, place, draw.randrange(1000), few, wide))
    names = ("time", "local", "basic", "code", "id", "few")
    columns: dict[str, Any] = {name: Texts.of([getattr(row, name) for row in rows]) for name in names}
    return rows, columns | {name: np.array([getattr(row, name) for row in rows]) for name in ("number", "wide")}


def by_columns(function: Callable[[Any], Any], columns: dict[str, Any]) -> float:
    """Nanoseconds of a row; texts are fresh, so that no object of them is there yet."""
    places = np.arange(ROWS)
    fresh = {name: column.take(places) if isinstance(column, Texts) else column for name, column in columns.items()}
    decision, _ = followed(function, Row, checked=True)
    assert decision is not None
    rows = Rows(places, places, columns=fresh, struct=Row)
    began_s = time.process_time()
    column_of(decision, rows)
    return (time.process_time() - began_s) * 1e9 / ROWS


def row_by_row(function: Callable[[Any], Any], rows: list[Row]) -> float:
    began_s = time.process_time()
    for row in rows:
        function(row)
    return (time.process_time() - began_s) * 1e9 / ROWS


if __name__ == "__main__":
    main()
