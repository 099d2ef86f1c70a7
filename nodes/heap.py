"""One heap for all threads of a node: what a thread has loaded, and the loop drops, leaves room for what comes next.

glibc gives a thread an arena of its own, and takes memory for others from elsewhere even where that one is free. State
is loaded beside the loop. So keys that move away from a node would leave room for nothing (docs/design/migration.md).
"""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
"""In malloc.h of glibc."""


def share_heap() -> bool:
    """Before the first thread begins. False: the C library has no such setting, and no arenas either, as musl's."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return mallopt(_M_ARENA_MAX, 1) == 1
