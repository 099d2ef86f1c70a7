"""Compaction: merges checkpoint files in a process of its own, so that no node stands still for it.

In a thread it would hold the interpreter, and with it the node, for as long as decoding a file takes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import msgspec

from nodes.checkpoint_format import CheckpointDamaged, CheckpointError, CheckpointMissing
from nodes.checkpoints import CheckpointStore
from nodes.checkpoints_opening import open_checkpoints
from nodes.settings import Settings, load_settings
from nodes.transactions.chains import SEGMENT_BYTES, Part, merge_files

SMALL_BYTES = 1 << 17
"""Takes a thread some 10 ms; starting a process takes half a second of CPU."""
_LOWEST_PRIORITY = 19
_FAILED_EXIT, _DAMAGED_EXIT = 1, 5


class CompactionFailed(Exception):
    """The files could not be merged, and stay as they are. ``damaged``: one of them is bad."""

    def __init__(self, text: str, *, damaged: bool) -> None:
        super().__init__(text)
        self.damaged = damaged


class Wish(msgspec.Struct, frozen=True):
    """These files of a unit are to become one run. ``whole``: they rest upon nothing."""

    job: str
    unit: int
    parts: list[Part]
    whole: bool


Compact = Callable[[Wish], list[Part]]
"""Returns the files of the new run; raises ``CompactionFailed``."""


def compact_here(store: CheckpointStore, segment_bytes: int = SEGMENT_BYTES) -> Compact:
    """In the caller's own time."""

    def compact(wish: Wish) -> list[Part]:
        try:
            return merge_files(store, wish.job, wish.unit, wish.parts, whole=wish.whole, segment_bytes=segment_bytes)
        except CheckpointError as error:
            damaged = isinstance(error, CheckpointDamaged | CheckpointMissing)
            raise CompactionFailed(str(error), damaged=damaged) from error

    return compact


def compact_in_child(settings: Settings, store: CheckpointStore, small_bytes: int = SMALL_BYTES) -> Compact:
    """In a process of the lowest priority, for which the caller waits; what is small is not worth starting one."""
    here = compact_here(store)

    def compact(wish: Wish) -> list[Part]:
        if sum(part.size for part in wish.parts) <= small_bytes:
            return here(wish)
        command = [sys.executable, "-m", "nodes.transactions.compaction"]
        environment = os.environ | settings.environment()
        given = msgspec.json.encode(wish)
        done = subprocess.run(command, input=given, env=environment, capture_output=True, check=False)
        if done.returncode != 0:
            why = _last_line(done.stderr) or f"the process ended with {done.returncode}"
            raise CompactionFailed(why, damaged=done.returncode == _DAMAGED_EXIT)
        return msgspec.json.decode(done.stdout, type=list[Part])

    return compact


def _last_line(text: bytes) -> str:
    lines: Sequence[str] = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def give_way() -> None:
    """Run only where nobody else wants to, as far as the system lets a process ask for that."""
    os.nice(_LOWEST_PRIORITY)
    if sys.platform == "linux":
        # To a nice one Linux gives little of a processor, but others that wake up still queue at the next one.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> int:
    """Read a ``Wish`` from standard input, write the new files to standard output."""
    give_way()
    wish = msgspec.json.decode(sys.stdin.buffer.read(), type=Wish)
    try:
        made = compact_here(open_checkpoints(load_settings(needs_bootstrap=False)))(wish)
    except CompactionFailed as error:
        sys.stderr.write(f"{error}\n")
        return _DAMAGED_EXIT if error.damaged else _FAILED_EXIT
    sys.stdout.buffer.write(msgspec.json.encode(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
