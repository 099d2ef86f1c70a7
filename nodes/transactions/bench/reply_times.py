"""The cost of a migration while it lasts, from the times at which requests were due and answered. All is pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodes.transactions.bench.figures import spread

STEP_S = 0.01
"""So fine the seconds are tried of which the worst counts."""


class Interval(NamedTuple):
    """Of a migration, by the clock of the replies."""

    begin_s: float
    end_s: float


class Phase(NamedTuple):
    """``p50`` and ``p99`` of the latency in ms; ``replies_per_s``: those given in this time."""

    p50: float
    p99: float
    replies_per_s: float


class ReplyTimes:
    """``due`` and ``answered`` by request, in seconds of one clock, of one request or more; a burst is due at once."""

    def __init__(self, due: Sequence[float], answered: Sequence[float]) -> None:
        times = np.array(answered, dtype=np.float64)
        order = np.argsort(times, kind="stable")
        self._answered: NDArray[np.float64] = times[order]
        self._due: NDArray[np.float64] = np.array(due, dtype=np.float64)[order]

    def downtime_ms(self, interval: Interval) -> float:
        """The longest silence while replies are due: of those that begin within the interval, or last until then.

        It counts from the interval's begin on, and to the next reply, which may come behind the interval.
        """
        waited_for = np.minimum.accumulate(self._due[::-1])[::-1]  # the first one due of those not yet answered
        before = np.concatenate([[-np.inf], self._answered[:-1]])
        since = np.maximum(np.maximum(before, waited_for), interval.begin_s)
        silences = np.where(since < interval.end_s, self._answered - since, 0.0)
        return 1000 * max(float(silences.max()), 0.0)

    def least_share(self, interval: Interval) -> float | None:
        """The worst second of those that overlap the interval: replies given, of those that became due in it.

        None: requests did not come for a whole second, as in a burst.
        """
        due = np.sort(self._due)
        begin_s = max(interval.begin_s - 1.0, float(due[0]))
        end_s = min(interval.end_s, float(due[-1]) - 1.0)
        if end_s < begin_s:
            return None
        begins = np.linspace(begin_s, end_s, 1 + int(np.ceil((end_s - begin_s) / STEP_S)))
        wanted, given = _within(due, begins), _within(self._answered, begins)
        shares = given[wanted > 0] / wanted[wanted > 0]
        return float(shares.min()) if len(shares) else None

    def phase(self, interval: Interval) -> Phase | None:
        """Of requests that waited at some moment of the interval. None: there is none."""
        return self._phase((self._due < interval.end_s) & (self._answered >= interval.begin_s), [interval])

    def phases(self, intervals: Sequence[Interval]) -> dict[str, Phase | None]:
        """Before the first interval, during them, and after: what waited within none, and not before the first.

        ``intervals``: one after the other. Without any there are no phases.
        """
        if not intervals:
            return dict.fromkeys(("before", "during", "after"))
        first = intervals[0].begin_s
        during = np.zeros(len(self._due), dtype=bool)
        for each in intervals:
            during |= (self._due < each.end_s) & (self._answered >= each.begin_s)
        before = self._answered < first
        last = max(float(self._answered[-1]), intervals[-1].end_s)
        ends = [*(each.begin_s for each in intervals[1:]), last]
        gaps = [Interval(each.end_s, end) for each, end in zip(intervals, ends, strict=True)]
        return {
            "before": self._phase(before, [Interval(float(self._due.min()), first)]),
            "during": self._phase(during, intervals),
            "after": self._phase(~before & ~during, gaps),
        }

    def _phase(self, waited: NDArray[np.bool_], times: Sequence[Interval]) -> Phase | None:
        length_s = sum(each.end_s - each.begin_s for each in times)
        if not waited.any() or length_s <= 0:
            return None
        found = spread((1000 * (self._answered - self._due)[waited]).tolist())
        given = sum(int(np.diff(np.searchsorted(self._answered, each, side="right"))[0]) for each in times)
        return Phase(found["p50"], found["p99"], given / length_s)


def _within(times: NDArray[np.float64], begins: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many of the times are in the second from each begin on."""
    return np.searchsorted(times, begins + 1.0) - np.searchsorted(times, begins)
