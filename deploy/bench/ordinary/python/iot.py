"""Devices whose records come up to 60 s late and are broken at times: count and maximum of each of 100.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Measured(msgspec.Struct, gc=False):
    device: str
    temperature: float
    ts: int


decode = msgspec.json.Decoder(Measured).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        try:
            event = decode(payload)
        except msgspec.MsgspecError:
            continue
        start = event.ts - event.ts % 10_000
        key = (start, event.device)
        state = found.get(key)
        if state is None:
            found[key] = [1, event.temperature]
            continue
        state[0] += 1
        if event.temperature > state[1]:
            state[1] = event.temperature


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], max(one[1], other[1])]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "device": key, "count": state[0], "top": state[1]}
