"""Fleets whose nodes differ: in how long their contributions to sharded states may wait.

Two rules for this file: it draws from streams of its own; seeds below ``TENTH_SEED`` keep what they drew before.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from nodes.sim.case import TENTH_SEED

if TYPE_CHECKING:
    from nodes.sim.options import Options

WAITING_BYTES = 16 << 10, 20, 0
"""Of contributions to a partition: down to none."""
MIXED = (0, 16 << 10), (20, 16 << 10), (0, 20), (16 << 10, 0, 20)
"""Of the first node, the second and so on; one that starts again under another number has another bound."""


def with_mixed_nodes(options: Options) -> Options:
    """Nodes of two thirds of the new seeds have different bounds. Only jobs with sharded states use them."""
    rng = random.Random(f"options {options.seed} {options.case} mixed nodes")
    bounds = rng.choice(MIXED)
    if options.seed < TENTH_SEED or rng.random() < 0.33:
        return options
    return replace(options, waiting_bytes=bounds)


def waiting_bytes(options: Options, number: int) -> int:
    """The bound of the node of this number."""
    bounds = options.waiting_bytes or (WAITING_BYTES[options.seed % len(WAITING_BYTES)],)
    return bounds[number % len(bounds)]
