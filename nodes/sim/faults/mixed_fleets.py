"""Fleets whose nodes differ: in how long their contributions to sharded states may wait, and how records go.

Two rules for this file: it draws from streams of its own; older seeds keep what they drew before.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from nodes.machine.config import JobRun
from nodes.sim.case import FOURTEENTH_SEED, TENTH_SEED

if TYPE_CHECKING:
    from nodes.sim.options import Options

WAITING_BYTES = 16 << 10, 20, 0
"""Of contributions to a partition: down to none."""
MIXED = (0, 16 << 10), (20, 16 << 10), (0, 20), (16 << 10, 0, 20)
"""Of the first node, the second and so on; one that starts again under another number has another bound."""

FEWEST_ROWS = (1,), (2, 0), (0, 1, 20), (1, 5), (), (), (), ()
"""By the node alike; 0: none goes by columns."""


def with_mixed_nodes(options: Options) -> Options:
    """Nodes of two thirds of the new seeds have different bounds. Only jobs with sharded states use them."""
    rng = random.Random(f"options {options.seed} {options.case} mixed nodes")
    bounds = rng.choice(MIXED)
    if options.seed >= TENTH_SEED and rng.random() >= 0.33:
        options = replace(options, waiting_bytes=bounds)
    if options.seed >= FOURTEENTH_SEED:
        by_columns = random.Random(f"options {options.seed} {options.case} by columns")
        options = replace(options, fewest_rows=by_columns.choice(FEWEST_ROWS))
    return options


def run_of(run: JobRun, options: Options, number: int) -> JobRun:
    """The run as the node of this number has it: records go by columns from so many at once on, compiled or not."""
    fewest = options.fewest_rows[number % len(options.fewest_rows)] if options.fewest_rows else 0
    forms = run.job.column_forms if fewest else {}
    job = run.job.by_columns({topic: replace(form, fewest=fewest, compiled=False) for topic, form in forms.items()})
    return replace(run, job=job)


def waiting_bytes(options: Options, number: int) -> int:
    """The bound of the node of this number."""
    bounds = options.waiting_bytes or (WAITING_BYTES[options.seed % len(WAITING_BYTES)],)
    return bounds[number % len(bounds)]
