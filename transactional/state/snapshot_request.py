"""One snapshot of a state partition: wanted, made at the end of an epoch, taken. Changes are counted since the last."""

from __future__ import annotations

from collections.abc import Callable

from transactional.state.snapshots import StateSnapshot


class SnapshotRequest:
    """``since``: the epoch of the last snapshot, or of the one that the partition began with; None: there is none."""

    def __init__(self) -> None:
        self.since: int | None = None
        self._is_wanted = self._is_whole = False
        self._made: tuple[int, StateSnapshot] | None = None

    @property
    def is_made(self) -> bool:
        """Whether there is one to be taken."""
        return self._made is not None

    def request(self, *, whole: bool) -> None:
        """One of what has changed since the last one, or of all."""
        if whole and self._made is not None and self._made[1].since is not None:
            self._made = None  # what it holds is in the whole one too
        self._is_wanted = True
        self._is_whole |= whole

    def make(self, epoch: int, snapshot: Callable[[int | None], StateSnapshot]) -> None:
        """At the end of ``epoch``: ``snapshot(since)`` where one is wanted, and the one before was taken."""
        if not self._is_wanted or self._made is not None:
            return
        whole, self._is_wanted, self._is_whole = self._is_whole, False, False
        self._made, self.since = (epoch, snapshot(None if whole else self.since)), epoch

    def take(self, logged: int) -> tuple[int, StateSnapshot] | None:
        """The one that was made, once the log has all up to its epoch."""
        if self._made is None or self._made[0] > logged:
            return None
        made, self._made = self._made, None
        return made
