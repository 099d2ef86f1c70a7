"""Long tests of many alike: each run draws a share of them, the night runs all."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from typing import Any

import pytest


def share_of(names: Iterable[str], of: int) -> list[Any]:
    """All ``names`` as parameters. One of ``of`` is drawn for the run, by its base seed; the others are nightly."""
    known = list(names)
    drawn = random.Random(int(os.environ["SIM_BASE_SEED"])).sample(known, -(-len(known) // of))
    return [pytest.param(name, marks=() if name in drawn else pytest.mark.nightly) for name in known]
