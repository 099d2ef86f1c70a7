"""The producer of a measurement, a process of its own: Nexmark events at a steady rate, event time = wall time.

It prints ``ready``, waits for a line on its standard input, produces, and prints a line of JSON about it.
"""

from __future__ import annotations

import gc
import sys
import time

import msgspec

from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nodes.api import Log, load_settings, open_job_log

TICK_S = 0.01
"""As in paced runs of ``holon nexmark run``."""
CHUNK_S = 0.1
LEAD_MS = 200
"""The first event lies so far ahead of the signal to begin."""


class FeedSpec(msgspec.Struct):
    """The stream to produce; ``rate`` in events a second."""

    topic: str
    partitions: int
    rate: int
    events: int
    seed: int


class Fed(msgspec.Struct):
    """``base_ms``: time of the first event; ``behind_ms``: the longest that an event was handed over late."""

    base_ms: int
    events: int
    behind_ms: float


class LatencyFeed:
    """Sends each event when its time has come, at most a tick late. Event n goes to partition n mod P."""

    def __init__(self, log: Log, spec: FeedSpec) -> None:
        self.log = log
        self.spec = spec
        self._stock: list[bytes] = []
        self._first = 0  # number of the first event in the stock
        self._chunk = max(100, int(spec.rate * CHUNK_S))

    def run(self) -> Fed:
        """Produce all events."""
        spec = self.spec
        base_ms = time.time_ns() // 1_000_000 + LEAD_MS
        config = GeneratorConfig(seed=spec.seed, base_time_ms=base_ms, events_per_s=spec.rate)
        began_s = time.monotonic() + (base_ms - time.time_ns() / 1e6) / 1000
        self._produce_ahead(config)
        sent, behind_s = 0, 0.0
        while sent < spec.events:
            now_s = time.monotonic() - began_s
            due = min(spec.events, int(now_s * spec.rate) + 1) if now_s >= 0 else 0
            if due > sent:
                behind_s = max(behind_s, now_s - sent / spec.rate)
                self._send(sent, due, config)
                sent = due
            self.log.poll_acks()
            self._produce_ahead(config)
            time.sleep(max(0.0, TICK_S - (time.monotonic() - began_s) % TICK_S))
        self.log.poll_acks(wait=True)
        return Fed(base_ms, sent, round(behind_s * 1000, 1))

    def _send(self, first: int, stop: int, config: GeneratorConfig) -> None:
        while self._first + len(self._stock) < stop:
            self._add(config)
        partitions = self.spec.partitions
        for partition in range(partitions):
            start = first + (partition - first) % partitions
            values = self._stock[start - self._first : stop - self._first : partitions]
            if values:
                self.log.send(self.spec.topic, partition, values)
        del self._stock[: stop - self._first]
        self._first = stop

    def _produce_ahead(self, config: GeneratorConfig) -> None:
        """Make events in the time between ticks, a chunk at a time."""
        if len(self._stock) < 2 * self._chunk:
            self._add(config)

    def _add(self, config: GeneratorConfig) -> None:
        first = self._first + len(self._stock)
        self._stock += encode_json(generate_slice(config, first, first + self._chunk))


def main() -> None:
    """``python -m nexmark.latency.feed SPEC``: the log's settings come from the environment."""
    spec = msgspec.json.decode(sys.argv[1].encode(), type=FeedSpec)
    with open_job_log(load_settings()) as log:
        feed = LatencyFeed(log, spec)
        encode_json(generate_slice(GeneratorConfig(seed=spec.seed), 0, 1000))  # fills what the generator keeps
        gc.collect()
        gc.freeze()
        _print_line("ready")
        if sys.stdin.readline():
            _print_line(msgspec.json.encode(feed.run()).decode())


def _print_line(line: str) -> None:
    """To the process that started this one."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
