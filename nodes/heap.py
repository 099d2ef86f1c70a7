"""The heap of the loop for one more thread: rows that it has loaded leave room for others once the loop drops them.

glibc gives a thread an arena of its own, and takes memory for others from elsewhere even where that one is free. State
is loaded beside the loop. So keys that move away from a node would leave room for nothing. One arena for all threads
costs a transaction a tenth of its CPU, since they wait for one lock (docs/design/migration.md).
"""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
"""In malloc.h of glibc."""


def first_heap_for_next_threads() -> bool:
    """Before a thread begins: it shares the arena of the process' first thread, where no arena is free.

    glibc 2.36 (arena_get2, reused_arena) makes no arena after this; it goes around those that there are, from the first
    on. So each thread that begins later shares the arena of another one, and threads that have one keep it.

    False: the C library has no such setting, and no arenas either, as musl's.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    return mallopt(_M_ARENA_MAX, 1) == 1
