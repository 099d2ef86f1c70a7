"""Events of a player, one of three kinds by a tag: how many of each kind, and the seconds played.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Play(msgspec.Struct, tag="play"):
    seconds: int


class Seek(msgspec.Struct, tag="seek"):
    to: float


class Stop(msgspec.Struct, tag="stop"):
    reason: str | None = None


class Event(msgspec.Struct, gc=False):
    ts: int
    body: Play | Seek | Stop


KINDS = {Play: "play", Seek: "seek", Stop: "stop"}


decode = msgspec.json.Decoder(Event).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        body = event.body
        key, seconds = (event.ts - event.ts % 10_000, KINDS[type(body)]), getattr(body, "seconds", 0)
        state = found.get(key)
        if state is None:
            found[key] = [1, seconds]
            continue
        state[0] += 1
        state[1] += seconds


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], one[1] + other[1]]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "kind": key, "count": state[0], "seconds": state[1]}
