"""Even shares of what all state partitions of an epoch together may do."""

from __future__ import annotations

from typing import NamedTuple

from transactional.conflicts.detection import Share
from transactional.operators import Limits


class Shares(NamedTuple):
    """Of one of so many ``partitions``: of a transaction's limits, and of the bytes that travel in barriers."""

    partitions: int
    share: Share
    inline_bytes: int

    @classmethod
    def of(cls, limits: Limits, inline_bytes: int, partitions: int) -> Shares:
        share = Share(limits.max_calls // partitions, limits.max_bytes // partitions)
        return cls(partitions, share, inline_bytes // partitions)
