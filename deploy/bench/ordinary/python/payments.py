"""Card payments: exact sums of decimals for each of 200 merchants; times are whole seconds.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable
from decimal import Decimal

import msgspec


class Payment(msgspec.Struct, gc=False):
    merchant: str
    amount: Decimal
    at: int


decode = msgspec.json.Decoder(Payment).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        start = event.at * 1000
        start -= start % 10_000
        key = (start, event.merchant)
        state = found.get(key)
        if state is None:
            found[key] = [1, event.amount]
            continue
        state[0] += 1
        state[1] += event.amount


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], one[1] + other[1]]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "merchant": key, "count": state[0], "total": f"{state[1]:.2f}"}
