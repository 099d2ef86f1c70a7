"""Figures of a run from the log's own timestamps: latency of results, and how long a kill kept them away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon import Track
from nexmark.generator.timeline import times_ms
from nexmark.loading import Stream
from nodes.api import Log


class Latency(msgspec.Struct):
    """Milliseconds."""

    avg: float
    p50: float
    p90: float
    p99: float
    max: float


def summarize(values_ms: Sequence[int] | NDArray[np.int64]) -> Latency | None:
    """None where there is nothing to measure."""
    values = np.asarray(values_ms, dtype=np.float64)
    if not len(values):
        return None
    p50, p90, p99 = np.percentile(values, [50, 90, 99])
    return Latency(float(values.mean()), float(p50), float(p90), float(p99), float(values.max()))


def input_timestamps(log: Log, topic: str, partitions: int) -> list[NDArray[np.int64]]:
    """The log's append time of every input record, by partition and offset (the topic begins at offset 0)."""
    found = []
    for partition in range(partitions):
        offset, pieces = 0, [np.empty(0, dtype=np.int64)]
        while len(chunk := log.read(topic, partition, offset)):
            pieces.append(chunk.timestamps_ms)
            offset = chunk.next_offset
        found.append(np.concatenate(pieces))
    return found


def record_latency(outputs: Sequence[Any], appended: Sequence[NDArray[np.int64]]) -> Latency | None:
    """Results of single records: from the record's append to the result's."""
    return summarize(
        [output.timestamp_ms - int(appended[output.identity.partition][output.identity.position]) for output in outputs]
    )


def window_latency(
    outputs: Sequence[Any], stream: Stream, appended: Sequence[NDArray[np.int64]], ends: Callable[[Any], int]
) -> Latency | None:
    """Results of windows: from the append of the record that closes the window (the latest, over partitions, of the
    first record past its end) to the result's. Windows that only the end of the input closes are left out.
    """
    closed: dict[int, int | None] = {}
    values = []
    event_times = [
        times_ms(stream.config, np.arange(p, stream.events, stream.partitions, dtype=np.int64))
        for p in range(stream.partitions)
    ]
    for output in outputs:
        end = ends(output)
        if end not in closed:
            closed[end] = _closing_time(end, event_times, appended)
        closing = closed[end]
        if closing is not None:
            values.append(output.timestamp_ms - closing)
    return summarize(values)


def _closing_time(
    end_ms: int, event_times: Sequence[NDArray[np.int64]], appended: Sequence[NDArray[np.int64]]
) -> int | None:
    latest = 0
    for times, stamps in zip(event_times, appended, strict=True):
        offset = int(np.searchsorted(times, end_ms, side="left"))
        if offset >= len(stamps):
            return None
        latest = max(latest, int(stamps[offset]))
    return latest


def longest_delay(
    outputs: Sequence[Any], kills_ms: Sequence[int], start_ms: int, end_ms: int, *, paced: bool
) -> float | None:
    """The longest gap between results that contains a kill; where the input is paced, beyond the longest without.

    The start and the end of the run bound a gap with a kill in it, and are no part of the others. Results of single records are judged partition by partition,
    because those of the others go on; results of windows need all partitions, so they are judged together. None
    without kills.
    """
    if not kills_ms:
        return None
    groups: dict[int, list[int]] = {}
    for output in outputs:
        single = output.identity.track == Track.RECORD
        groups.setdefault(output.identity.partition if single else -1, []).append(output.timestamp_ms)
    with_kill, without = 0, 0
    for stamps in groups.values():
        for before, after in pairwise(sorted({start_ms, end_ms, *stamps})):
            if any(before <= kill <= after for kill in kills_ms):
                with_kill = max(with_kill, after - before)
            elif before != start_ms and after != end_ms:
                without = max(without, after - before)
    return float(max(0, with_kill - without) if paced else with_kill)
