"""Durations that are the fault itself: how late an answer is, after how long something stops. Other waits poll."""

from __future__ import annotations

import asyncio
import time


def passes(seconds: float) -> None:
    """So much time passes, whatever happens in it."""
    time.sleep(seconds)


async def passes_meanwhile(seconds: float) -> None:
    """The same on a loop that goes on."""
    await asyncio.sleep(seconds)
