"""Partitions that end in dead records, beside a small drift of watermarks, while owners follow each other.

Dead records move no event time: the other partitions wait for such a partition until more input comes. Their next
owners begin behind what the broadcast has of the former ones.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from nodes.sim.case import NINTH_SEED
from nodes.sim.jobs import CASES

if TYPE_CHECKING:
    from nodes.sim.options import Options

SHARE, SHARE_OF_SHARDED = 0.04, 0.25


def with_drift(options: Options) -> Options:
    """Some new seeds, of jobs with shards a quarter; not where a plan has one fault alone."""
    rng = random.Random(f"options {options.seed} {options.case} drift")
    share = SHARE_OF_SHARDED if "sharded" in options.case else SHARE
    alone = options.isolation or options.truncation or CASES[options.case].backlog
    if options.seed < NINTH_SEED or rng.random() >= share or alone:
        return options
    return drifting(options, rng)


def drifting(options: Options, rng: random.Random) -> Options:
    """These options with dead records, little drift, and kills of owners."""
    faults = replace(
        options.faults,
        kill_one=max(0.002, options.faults.kill_one),
        restart=max(0.03, options.faults.restart),
    )
    return replace(
        options,
        partitions=max(2, options.partitions),
        records=max(60, options.records),
        feed_ms=options.feed_ms or 1500,
        poison=rng.choice([0.1, 0.3, 0.6]),
        max_watermark_drift_ms=rng.choice([20, 100, 100]),
        faults=faults,
    )
