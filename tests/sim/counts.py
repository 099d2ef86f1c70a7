"""How many seeds a test draws: few for each commit, since each run draws new ones, and many in the night."""

from __future__ import annotations

import os


def drawn(by_day: int, by_night: int) -> int:
    """``by_night`` with ``--nightly``."""
    return by_night if os.environ.get("SIM_NIGHT") else by_day
