"""Stock ticks keyed by exchange and symbol: count, highest and lowest price of each of 400 pairs.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Tick(msgspec.Struct, gc=False):
    exchange: str
    symbol: str
    price: float
    ts: int


decode = msgspec.json.Decoder(Tick).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        start = event.ts - event.ts % 10_000
        key, price = (start, (event.exchange, event.symbol)), event.price
        state = found.get(key)
        if state is None:
            found[key] = [1, price, price]
            continue
        state[0] += 1
        if price > state[1]:
            state[1] = price
        elif price < state[2]:
            state[2] = price


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], max(one[1], other[1]), min(one[2], other[2])]


def row(start_ms: int, key: tuple, state: list) -> dict:
    """A result."""
    return {
        "window_start": start_ms,
        "exchange": key[0],
        "symbol": key[1],
        "count": state[0],
        "high": state[1],
        "low": state[2],
    }
