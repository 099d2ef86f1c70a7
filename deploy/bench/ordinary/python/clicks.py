"""Web clicks with arrays: how many clicks and tags each of 500 pages got, and the most tags at once.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Click(msgspec.Struct, gc=False):
    page: str
    tags: list[str]
    ts: int


decode = msgspec.json.Decoder(Click).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        start = event.ts - event.ts % 10_000
        key, tags = (start, event.page), len(event.tags)
        state = found.get(key)
        if state is None:
            found[key] = [1, tags, tags]
            continue
        state[0] += 1
        state[1] += tags
        if tags > state[2]:
            state[2] = tags


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "page": key, "count": state[0], "tags": state[1], "most": state[2]}
