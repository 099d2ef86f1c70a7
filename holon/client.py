"""Clients of transactional jobs, for programs of your own: docs/transactions.md, "Clients".

This room knows no log and no network, so a name is fetched from the runtime when it is first used; ``client.pyi``
declares the types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Aborted": "transactional.errors",
    "AsyncTransactionClient": "nodes.transactions.clients.asyncio_client",
    "BadArguments": "transactional.errors",
    "CallFailed": "transactional.errors",
    "NoReply": "nodes.transactions.clients.request_ids",
    "RepliesTrimmed": "nodes.transactions.clients.client",
    "TransactionClient": "nodes.transactions.clients.client",
    "WireRequest": "transactional.requests.requests",
    "open_log": "nodes.log",
}
"""Where each name is at home."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_HOMES)}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted(_HOMES)
