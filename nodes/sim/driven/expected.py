"""The results of the flows with windows driven by data, in plain Python: no line of Holon is shared.

Rows of a key are sorted and cut; when a window has a result is found afterwards, from the slices of its rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nodes.sim.driven.cases import BETWEEN, COUNTS
from nodes.sim.flows.expected import Fate, Placed, Timed

Event = dict[str, Any]


class Cut(NamedTuple):
    """A window: its rows, the time of what closes it (None: nothing does), and whether that is its timeout."""

    rows: list[Event]
    closes_at: int | None
    timed_out: bool


class Way(NamedTuple):
    """A step: which rows begin a window and end one (of so many rows), and the longest time that it is open."""

    of: str
    begins: Callable[[Event], bool]
    ends: Callable[[Event, int], bool]
    timeout: int | None
    early: bool = False
    retracts: bool = False


def by_counts(window_ms: int, events: Placed) -> list[Any]:
    """As the flow of that name."""
    slice_ms, spans = _slice(window_ms), Counter[int]()
    results = _missed(slice_ms, events)
    for end, found in _results(_THREES, slice_ms, _in_time(slice_ms, events)):
        results.append(found)
        spans[_end(end - 1, 3 * window_ms)] += found["amount"]
    results += [{"end": end, "span": 3, "sum": total} for end, total in spans.items()]
    return results + [found for _, found in _results(_twos(window_ms), slice_ms, _own(slice_ms, events))]


def by_between(window_ms: int, events: Placed) -> list[Any]:
    """As the flow of that name."""
    slice_ms = _slice(window_ms)
    results = _missed(slice_ms, events)
    results += [found for _, found in _results(_between(window_ms), slice_ms, _in_time(slice_ms, events))]
    return results + [found for _, found in _results(_runs(window_ms), slice_ms, _own(slice_ms, events))]


_THREES = Way("threes", lambda event: True, lambda event, count: count == 3, None)


def _twos(window_ms: int) -> Way:
    return Way("twos", lambda event: True, lambda event, count: count == 2, window_ms, early=True)


def _between(window_ms: int) -> Way:
    begins, ends = (lambda event: event["amount"] < 2), (lambda event, count: event["amount"] > 3)
    return Way("between", begins, ends, 2 * window_ms, early=True, retracts=True)


def _runs(window_ms: int) -> Way:
    return Way("runs", lambda event: True, lambda event, count: event["amount"] == 0, window_ms)


def _results(way: Way, slice_ms: int, events: Sequence[tuple[Any, Event]]) -> list[tuple[int, dict[str, Any]]]:
    """Results of a step, each with the end of its slice; the first of a key is the key of the results."""
    by_key: dict[Any, list[Event]] = defaultdict(list)
    for key, event in events:
        by_key[key].append(event)
    results: list[tuple[int, dict[str, Any]]] = []
    for key, rows in by_key.items():
        for cut in _cuts(way, rows):
            results += _of_window(way, slice_ms, key[0], cut)
    return results


def _cuts(way: Way, rows: Sequence[Event]) -> list[Cut]:
    found: list[Cut] = []
    rest = list(rows)
    while rest:
        first = rest.pop(0)
        if not way.begins(first):
            continue
        window, due = [first], None if way.timeout is None else first["ts"] + way.timeout
        while not way.ends(window[-1], len(window)) and rest and (due is None or rest[0]["ts"] < due):
            window.append(rest.pop(0))
        if way.ends(window[-1], len(window)):
            found.append(Cut(window, window[-1]["ts"], False))
        else:
            found.append(Cut(window, None if due is None else due - 1, True))
    return found


def _of_window(way: Way, slice_ms: int, key: int, cut: Cut) -> list[tuple[int, dict[str, Any]]]:
    closes = None if cut.closes_at is None else _end(cut.closes_at, slice_ms)
    ends = {_end(row["ts"], slice_ms) for row in cut.rows} if way.early else set[int]()
    results: list[tuple[int, dict[str, Any]]] = []
    for end in sorted(end for end in ends | {closes} if end is not None and (closes is None or end <= closes)):
        rows = [row for row in cut.rows if _end(row["ts"], slice_ms) <= end]
        final = end == closes
        found = {
            "of": way.of, "key": key, "first": rows[0]["ts"],
            "end": rows[-1]["ts"] + 1 if not final or not cut.timed_out else rows[0]["ts"] + (way.timeout or 0),
            "count": len(rows), "amount": sum(row["amount"] for row in rows), "last": max(row["id"] for row in rows),
            "final": final, "retracted": False, "timed_out": final and cut.timed_out,
        }  # fmt: skip
        if way.retracts and results:
            results.append((end, {**results[-1][1], "retracted": True}))
        results.append((end, found))
    return results


def _in_order(slice_ms: int, events: Placed) -> list[tuple[int, Event]]:
    """Partitions and events in the order of time and partition; that of a partition is kept."""
    in_time = ((partition, event) for partition, event, at in events if not _is_late(slice_ms, event, at))
    return sorted(in_time, key=lambda pair: (pair[1]["ts"], pair[0]))


def _in_time(slice_ms: int, events: Placed) -> list[tuple[Any, Event]]:
    """By key."""
    return [((event["key"],), event) for _, event in _in_order(slice_ms, events)]


def _own(slice_ms: int, events: Placed) -> list[tuple[Any, Event]]:
    """Those of odd keys, by key and partition."""
    return [((event["key"], partition), event) for partition, event in _in_order(slice_ms, events) if event["key"] % 2]


def _missed(slice_ms: int, events: Placed) -> list[Any]:
    return [{"missed": event["id"]} for _, event, at in events if _is_late(slice_ms, event, at)]


def _is_late(slice_ms: int, event: Event, watermark: int | None) -> bool:
    """The slice of the event is complete."""
    return watermark is not None and _end(event["ts"], slice_ms) <= watermark


def fates(window_ms: int, events: Timed) -> list[Fate]:
    """The fate of each event of these flows. Odd keys have two states, the second of which gives letters."""
    late = [(_is_late(_slice(window_ms), event, at), event["key"] % 2) for event, at in events]
    return [Fate(missed, missed and odd > 0, missed * (1 + odd), False, missed * (1 + odd)) for missed, odd in late]


def closed_by_counts(window_ms: int, events: Timed) -> int | None:
    """Of the flow by counts: the end of the last window; None: there is none."""
    slice_ms, rows = _slice(window_ms), [event for event, at in events if not _is_late(_slice(window_ms), event, at)]
    ends = [_end(row["ts"] + (window_ms - 1) * (row["key"] % 2), slice_ms) for row in rows]
    by_time = sorted(rows, key=lambda row: row["ts"])
    by_key = [((row["key"],), row) for row in by_time]
    ends += [_end(end - 1, 3 * window_ms) for end, _ in _results(_THREES, slice_ms, by_key)]
    return max(ends, default=None)


def closed_by_between(window_ms: int, events: Timed) -> int | None:
    """Of the flow between rows: the end of the last window; None: there is none."""
    slice_ms, rows = _slice(window_ms), [event for event, at in events if not _is_late(_slice(window_ms), event, at)]
    return max((_end(row["ts"] + 2 * window_ms - 1, slice_ms) for row in rows), default=None)


def _slice(window_ms: int) -> int:
    return max(1, window_ms // 3)


def _end(ts: int, size: int) -> int:
    return (ts // size + 1) * size


RESULTS = {**dict.fromkeys(COUNTS, by_counts), **dict.fromkeys(BETWEEN, by_between)}
"""By case, of the rows that came."""
FATES = {**dict.fromkeys(COUNTS, (fates, closed_by_counts)), **dict.fromkeys(BETWEEN, (fates, closed_by_between))}
"""By case: the fate of each record, and the end of the last window."""
