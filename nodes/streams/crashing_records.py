"""Tries input that has ended the processes of its owners in a process of its own, and finds the record."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import FrameType

from holon.record_track import RecordTrack
from nodes.apart import Limits, Note, tried_apart
from nodes.machine.accusing import Died
from nodes.settings import Settings

logger = logging.getLogger(__name__)

_STEPS = frozenset(
    step.__code__
    for step in (RecordTrack._feed_records, RecordTrack._drive)  # pyright: ignore[reportPrivateUsage]
)
"""Where the function is called with one record: each has ``self``."""
_RUN = RecordTrack._feed.__code__  # pyright: ignore[reportPrivateUsage]
"""Where a run begins: its records are decoded, and their times asked for."""


class RecordsApart:
    """As ``nodes.machine.accusing.Apart``. ``alive`` is called again and again while it waits for the child."""

    def __init__(self, settings: Settings, alive: Callable[[], None]) -> None:
        self._limits = Limits(2 * settings.node.hang_after_ms, settings.node.function_memory_mb)
        self._alive = alive

    def __call__(self, step: Callable[[], object]) -> Died | None:
        """How the child ends, and at which record as far as is known; None: it does not."""

        def run(note: Note) -> None:
            sys.setprofile(_Noting(note))
            step()

        ended = tried_apart(run, self._limits, self._alive)
        if ended is None:
            return None
        found = Died(int(ended.note) if ended.note else None, ended.how)
        at = "a batch of records" if found.offset is None else f"the record at offset {found.offset}"
        logger.error("tried apart, as owners of the partition have died: the job's function, at %s, %s", at, ended.how)
        return found


class _Noting:
    """A profile function of the interpreter that notes the offset of the record in hand; of a batch there is none."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._offset = -1

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        caller = frame.f_back
        if event != "call":
            return
        if frame.f_code is _RUN:
            self._remark(-1)
        elif caller is not None and caller.f_code in _STEPS:
            self._remark(caller.f_locals["self"].ctx.offset)

    def _remark(self, offset: int) -> None:
        if offset != self._offset:
            self._offset = offset
            self._note.write(b"%d" % offset if offset >= 0 else b"")
