"""The input of a run: records by partition with the virtual time at which they are appended."""

from __future__ import annotations

import json
import random

from nodes.sim.faults.registry import naming_schemas
from nodes.sim.faults.upstream_duplicates import from_upstream
from nodes.sim.inputs.feed import Feed
from nodes.sim.jobs import CASES
from nodes.sim.options import Options

POISON = (b"", b"\xff\xfe", b"{", b'{"ts": "soon"}', b"[]", b'{"ts": 99999999999999999999, "id": 1}', b"null")
FAR_FUTURE_MS = 10_000_000


def make_input(options: Options, rng: random.Random, *, first: int = 0, begin_ms: int = 0) -> list[Feed]:
    """All records, in the order in which they are appended. Every record has an id of its own, from ``first`` on.

    Event times begin at about ``begin_ms``.
    """
    feeds: list[Feed] = []
    fed = options.partitions - options.empty_partitions
    for partition in range(fed):
        count = rng.randint(options.records // 2, options.records)
        start = begin_ms + rng.randint(0, 2 * options.window_ms)
        now = start
        for index in range(count):
            now += rng.randint(0, options.spread_ms)
            at = 0 if rng.random() < options.preloaded else options.feed_ms * index // max(count, 1)
            feeds.append(Feed(at, partition, _payload(options, rng, first + index * fed + partition, now)))
    if options.registry:
        feeds = naming_schemas(feeds, options)
    # Stable: the order within a partition is that of the times, then of the making.
    feeds.sort(key=_time_of)
    return sorted(from_upstream(feeds, options, first), key=_time_of) if options.upstream else feeds


def _time_of(feed: Feed) -> int:
    return feed.at_ms


def _payload(options: Options, rng: random.Random, number: int, now: int) -> bytes:
    if rng.random() < options.poison:
        return rng.choice(POISON)
    ts = now
    if rng.random() < options.late:
        ts -= rng.choice([1, options.delay_ms, options.delay_ms + 1, options.window_ms, 3 * options.window_ms])
    elif CASES[options.case].guarded and rng.random() < options.future:
        ts += FAR_FUTURE_MS
    event = {"ts": ts, "id": number, "key": rng.randrange(options.keys), "amount": rng.randint(0, 5)}
    if rng.random() < options.marked:
        event["mark"] = True
    return json.dumps(event).encode()
