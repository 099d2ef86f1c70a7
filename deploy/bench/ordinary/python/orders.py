"""Orders with objects inside of objects: how many, and their worth in cents, by the city that they go to.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Address(msgspec.Struct, gc=False):
    city: str


class Shipping(msgspec.Struct, gc=False):
    address: Address


class Payment(msgspec.Struct, gc=False):
    cents: int


class Order(msgspec.Struct, gc=False):
    shipping: Shipping
    payment: Payment
    ts: int


decode = msgspec.json.Decoder(Order).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        start = event.ts - event.ts % 10_000
        key = (start, event.shipping.address.city)
        state = found.get(key)
        if state is None:
            found[key] = [1, event.payment.cents]
            continue
        state[0] += 1
        state[1] += event.payment.cents


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], one[1] + other[1]]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "city": key, "count": state[0], "cents": state[1]}
