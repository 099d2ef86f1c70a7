"""Draws what one seed decides for a user's job: the fleet, how the records come, and the faults."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nodes.sim.drawing import drawn_faults, drawn_replicas, with_arrivals, with_cuts, with_loads, with_merging
from nodes.sim.faults.mixed_fleets import FEWEST_ROWS
from nodes.sim.faults.stress import stressed
from nodes.sim.inputs.feed import Feed
from nodes.sim.options import Faults, Options
from nodes.sim.process_wide.spilled_columns import with_spilled_columns

CASE = "user"
MOST_PARTITIONS = 5
IDLE_TIMEOUTS_MS = (10, 60, 300)


@dataclass(frozen=True, slots=True)
class UserRecords:
    """The parts of a user's job and its data that the draws depend on.

    ``idle``: the job has an idle timeout. ``span_ms``: how far the data goes in event time; 0 where that is not known.
    ``topics``: how many it reads.
    """

    count: int
    idle: bool
    span_ms: int
    topics: int = 1


def draw(
    seed: int,
    records: UserRecords,
    *,
    max_nodes: int,
    partitions: int | None = None,
    replicas: int | None = None,
    calm: bool = False,
) -> Options:
    """The options of a seed. ``calm`` switches all faults off; None is drawn. ``partitions``: of each topic."""
    rng = random.Random(f"user job {seed}")
    parts = rng.choice([1, 2, 2, 3, 4, MOST_PARTITIONS])
    suspect, nodes = rng.choice([60, 120, 300]), rng.randint(1, min(4, max_nodes))
    faults = drawn_faults(rng, records.idle, suspect)
    count = partitions * records.topics if partitions else max(parts, records.topics)
    options = Options(
        seed=seed,
        case=CASE,
        nodes=nodes,
        max_nodes=max(nodes, rng.randint(min(2, max_nodes), max_nodes)),
        partitions=count,
        output_partitions=count,
        records=-(-records.count // count),
        empty_partitions=0,
        poison=0.0,
        late=0.0,
        future=0.0,
        marked=0.0,
        keys=0,
        window_ms=0,
        spread_ms=0,
        delay_ms=0,
        feed_ms=rng.choice([0, 1000, 2500, 2500]),
        preloaded=rng.choice([0.0, 0.0, 0.5, 1.0]),
        batch_max_records=rng.choice([1, 5, 30, 1000]),
        heartbeat_interval_ms=max(10, suspect // rng.choice([3, 5])),
        failure_timeout_ms=suspect,
        broadcast_interval_ms=rng.choice([5, 50, 200]),
        checkpoint_interval_ms=rng.choice([30, 60, 100, 400, 2000]),
        max_watermark_drift_ms=rng.choice([0, 1 + records.span_ms // 10, 1 + records.span_ms]),
        tick_ms=rng.choice([2, 5, 10]),
        safety_ms=rng.choice([1500, 3000]),
        same_names=rng.random() < 0.25,
        faults=Faults() if calm else faults,
    )
    drawn, patience_ms = drawn_replicas(seed)
    options = replace(options, replicas=drawn if replicas is None else replicas, standby_after_ms=patience_ms)
    options = replace(options, fewest_rows=random.Random(f"user job {seed} by columns").choice(FEWEST_ROWS))
    options = with_spilled_columns(options)
    options = with_loads(with_merging(options if calm else with_arrivals(with_cuts(options))))
    options = options if calm else stressed(options)
    return _as_backlog(options) if records.idle else options


def _as_backlog(options: Options) -> Options:
    """All records are there before the start: then no partition is idle before its end, and none of them is late.

    The timeout itself shows in no result.
    """
    rng = random.Random(f"user job {options.seed} idle")
    return replace(options, feed_ms=0, preloaded=1.0, idle_timeout_ms=rng.choice(IDLE_TIMEOUTS_MS))


def feeds_of(
    lines: Mapping[str, Sequence[bytes]], partitions: Mapping[str, int], options: Options, rng: random.Random
) -> list[Feed]:
    """The lines of each topic, which has so many ``partitions``, by partition of the job."""
    parts: list[list[bytes]] = []
    for topic, count in partitions.items():
        parts += _parts(lines[topic], count, rng)
    feeds = []
    for partition, part in enumerate(parts):
        for number, line in enumerate(part):
            at_ms = 0 if number < options.preloaded * len(part) else options.feed_ms * number // len(part)
            feeds.append(Feed(at_ms, partition, line))
    return sorted(feeds, key=lambda feed: feed.at_ms)


def _parts(lines: Sequence[bytes], count: int, rng: random.Random) -> list[list[bytes]]:
    """The lines in turn, in blocks, or at random. Within a partition they keep their order."""
    way = rng.choice(["in turn", "in turn", "blocks", "at random"])
    parts: list[list[bytes]] = [[] for _ in range(count)]
    for number, line in enumerate(lines):
        if way == "at random":
            partition = rng.randrange(count)
        else:
            partition = number % count if way == "in turn" else number * count // len(lines)
        parts[partition].append(line)
    return parts
