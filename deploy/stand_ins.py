"""Bids that are charged as many: the input of simulated fleets that are too large to be given every event."""

from __future__ import annotations

import json
import re

import numpy as np

from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.model import BASE_TIME_MS, WINDOW_MS
from nexmark.times import format_times_ms

POOL = 4000
__all__ = ["WINDOW_MS", "BidTicks"]

_TIME = re.compile(rb'"dateTime":"[^"]*"')


class BidTicks:
    """At each tick one real bid of the generator for each partition, at the tick's event time.

    Event time runs so fast that a window of q7 ends every ``every_ms`` of virtual time. ``highest``: by the end of
    each window, the highest price that was given out for it.
    """

    def __init__(self, partitions: int, tick_ms: int, every_ms: int = 1000) -> None:
        assert every_ms % tick_ms == 0, "windows end at ticks"
        self.partitions = partitions
        self.step_ms = WINDOW_MS * tick_ms // every_ms
        self.highest: dict[int, int] = {}
        made = encode_json(generate_slice(GeneratorConfig(seed=7), 0, POOL))
        bids = [value for value in made if value.startswith(b'{"event_type":2')]
        self._parts = [_TIME.split(value) for value in bids]
        self._prices = [json.loads(value)["bid"]["price"] for value in bids]

    def time_ms(self, tick: int) -> int:
        """Event time of a tick; the first one begins a window."""
        return BASE_TIME_MS + tick * self.step_ms

    def records(self, tick: int) -> list[bytes]:
        """By partition."""
        time_ms = self.time_ms(tick)
        text = b'"dateTime":"' + format_times_ms(np.array([time_ms]))[0].encode() + b'"'
        chosen = [(tick * self.partitions + partition) % len(self._parts) for partition in range(self.partitions)]
        end_ms = time_ms - time_ms % WINDOW_MS + WINDOW_MS
        self.highest[end_ms] = max(self.highest.get(end_ms, 0), *(self._prices[at] for at in chosen))
        return [text.join(self._parts[at]) for at in chosen]
