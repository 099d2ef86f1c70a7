"""Records of a schema that is drawn from the seed; only three of its fields are used: a key, a value and a time.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Used(msgspec.Struct, gc=False):
    key: int
    value: int | None
    ts: int


decode = msgspec.json.Decoder(Used).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        start = event.ts - event.ts % 10_000
        key = (start, event.key)
        state = found.get(key)
        if state is None:
            found[key] = [1, event.value or 0]
            continue
        state[0] += 1
        if (event.value or 0) > state[1]:
            state[1] = event.value


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], max(one[1], other[1])]


def row(start_ms: int, key: int, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "key": key, "count": state[0], "top": state[1]}
