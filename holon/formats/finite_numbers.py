"""Numbers that JSON cannot hold: msgspec would write ``null`` for them, and a reader would never know."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec


def refuse_not_finite(value: Any, plain: Callable[[Any], Any]) -> None:
    """Raise ``ValueError`` with the place of the first NaN or infinite number inside of a value.

    ``plain`` makes values plain that msgspec does not know.
    """
    for place, number in _not_finite(msgspec.to_builtins(value, enc_hook=plain), ""):
        raise ValueError(
            f"a result holds {number} at {place or 'the top'}: JSON has no such number; emit None in its place, or "
            f"give the Output an encode= of its own"
        )


def _not_finite(value: Any, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        if not math.isfinite(value):
            yield place, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _not_finite(each, f"{place}[{key!r:.100}]")
    elif isinstance(value, list | tuple | set | frozenset):
        for index, each in enumerate(value):
            yield from _not_finite(each, f"{place}[{index}]")
