"""Events of the simulation's flows as laws draw them, and as the flows' results in plain Python take them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from nodes.sim.jobs import Event


def partitions_of_events(last_ms: int, most: int = 20) -> st.SearchStrategy[list[list[Event]]]:
    """Up to three partitions of up to ``most`` events, with times up to ``last_ms`` in any order."""
    events = st.builds(
        Event, ts=st.integers(0, last_ms), id=st.integers(0, 99), key=st.integers(0, 3), amount=st.integers(0, 3)
    )
    return st.lists(st.lists(events, max_size=most), min_size=1, max_size=3)


def fields_of(event: Event) -> dict[str, Any]:
    """The fields of an event."""
    return {"ts": event.ts, "id": event.id, "key": event.key, "amount": event.amount}


def payloads_of(partitions: list[list[Event]]) -> list[list[bytes]]:
    """The events as records of JSON."""
    return [[json.dumps(fields_of(event)).encode() for event in events] for events in partitions]


def with_watermarks(events: list[Event], delay_ms: int) -> list[tuple[dict[str, Any], int | None]]:
    """The events of a partition, each with the watermark before it."""
    found, watermark = [], None
    for event in events:
        found.append((fields_of(event), watermark))
        promised = event.ts - delay_ms
        watermark = promised if watermark is None else max(watermark, promised)
    return found
