"""Which snapshots make one state: the first holds all, and each of the others continues the one before it.

A snapshot names the epoch since which it holds changes. A file of a version that did not name it is judged by the
number of remembered replies, which each snapshot holds too.
"""

from __future__ import annotations

from transactional.state.snapshots import UNSAID, PartitionState
from transactional.state.values import BadValue


class BrokenChain(BadValue):
    """Snapshots make no state: the first of them is not whole, or changes between two of them are missing."""


class Continuity:
    """Follows snapshots from the oldest on. ``whole``: the first one has to hold all.

    ``since``: the first epoch whose changes are in none of them, None if there is none, ``UNSAID`` if one lacks it.
    """

    def __init__(self, *, whole: bool = True) -> None:
        self.since: int | None = None
        self._whole = whole
        self._end: int | None = None
        self._begun = False
        self._remembered: dict[int, int] = {}

    def follow(self, state: PartitionState) -> None:
        """Raises ``BrokenChain`` where ``state`` does not continue the ones before it."""
        if not self._begun:
            self.since = state.since
            if self._whole and state.since not in (None, UNSAID):
                raise BrokenChain(f"changes since epoch {state.since}, and rests upon nothing: it is not whole")
        elif state.since == UNSAID:
            self.since = UNSAID
        elif state.since != self._end:
            raise BrokenChain(
                f"changes since epoch {state.since}, and rests upon snapshots up to epoch {self._end}: what is between "
                f"them is missing"
            )
        self._begun, self._end = True, state.ledger.done
        if self._whole:
            self._count(state)

    def _count(self, state: PartitionState) -> None:
        """As many replies have to be there as the snapshot counts as remembered."""
        if state.all_replies:
            self._remembered.clear()
        for sequencer, count, newest in state.reply_order:
            found = self._remembered.get(sequencer, 0) + len(newest)
            if found < count:
                raise BrokenChain(
                    f"{len(newest)} replies of request partition {sequencer} up to epoch {state.ledger.done}, and "
                    f"{found} are there of {count} that are remembered: what was before them is missing"
                )
            self._remembered[sequencer] = count
