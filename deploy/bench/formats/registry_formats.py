"""The cost of records in the wire format of a schema registry, beside JSON of the same values.

    python deploy/bench/formats/registry_formats.py [--rounds N] [--json]

Records a CPU-second and nanoseconds of CPU a record, medians of rounds in turn: of events, and of columns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import msgspec

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from holon import Json, JsonColumns  # noqa: E402
from holon.avro import Avro, AvroColumns  # noqa: E402
from holon.formats.protobuf.messages import Schema  # noqa: E402
from holon.formats.registry import RegisteredSchema, head_of  # noqa: E402
from holon.protobuf import Protobuf, ProtobufColumns  # noqa: E402
from nodes.compiled.loading import ensure  # noqa: E402

URL = "http://registry"
RECORDS = 20_000
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CLICK: dict[str, Any] = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "user", "type": "string"},
        {"name": "item", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "bought", "type": "boolean"},
        {"name": "referrer", "type": ["null", "string"], "default": None},
        {"name": "number", "type": "int"},
        {"name": "agent", "type": "string"},
    ],
}


PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Click {
  int64 at = 1; string user = 2; string item = 3; double price = 4; bool bought = 5; optional string referrer = 6;
  int32 number = 7; string agent = 8;
}
message Timed { google.protobuf.Timestamp at = 1; string item = 3; double price = 4; }
"""


class Click(msgspec.Struct):
    """All of the fields."""

    at: int
    user: str
    item: str
    price: float
    bought: bool
    referrer: str | None
    number: int
    agent: str


class Few(msgspec.Struct):
    """Three of the eight."""

    at: int
    item: str
    price: float


class Timed(msgspec.Struct):
    """The same, with a datetime."""

    at: datetime
    item: str
    price: float


def rows() -> list[dict[str, Any]]:
    """The records' values."""
    return [
        {
            "at": BEGIN + timedelta(milliseconds=number),
            "user": f"user{number % 1000}",
            "item": f"item{number % 77}",
            "price": number / 7,
            "bought": number % 9 == 0,
            "referrer": None if number % 3 else "search.example",
            "number": number,
            "agent": "Mozilla/5.0 (X11; Linux)",
        }
        for number in range(RECORDS)
    ]


def avro(values: list[dict[str, Any]]) -> list[bytes]:
    """The records, behind the header of schema 1."""
    schema, found = fastavro.parse_schema(CLICK), []
    for value in values:
        out = BytesIO()
        out.write(head_of(1))
        fastavro.schemaless_writer(out, schema, value)
        found.append(out.getvalue())
    return found


def protobuf(values: list[dict[str, Any]], name: str) -> list[bytes]:
    """The records, behind the header of schema 1 and of the message type."""
    message = Schema(RegisteredSchema(PROTO, "PROTOBUF")).message(name)
    head = head_of(1) + (b"\x02\x02" if name == "Timed" else b"\x00")
    known = {field.name for field in message.DESCRIPTOR.fields}
    given = [{key: each for key, each in value.items() if each is not None and key in known} for value in values]
    return [head + message(**value).SerializeToString() for value in given]


def ways() -> dict[str, Callable[[], object]]:
    """The calls that are measured, by name."""
    values = rows()
    records = avro(values)
    as_ms = [value | {"at": int(value["at"].timestamp() * 1000)} for value in values]
    found: dict[str, Callable[[], object]] = {}
    for of in (Click, Few, Timed):
        lines = [msgspec.json.encode(value) for value in (values if of is Timed else as_ms)]
        messages = protobuf(values, "Timed") if of is Timed else protobuf(as_ms, "Click")
        for name, form, payloads in (
            ("Avro", Avro(of, registry=URL, schemas={1: CLICK}), records),
            ("AvroColumns", AvroColumns(of, registry=URL, schemas={1: CLICK}), records),
            ("Protobuf", Protobuf(of, registry=URL, schemas={1: PROTO}), messages),
            ("ProtobufColumns", ProtobufColumns(of, registry=URL, schemas={1: PROTO}), messages),
            ("Json", Json(of), lines),
            ("JsonColumns", JsonColumns(of), lines),
        ):
            found[f"{name}({of.__name__})"] = lambda form=form, payloads=payloads: form.decode(payloads)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ensure()
    measured = ways()
    samples: dict[str, list[float]] = {name: [] for name in measured}
    for _ in range(options.rounds):
        for name, decode in measured.items():
            before = time.process_time_ns()
            decode()
            samples[name].append((time.process_time_ns() - before) / RECORDS)
    found = {name: statistics.median(each) for name, each in samples.items()}
    if options.json:
        print(json.dumps(found | {"load": round(os.getloadavg()[0], 1)}))
        return
    print("| format | ns of CPU a record | records a CPU-second |\n|---|---|---|")
    for name, ns in found.items():
        print(f"| {name} | {ns:,.0f} | {1e9 / ns:,.0f} |")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
