"""Positions with floats only, times too: count, highest speed and average over all.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Position(msgspec.Struct, gc=False):
    lat: float
    lon: float
    speed: float
    t: float


decode = msgspec.json.Decoder(Position).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        start = int(event.t * 1000)
        key, speed, lat = (start - start % 10_000, "all"), event.speed, event.lat
        state = found.get(key)
        if state is None:
            found[key] = [1, speed, lat, speed]
            continue
        state[0] += 1
        if speed > state[1]:
            state[1] = speed
        if lat < state[2]:
            state[2] = lat
        state[3] += speed


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], max(one[1], other[1]), min(one[2], other[2]), one[3] + other[3]]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {
        "window_start": start_ms,
        "count": state[0],
        "top": state[1],
        "south": state[2],
        "mean": state[3] / state[0],
    }
