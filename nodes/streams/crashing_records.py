"""Tries input that has ended the processes of its owners in a process of its own, and finds the record."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import FrameType

from holon.tracks.job_code import JOB_CODE
from nodes.machine.crashing_records import DiedAtRecord
from nodes.runtime.trial_process import Note, TrialLimits, tried_apart
from nodes.settings.settings import Settings

logger = logging.getLogger(__name__)


class RecordsApart:
    """As ``nodes.machine.crashing_records.Apart``. ``alive`` is called again and again while it waits for the child."""

    def __init__(self, settings: Settings, alive: Callable[[], None]) -> None:
        self._limits = TrialLimits(2 * settings.node.function_timeout_ms, settings.node.function_memory_mb)
        self._alive = alive

    def __call__(self, step: Callable[[], object]) -> DiedAtRecord | None:
        """How the child ends, and at which record as far as is known; None: it does not."""

        def run(note: Note) -> None:
            sys.setprofile(_Noting(note))
            step()

        ended = tried_apart(run, self._limits, self._alive)
        if ended is None:
            return None
        found = DiedAtRecord(int(ended.note) if ended.note else None, ended.how)
        at = "a batch of records" if found.offset is None else f"the record at offset {found.offset}"
        logger.error("tried apart, as owners of the partition have died: the job's function, at %s, %s", at, ended.how)
        return found


class _Noting:
    """A profile function of the interpreter that notes the offset of the record in hand; of a batch there is none."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._offset = -1

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        track = JOB_CODE.track
        if event != "call" or track is None:
            return
        offset = track.record_offset()
        if offset != self._offset:
            self._offset = offset
            self._note.write(b"%d" % offset if offset >= 0 else b"")
