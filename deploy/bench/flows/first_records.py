"""Records of jobs as somebody writes them first: texts, lines of logs, times, lists and dicts, as JSON lines."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

RECORDS = 40_000
BEGIN_MS = 1_753_000_000_000
WORDS = "the of and to in is that it was for on are as with his they at be this from have or by one had not but".split()
PATHS = ("/", "/cart", "/items/7", "/items/81", "/login", "/static/app.js")
METRICS = ("cpu", "memory", "disk", "network")


class Level(Enum):
    DEBUG = "debug"
    INFO = "info"
    ERROR = "error"


class Text(msgspec.Struct):
    ts: int
    text: str


class Line(msgspec.Struct):
    ts: int
    line: str


class Seconds(msgspec.Struct):
    """``ts``: in seconds since 1970."""

    ts: float
    shop: str
    amount: float


class Ride(msgspec.Struct):
    """``start``, ``end``: as ``24/Nov/2026:02:30:00 +0000``."""

    ts: int
    start: str
    end: str
    taxi: str


class Position(msgspec.Struct):
    ts: int
    device: str
    x: float
    y: float


class Item(msgspec.Struct):
    sku: str
    price: float
    count: int


class Order(msgspec.Struct):
    ts: int
    customer: str
    items: list[Item]
    coupons: list[str]


class Tagged(msgspec.Struct):
    ts: int
    host: str
    tags: dict[str, str]


class Measured(msgspec.Struct):
    ts: int
    host: str
    metrics: dict[str, float]


class Event(msgspec.Struct):
    ts: int
    level: Level
    service: str
    user: str | None = None
    retries: int | None = None


class Payment(msgspec.Struct):
    ts: int
    sender: str
    receiver: str
    amount: Decimal
    currency: str


class Raw(msgspec.Struct):
    """``value``: a number as text, or not."""

    ts: int
    sensor: str
    value: str


def _at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _line(draw: random.Random, ms: int) -> str:
    host = f"10.0.{draw.randrange(4)}.{draw.randrange(200)}"
    request = f'"GET {draw.choice(PATHS)} HTTP/1.1" {draw.choice((200, 200, 200, 304, 404, 500))}'
    return f"{host} - - [{_at(ms):%d/%b/%Y:%H:%M:%S %z}] {request} {draw.randrange(50, 9000)}"


def _ride(draw: random.Random, ms: int) -> dict[str, str]:
    start = _at(ms)
    end = start + timedelta(seconds=draw.randrange(60, 5000))
    return {"start": f"{start:%d/%b/%Y:%H:%M:%S %z}", "end": f"{end:%d/%b/%Y:%H:%M:%S %z}"}


def _items(draw: random.Random) -> list[dict[str, Any]]:
    return [
        {"sku": f"sku-{draw.randrange(500)}", "price": draw.randrange(100, 9000) / 100, "count": draw.randrange(1, 5)}
        for _ in range(draw.randrange(1, 5))
    ]


Draw = Callable[[random.Random, int], dict[str, Any]]

DRAWN: dict[str, Draw] = {
    "words": lambda draw, ms: {"text": " ".join(draw.choices(WORDS, k=8)).capitalize()},
    "access": lambda draw, ms: {"line": _line(draw, ms)},
    "pairs": lambda draw, ms: {"line": f"{draw.choice(METRICS)}={draw.choice(('12.5', '7', 'n/a', '0.25'))}"},
    "hours": lambda draw, ms: {
        "ts": ms / 1000,
        "shop": f"shop-{draw.randrange(50)}",
        "amount": draw.randrange(9000) / 100,
    },
    "rides": lambda draw, ms: {**_ride(draw, ms), "taxi": f"taxi-{draw.randrange(300)}"},
    "distances": lambda draw, ms: {
        "device": f"device-{draw.randrange(200)}",
        "x": draw.uniform(-90, 90),
        "y": draw.uniform(-90, 90),
    },
    "orders": lambda draw, ms: {
        "customer": f"customer-{draw.randrange(1000)}",
        "items": _items(draw),
        "coupons": draw.sample(("new", "vip", "half", "none"), draw.randrange(3)),
    },
    "tags": lambda draw, ms: {
        "host": f"host-{draw.randrange(100)}",
        "tags": {name: draw.choice(("prod", "dev", "eu", "us")) for name in draw.sample(("env", "zone", "team"), 2)},
    },
    "metrics": lambda draw, ms: {
        "host": f"host-{draw.randrange(100)}",
        "metrics": {name: draw.randrange(1000) / 10 for name in draw.sample(METRICS, 3)},
    },
    "levels": lambda draw, ms: {
        "level": draw.choice(("debug", "info", "info", "error")),
        "service": f"service-{draw.randrange(40)}",
        "user": draw.choice((None, "", f"user-{draw.randrange(500)}")),
        "retries": draw.choice((None, 0, 3)),
    },
    "payments": lambda draw, ms: {
        "sender": f"account-{draw.randrange(300)}",
        "receiver": f"account-{draw.randrange(300)}",
        "amount": f"{draw.randrange(10**6)}.{draw.randrange(100):02d}",
        "currency": draw.choice(("CHF", "EUR", "USD")),
    },
    "numbers": lambda draw, ms: {
        "sensor": f"sensor-{draw.randrange(100)}",
        "value": "n/a" if draw.random() < 0.01 else f"{draw.randrange(10_000) / 100}",
    },
}
"""By the name of a job, the fields of a record at a time in ms; ``ts`` is that time where none is given."""


def write(name: str, path: Path, records: int = RECORDS) -> None:
    """A job's records as JSON lines."""
    draw = random.Random(1)
    with open(path, "w") as file:
        for number in range(records):
            ms = BEGIN_MS + number
            file.write(json.dumps({"ts": ms} | DRAWN[name](draw, ms)) + "\n")
