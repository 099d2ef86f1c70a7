"""The heap of the loop for one more thread: rows that it has loaded leave room for others once the loop drops them.

glibc gives a thread an arena of its own, and takes memory for others from elsewhere even where that one is free. State
is loaded beside the loop. So keys that move away from a node would leave room for nothing. One arena for all threads
costs a transaction a tenth of its CPU, since they wait for one lock (docs/design/migration.md).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

_M_ARENA_MAX = -8
"""In malloc.h of glibc."""
_ARENAS = 15
"""As many as glibc makes for two cores, less the first one: for threads that begin later."""


def begin_in_first_heap(begin: Callable[[], object]) -> bool:
    """The thread that ``begin`` starts gets the arena of this process' first thread; before others have begun.

    glibc 2.36 (``arena_get2``, ``reused_arena``) gives a new thread an arena that no thread has. Else it makes one, up
    to a limit that it reads once, and then shares those that there are, from the first on. So other threads take arenas
    meanwhile, and leave them to later threads.

    False: the C library has no such setting, and no arenas either, as musl's.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        begin()
        return False
    all_begun, begun = threading.Barrier(_ARENAS + 1), threading.Event()

    def take_arena() -> None:
        all_begun.wait()
        begun.wait()

    takers = [threading.Thread(target=take_arena, daemon=True) for _ in range(_ARENAS)]
    for each in takers:
        each.start()
    all_begun.wait()
    is_set = mallopt(_M_ARENA_MAX, 1) == 1
    begin()
    begun.set()
    for each in takers:
        each.join()
    return is_set
