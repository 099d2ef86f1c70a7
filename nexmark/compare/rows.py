"""Whether engines gave the same rows: as multisets, with times in ms, and floats up to the order of their sums."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from nexmark.times import put_times_ms

CLOSE = 1e-9
"""Relative: engines add floats in an order of their own."""
SHOWN = 5
TIMES = ("window_start", "window_end")


def differences(mine: Iterable[bytes], theirs: Iterable[bytes]) -> list[str]:
    """Rows that one of both does not have, as sentences; empty if they agree."""
    found = []
    for left, right in zip_longest(sorted(map(_parts, mine)), sorted(map(_parts, theirs))):
        if left is None or right is None or left[0] != right[0] or not _near(left[1], right[1]):
            found.append(f"{_shown(left)} against {_shown(right)}")
            if len(found) == SHOWN:
                break
    return found


def _parts(row: bytes) -> tuple[str, list[float]]:
    """All but floats as canonical text, and the floats in the order of their names."""
    values: dict[str, Any] = json.loads(row)
    put_times_ms(values, TIMES)
    floats = {name: value for name, value in values.items() if isinstance(value, float)}
    rest = {name: value for name, value in values.items() if name not in floats}
    text = json.dumps([rest, sorted(floats)], sort_keys=True, ensure_ascii=False)
    return text, [floats[name] for name in sorted(floats)]


def _near(mine: Sequence[float], theirs: Sequence[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE) for a, b in zip(mine, theirs, strict=True))


def _shown(found: tuple[str, list[float]] | None) -> str:
    return "no row" if found is None else f"{found[0]} {found[1]}"
