"""Long tests of many alike: each run draws a share of them, the night runs all."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])


def share_of(names: Iterable[str], of: int) -> list[Any]:
    """All ``names`` as parameters. One of ``of`` is drawn for the run, by its base seed; the others are nightly."""
    known = list(names)
    drawn = _drawing().sample(known, -(-len(known) // of))
    return [pytest.param(name, marks=() if name in drawn else pytest.mark.nightly) for name in known]


def turn(number: int, of: int) -> Callable[[Test], Test]:
    """One of ``of`` tests that prove the same in other ways: the run draws one of their numbers, the night runs all."""
    return (lambda test: test) if _drawing().randrange(of) == number else pytest.mark.nightly


def _drawing() -> random.Random:
    return random.Random(int(os.environ["SIM_BASE_SEED"]))
