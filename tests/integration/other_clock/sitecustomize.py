"""Read by Python at its start where this folder is on PYTHONPATH: a wall clock that is wrong, and jumps back and forth.

``OTHER_CLOCK_S`` is by how much. The steady clock is left alone, as ``settimeofday`` leaves it.
"""

from __future__ import annotations

import os
import time

_SHIFT_NS = int(float(os.environ.get("OTHER_CLOCK_S", "0")) * 1e9)
_PERIOD_NS = 2_000_000_000
_time_ns = time.time_ns


def _wrong_ns() -> int:
    """Right and wrong in turn, for two seconds each."""
    now = _time_ns()
    return now + (_SHIFT_NS if now // _PERIOD_NS % 2 else 0)


if _SHIFT_NS:
    time.time_ns = _wrong_ns
    time.time = lambda: _wrong_ns() / 1e9
