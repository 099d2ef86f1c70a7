"""The figures of a run by its log: the latency of every result, and whether the results are right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from nexmark.oracle import compare
from nexmark.oracle.plain import time_ms
from nodes.api import Log

Numbers = NDArray[np.int64]


class _Timed(msgspec.Struct, gc=False):
    dateTime: str  # noqa: N815  (wire name)


class _Bid(_Timed, gc=False):
    price: int


class _Event(msgspec.Struct, gc=False):
    person: _Timed | None
    auction: _Timed | None
    bid: _Bid | None


@dataclass(frozen=True, slots=True)
class InputColumns:
    """One partition, by offset: event times, append times, and prices (-1: no bid)."""

    times_ms: Numbers
    appended_ms: Numbers
    prices: Numbers


@dataclass(frozen=True, slots=True)
class Delays:
    """Results in the order in which their windows closed: when that was (the log's clock), and how long they took."""

    closed_ms: Numbers
    delays_ms: Numbers


def read_input(log: Log, topic: str) -> list[InputColumns]:
    """All events of a topic."""
    return [_read_partition(log, topic, partition) for partition in range(log.partitions(topic))]


def _read_partition(log: Log, topic: str, partition: int) -> InputColumns:
    decode = msgspec.json.Decoder(_Event).decode
    times: list[int] = []
    prices: list[int] = []
    stamps = [np.empty(0, np.int64)]
    offset, end = log.start_offset(topic, partition), log.end_offset(topic, partition)
    while offset < end:
        chunk = log.read(topic, partition, offset)
        for value in chunk.values:
            event = decode(value)
            subject = event.bid or event.auction or event.person
            assert subject is not None, "the producer writes events alone"
            at_ms = time_ms(subject.dateTime)
            assert at_ms is not None, "the producer writes valid times"
            times.append(at_ms)
            prices.append(-1 if event.bid is None else event.bid.price)
        stamps.append(chunk.timestamps_ms)
        offset = chunk.next_offset
    return InputColumns(np.array(times, np.int64), np.concatenate(stamps), np.array(prices, np.int64))


def delays(outputs: Sequence[Any], columns: Sequence[InputColumns], since_ms: int) -> Delays:
    """From the append of the record that closes a result's window to the append of the result.

    That record is the latest, over partitions, of the first record past the window's end. Windows that close before
    ``since_ms``, or that only the end of the input closes, are left out.
    """
    closed: dict[int, int | None] = {}
    found: list[tuple[int, int]] = []
    for output in outputs:
        end_ms = output.identity.position
        if end_ms not in closed:
            closed[end_ms] = closing_ms(end_ms, columns)
        closing = closed[end_ms]
        if closing is not None and closing >= since_ms:
            found.append((closing, output.timestamp_ms - closing))
    found.sort()
    rows = np.array(found, dtype=np.int64).reshape(-1, 2)
    return Delays(rows[:, 0], rows[:, 1])


def closing_ms(end_ms: int, columns: Sequence[InputColumns]) -> int | None:
    """When the record came that closes a window, None if none did."""
    latest = 0
    for column in columns:
        offset = int(np.searchsorted(column.times_ms, end_ms, side="left"))
        if offset >= len(column.times_ms):
            return None
        latest = max(latest, int(column.appended_ms[offset]))
    return latest


def differences(query: str, columns: Sequence[InputColumns], window_ms: int, outputs: Sequence[Any]) -> int:
    """How many results are missing, or are not as they should be, computed from the input alone."""
    return compare(
        expected_rows(query, columns, window_ms), (json.loads(output.value) for output in outputs)
    ).differences


def expected_rows(query: str, columns: Sequence[InputColumns], window_ms: int) -> Iterator[dict[str, int]]:
    """The results that the input must give once it has ended."""
    return {"q7max": _highest, "query1": _ratio}[query](columns, window_ms)


def _ends(column: InputColumns, window_ms: int) -> tuple[Numbers, Numbers]:
    """Of each bid: the end of its window, and its price."""
    bids = column.prices >= 0
    return column.times_ms[bids] // window_ms * window_ms + window_ms, column.prices[bids]


def _highest(columns: Sequence[InputColumns], window_ms: int) -> Iterator[dict[str, int]]:
    pairs = [_ends(column, window_ms) for column in columns]
    ends, prices = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    order = np.argsort(ends, kind="stable")
    windows, first, counts = np.unique(ends[order], return_index=True, return_counts=True)
    highest = np.maximum.reduceat(prices[order], first) if len(first) else prices
    for row in zip(windows.tolist(), highest.tolist(), counts.tolist(), strict=True):
        yield dict(zip(("window_end", "max_price", "bids"), row, strict=True))


def _ratio(columns: Sequence[InputColumns], window_ms: int) -> Iterator[dict[str, int]]:
    counted: list[dict[int, int]] = []
    for column in columns:
        windows, counts = np.unique(_ends(column, window_ms)[0], return_counts=True)
        counted.append(dict(zip(windows.tolist(), counts.tolist(), strict=True)))
    for window in sorted({window for counts in counted for window in counts}):
        total = sum(counts.get(window, 0) for counts in counted)
        for partition, counts in enumerate(counted):
            yield {"partition": partition, "window": window, "local": counts.get(window, 0), "global": total}


def longest_delay_ms(found: Delays, kill_ms: int) -> float | None:
    """The longest delay of a result whose window closes after the kill, or that was due when it came."""
    after = found.closed_ms + found.delays_ms >= kill_ms
    return float(found.delays_ms[after].max()) if after.any() else None


def recovered_ms(found: Delays, kill_ms: int) -> float | None:
    """From the kill to the last result that came later than any before the kill; 0 if there is none."""
    before = found.delays_ms[found.closed_ms + found.delays_ms < kill_ms]
    if not len(before):
        return None
    late = (found.closed_ms + found.delays_ms >= kill_ms) & (found.delays_ms > before.max())
    return float((found.closed_ms + found.delays_ms)[late].max() - kill_ms) if late.any() else 0.0


def sensitivity(found: Delays, baseline: Delays, began_ms: int, ended_ms: int) -> float:
    """Area between the curves of latency over time with failures and without, in ms * s (Holon, section 5.2).

    Without failures the curve is the average of a run of its own: two runs have no windows in common. The area counts
    what lies above it.
    """
    if not len(found.delays_ms) or not len(baseline.delays_ms):
        return 0.0
    edges = np.append(found.closed_ms, ended_ms)
    widths_s = np.diff(np.maximum(edges, began_ms)) / 1000
    above_ms = np.maximum(found.delays_ms - baseline.delays_ms.mean(), 0.0)
    return float((above_ms * widths_s).sum())
