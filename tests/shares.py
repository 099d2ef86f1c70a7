"""Long tests of many alike: each run draws a share of them, the night runs all."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])


def share_of(names: Iterable[Any], of: int, module: str) -> list[Any]:
    """All ``names`` as parameters. One of ``of`` is drawn for the run, by its base seed; the others are nightly.

    ``module`` is the test's own: where each draws one log, one run draws the other one elsewhere.
    """
    known = list(names)
    drawn = random.Random(f"{_base_seed()} {module}").sample(known, -(-len(known) // of))
    return [pytest.param(name, marks=() if name in drawn else pytest.mark.nightly) for name in known]


def turn(number: int, of: int) -> Callable[[Test], Test]:
    """One of ``of`` tests that prove the same in other ways: the run draws one of their numbers, the night runs all."""
    drawn = random.Random(_base_seed()).randrange(of)
    return (lambda test: test) if drawn == number else pytest.mark.nightly


def _base_seed() -> int:
    return int(os.environ["SIM_BASE_SEED"])
