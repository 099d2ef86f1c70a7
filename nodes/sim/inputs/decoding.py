"""The events of a simulated input in plain Python, as expected results are computed from them."""

from __future__ import annotations

import json
from typing import Any

from nodes.sim.jobs import CASES
from nodes.sim.options import Options

FIELDS = {"ts": int, "id": int, "key": int, "amount": int}


def event_of(options: Options, partition: int, payload: bytes) -> dict[str, Any] | None:
    """The event; those of a second topic are marked, and ``ts`` is their time."""
    event, case = _decode(payload), CASES[options.case]
    if event is not None and partition >= case.topics(options.partitions)[case.topic]:
        event |= {"second": True, "ts": event["ts"] + event["amount"]}
    return event


def delay_ms(options: Options, event: dict[str, Any]) -> int:
    """How far records of the event's topic come behind the newest one."""
    return options.delay_ms + (options.window_ms // 2 if event.get("second") else 0)


def _decode(payload: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(payload)
    except ValueError:
        return None
    if not isinstance(event, dict) or any(type(event.get(name)) is not kind for name, kind in FIELDS.items()):
        return None
    return event if abs(event["ts"]) < 2**53 else None
