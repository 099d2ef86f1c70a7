"""An async ``process`` that waits for a window of the replica."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from holon.formats.input_run import Input
from holon.program.handles import SafeRead
from holon.program.scope import Standing
from holon.tracks.admission import Admitted


@dataclass(slots=True, frozen=True)
class WaitingRecord:
    """The record at its safe read, and the rest of its run."""

    coroutine: Coroutine[Any, Any, Any]
    read: SafeRead[Any]
    run: Input
    admitted: Admitted
    row: int
    first_step: int
    standing: Standing
    counts: dict[str, int]
