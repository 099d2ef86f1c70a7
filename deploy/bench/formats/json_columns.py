"""The cost of reading JSON records of ordinary Structs as columns: by compiled loops, and by msgspec.

    python deploy/bench/formats/json_columns.py [--records N] [--rounds N] [--json]

Nanoseconds of CPU a record and records a CPU-second, medians of rounds in turn, and how many records the loops took.
Also what Structs cost: by msgspec, as ``Json`` makes them, and from compiled columns.
"""

from __future__ import annotations

import argparse
import enum
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from holon import Json, JsonColumns  # noqa: E402
from holon.columnar.loops import Loops, install, installed  # noqa: E402
from holon.columnar.payloads import BinaryColumn  # noqa: E402
from nodes.compiled.loading import ensure  # noqa: E402


class Place(msgspec.Struct):
    lat: float
    lon: float


class Reading(msgspec.Struct):
    sensor: str
    value: float
    ts: int
    name: str
    place: Place
    note: str | None = None


class Few(msgspec.Struct):
    """Three of the six fields."""

    sensor: str
    value: float
    ts: int


class Maybe(msgspec.Struct):
    """With a Struct that may be null: in the records it never is."""

    sensor: str
    value: float
    ts: int
    place: Place | None


class Unit(enum.Enum):
    """The unit of a value."""

    WATT = "W"
    VOLT = "V"


class Chosen(msgspec.Struct):
    """With a member of an enum."""

    sensor: str
    value: float
    ts: int
    unit: Unit


class Meter(msgspec.Struct, tag="meter"):
    """A Struct of a union."""

    serial: int
    name: str


class Vehicle(msgspec.Struct, tag="vehicle"):
    """The other one."""

    plate: str
    speed: float


class United(msgspec.Struct):
    """With a union of Structs."""

    sensor: str
    value: float
    ts: int
    of: Meter | Vehicle


class OfMeter(msgspec.Struct, tag="meter"):
    """An event that is one of two Structs."""

    sensor: str
    value: float
    ts: int
    serial: int
    name: str


class OfVehicle(msgspec.Struct, tag="vehicle"):
    """The other one."""

    sensor: str
    value: float
    ts: int
    plate: str
    speed: float


Either = OfMeter | OfVehicle


class Item(msgspec.Struct):
    """An item of a list."""

    name: str
    price: float
    count: int


class Ordered(msgspec.Struct):
    """With a list of Structs: two in each record."""

    sensor: str
    value: float
    ts: int
    items: list[Item]


class Tagged(Reading):
    """With a list of texts: two in each record."""

    tags: list[str] = msgspec.field(default_factory=list)


class Texts(msgspec.Struct):
    """A time and six texts in a list, and nothing else in the records."""

    ts: int
    texts: list[str]


class Numbers(msgspec.Struct):
    """A time and eight ints in a list, and nothing else in the records."""

    ts: int
    numbers: list[int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not ensure():
        sys.exit("the extra fast is not installed: there is nothing to compare")
    loops = installed()
    assert loops is not None
    rows = [
        {
            "schema": getattr(type, "__name__", "Either"),
            "order": order,
            **measured(type, records(options.records, order, type), loops, options.rounds),
        }
        for type in (Few, Reading, Maybe, Chosen, United, Either, Tagged, Ordered, Texts, Numbers)
        for order in ("fixed", "changing")
    ]
    if options.json:
        print(json.dumps({"load": round(os.getloadavg()[0], 1), "rows": rows}))
        return
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))


def records(count: int, order: str, of: Any = Reading) -> BinaryColumn:
    """Readings of sensors, 180 to 230 bytes each, with items 260 to 310; ``Texts`` and ``Numbers`` alone 70 to 80.

    ``order``: whether the fields change places from record to record.
    """
    draw, found = random.Random(1), []
    owners = (
        {"type": "meter", "serial": 81_234_567, "name": "Nord"},
        {"plate": "ZH 1", "speed": 81.5, "type": "vehicle"},
    )
    for number in range(count):
        row: dict[str, Any] = {
            "sensor": f"sensor-{draw.randrange(1000)}",
            "value": round(draw.uniform(0, 100), 3),
            "ts": 1_753_000_000_000 + number,
            "name": "Zürich Süd",
            "place": {"lat": draw.uniform(-90, 90), "lon": round(draw.uniform(-180, 180), 5)},
            "tags": ["a", "b"],
            "unit": draw.choice("WV"),
            "of": draw.choice(owners),
        }
        if of is Ordered:
            row["items"] = [{"name": "Brot", "price": 4.5, "count": 1}, {"price": 12.95, "name": "Käse", "count": 3}]
        if of is Either:
            row = {**row.pop("of"), **row}
        if of is Texts:
            row = {"ts": number, "texts": [f"text{draw.randrange(100)}" for _ in range(6)]}
        elif of is Numbers:
            row = {"ts": number, "numbers": [draw.randrange(1_000_000) for _ in range(8)]}
        elif draw.random() < 0.5:
            row["note"] = "checked"
        names = list(row)
        if order == "changing":
            draw.shuffle(names)
        found.append(json.dumps({n: row[n] for n in names}, ensure_ascii=False, separators=(",", ":")).encode())
    return BinaryColumn.of(found)


def measured(type: Any, payloads: BinaryColumn, loops: Loops, rounds: int) -> dict[str, Any]:
    columns, events = JsonColumns[Any](type), Json[Any](type)
    ways: dict[str, tuple[Loops | None, Callable[[], Any]]] = {
        "compiled": (loops, lambda: columns.decode(payloads)),
        "msgspec": (None, lambda: columns.decode(payloads)),
        "structs_by_msgspec": (loops, lambda: events.decode(payloads)),
        "structs_of_columns": (loops, lambda: structs(type, columns.decode(payloads).columns)),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (of, run) in ways.items():
            install(of)
            began_s = time.process_time()
            run()
            times[way].append((time.process_time() - began_s) / len(payloads) * 1e9)
    install(loops)
    assert structs(type, columns.decode(payloads).columns) == events.decode(payloads).events
    reader = columns.reader(loops)
    assert reader is not None
    compiled, plain, *objects = (statistics.median(found) for found in times.values())
    return {
        "compiled_ns": round(compiled), "msgspec_ns": round(plain), "times": round(plain / compiled, 1),
        "compiled_a_cpu_second": round(1e9 / compiled), "taken": round(float(reader.read(payloads)[1].mean()), 3),
        "structs_by_msgspec_ns": round(objects[0]), "structs_of_columns_ns": round(objects[1]),
    }  # fmt: skip


def structs(type: Any, columns: Mapping[str, Any]) -> list[msgspec.Struct]:
    """Objects made of columns."""
    if type is Either:
        each = zip(columns[OfMeter.__name__], columns[OfVehicle.__name__], strict=True)
        return [one or other for one, other in each]
    return list(map(type, *(list(columns[name]) for name in type.__struct_fields__)))


if __name__ == "__main__":
    main()
