"""Trades with ISO times in ns: volume and the highest price of each of 50 symbols.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec


class Trade(msgspec.Struct, gc=False):
    time: str
    symbol: str
    price: float
    quantity: int


decode = msgspec.json.Decoder(Trade).decode
starts: dict[str, int] = {}


def start_of(text: str) -> int:
    """The window of a time; parsed once for each second."""
    found = starts.get(second := text[:19])
    if found is None:
        at_ms = int(datetime.fromisoformat(second).replace(tzinfo=UTC).timestamp()) * 1000
        found = starts[second] = at_ms - at_ms % 10_000
    return found


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        key = (start_of(event.time), event.symbol)
        state = found.get(key)
        if state is None:
            found[key] = [event.quantity, event.price]
            continue
        state[0] += event.quantity
        if event.price > state[1]:
            state[1] = event.price


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], max(one[1], other[1])]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "symbol": key, "volume": state[0], "high": state[1]}
