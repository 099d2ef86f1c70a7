"""The trace of a simulated run: what happened, in order, and one digest of all of it."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

TAIL = 200


class Trace:
    """Lines of virtual time and what happened. Equal seeds give equal digests; ``sink`` sees every line."""

    def __init__(self, sink: Callable[[str], None] | None = None) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._sink = sink
        self.tail: deque[str] = deque(maxlen=TAIL)
        self.lines = 0
        self.counts: dict[str, int] = {}

    def add(self, now_ms: int, what: str, detail: str = "") -> None:
        """``what`` is counted, so that a run can show which faults it really had."""
        line = f"{now_ms:>7} {what} {detail}".rstrip()
        self.lines += 1
        self.counts[what] = self.counts.get(what, 0) + 1
        self._digest.update(line.encode() + b"\n")
        self.tail.append(line)
        if self._sink is not None:
            self._sink(line)

    def digest(self) -> str:
        """Of all lines so far."""
        return self._digest.hexdigest()
