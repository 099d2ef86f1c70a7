"""Readings of sensors: count and maximum of a float for each of 1,000 keys; texts that are not ASCII.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Reading(msgspec.Struct, gc=False):
    sensor: str
    value: float
    ts: int


decode = msgspec.json.Decoder(Reading).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        start = event.ts - event.ts % 10_000
        key = (start, event.sensor)
        state = found.get(key)
        if state is None:
            found[key] = [1, event.value]
            continue
        state[0] += 1
        if event.value > state[1]:
            state[1] = event.value


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], max(one[1], other[1])]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "sensor": key, "count": state[0], "top": state[1]}
