"""A measurement that is ended from outside stops what it has started."""

from __future__ import annotations

import signal


def end_at_sigterm() -> None:
    """From now on SIGTERM ends this process as a Ctrl-C does."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
