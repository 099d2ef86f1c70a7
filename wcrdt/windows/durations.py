"""Durations as texts: ``"10s"``."""

from __future__ import annotations

import re
from operator import index

_DURATION = re.compile(r"(\d+) ?(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(given: int | str) -> int:
    """Milliseconds of an int in ms, or of a text: a whole number and its unit, ``ms``, ``s``, ``m``, ``h`` or ``d``.

    A day has 24 hours. Raises ``ValueError`` for another text, and ``TypeError`` for a float, which would make windows
    that no two computers agree on.
    """
    if not isinstance(given, str):
        return index(given)
    found = _DURATION.fullmatch(given.strip())
    if found is None:
        raise ValueError(
            f'a duration is a whole number and a unit of {", ".join(_UNIT_MS)}, as "10s", got {given!r:.99}'
        )
    return int(found[1]) * _UNIT_MS[found[2]]
