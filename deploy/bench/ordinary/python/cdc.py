"""Changes of a table with null values: how many of each kind, and the sum of the new balances that there are.

Records are folded in one loop. Runs in the environment of a peer.
"""

from collections.abc import Iterable

import msgspec


class Account(msgspec.Struct, gc=False):
    region: str
    balance: int | None


class Change(msgspec.Struct, gc=False):
    op: str
    ts_ms: int
    after: Account | None = None


decode = msgspec.json.Decoder(Change).decode


def folded(payloads: Iterable[bytes], found: dict) -> None:
    """Add records to the states by window and key."""
    for payload in payloads:
        event = decode(payload)
        after = event.after
        balance = 0 if after is None or after.balance is None else after.balance
        key = (event.ts_ms - event.ts_ms % 10_000, event.op)
        state = found.get(key)
        if state is None:
            found[key] = [1, balance]
            continue
        state[0] += 1
        state[1] += balance


def merged(one: list, other: list) -> list:
    """Two parts of a state together."""
    return [one[0] + other[0], one[1] + other[1]]


def row(start_ms: int, key: str, state: list) -> dict:
    """A result."""
    return {"window_start": start_ms, "op": key, "count": state[0], "balance": state[1]}
