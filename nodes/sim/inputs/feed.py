"""One record of a simulated input."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feed:
    """One record to append. ``at_ms`` is virtual time."""

    at_ms: int
    partition: int
    payload: bytes
    header: bytes = b""
