"""Sessions: windows that end with a gap of time without elements, and the slices that they are put together from."""

from __future__ import annotations

from wcrdt.windows.assigners import Tumbling
from wcrdt.windows.durations import duration_ms

SLICES_OF_A_GAP = 4


class Session:
    """The elements of a key while each comes at most ``gap`` after the one before: ``[first, last + gap)``.

    One exactly ``gap`` later still belongs to the session, as in Flink and Kafka Streams. A session depends on its
    elements, so it is no ``Assigner``: states hold ``slices``, of which those of a session are combined once complete.
    A slice is at most as long as the gap, so the elements of one key within it are of one session. A session is known
    at the end of the slice that ``last + gap`` is in.

    Args: both are ms > 0, or texts: ``Session("30m")``. ``slice``: None for a quarter of the gap.
    """

    __slots__ = ("gap_ms", "slice_ms", "slices")

    def __init__(self, gap: int | str, slice: int | str | None = None) -> None:
        self.gap_ms = duration_ms(gap)
        if self.gap_ms <= 0:
            raise ValueError(f'a session needs a gap of more than 0 ms, got {gap!r}; give one as Session("30m")')
        self.slice_ms = max(1, self.gap_ms // SLICES_OF_A_GAP) if slice is None else duration_ms(slice)
        if not 0 < self.slice_ms <= self.gap_ms:
            raise ValueError(
                f"slices of sessions are at least 1 ms and at most the gap, {gap!r}, since all elements of one slice "
                f"are in one session; got {slice!r}: give a shorter slice, or leave it out"
            )
        self.slices = Slices(self)

    def describe(self) -> str:
        """Canonical text of the parameters, part of the job's fingerprint."""
        return f"session({self.gap_ms},{self.slice_ms})"

    def __repr__(self) -> str:
        return f"Session(gap={self.gap_ms}, slice={self.slice_ms})"


class Slices(Tumbling):
    """The slices of sessions, side by side."""

    __slots__ = ("_described",)

    def __init__(self, session: Session) -> None:
        super().__init__(session.slice_ms)
        self._described = session.describe()

    def describe(self) -> str:
        return self._described
