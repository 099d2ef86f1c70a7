"""Waiting for replies in the running time of this process: while it is stopped, no time passes."""

from __future__ import annotations

import asyncio
from typing import TypeVar

SLICE_S = 0.1
T = TypeVar("T")


async def within(reply: asyncio.Future[T], timeout_s: float) -> T:
    """The reply. Raises ``TimeoutError`` after so long, in which this process ran."""
    loop = asyncio.get_running_loop()
    while timeout_s > 0:
        began_s = loop.time()
        if (await asyncio.wait([reply], timeout=min(SLICE_S, timeout_s)))[0]:
            return reply.result()
        timeout_s -= min(loop.time() - began_s, 2 * SLICE_S)
    reply.cancel()
    raise TimeoutError
