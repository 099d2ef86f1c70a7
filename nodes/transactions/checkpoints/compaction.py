"""Compaction: merges checkpoint files in a process of its own, so that it pauses no node.

In a thread it would hold the interpreter, and with it the node, for as long as decoding a file takes.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Callable

import msgspec

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointError, CheckpointMissing
from nodes.checkpoints.opening import open_checkpoints
from nodes.checkpoints.store import CheckpointStore
from nodes.python_process import child_environment, module_command
from nodes.settings.settings import Settings, load_settings
from nodes.transactions.checkpoints.chains import SEGMENT_BYTES, FileReference, merge_files

SMALL_BYTES = 1 << 17
"""Takes a thread some 10 ms; starting a process takes half a second of CPU."""
IDLE_S = 60.0
_LOWEST_PRIORITY = 19


class CompactionFailed(Exception):
    """The files could not be merged, and stay as they are. ``damaged``: one of them is bad."""

    def __init__(self, text: str, *, damaged: bool) -> None:
        super().__init__(text)
        self.damaged = damaged


class CompactionRequest(msgspec.Struct, frozen=True):
    """These files of a unit are to become one run. ``whole``: they rest upon nothing."""

    job: str
    unit: int
    parts: list[FileReference]
    whole: bool


class _Answer(msgspec.Struct, frozen=True):
    """``failed``: why nothing was made."""

    made: list[FileReference] = []
    failed: str | None = None
    damaged: bool = False


Compact = Callable[[CompactionRequest], list[FileReference]]
"""Returns the files of the new run; raises ``CompactionFailed``."""


def compact_here(store: CheckpointStore, segment_bytes: int = SEGMENT_BYTES) -> Compact:
    """In the caller's own time."""

    def compact(request: CompactionRequest) -> list[FileReference]:
        try:
            return merge_files(
                store, request.job, request.unit, request.parts, whole=request.whole, segment_bytes=segment_bytes
            )
        except CheckpointError as error:
            damaged = isinstance(error, CheckpointDamaged | CheckpointMissing)
            raise CompactionFailed(str(error), damaged=damaged) from error

    return compact


class CompactingChild:
    """A ``Compact`` in a process of the lowest priority, for which the caller waits; what is small is done here.

    The process begins with the first request and stays while requests come, since starting one costs more than most of
    what it does. It ends when nothing came for ``idle_s``, and with this process. For one thread.
    """

    def __init__(
        self,
        settings: Settings,
        store: CheckpointStore,
        small_bytes: int = SMALL_BYTES,
        idle_s: float = IDLE_S,
    ) -> None:
        self._environment = child_environment(settings.environment())
        self._here = compact_here(store)
        self._small_bytes = small_bytes
        self._idle_s = idle_s
        self._process: subprocess.Popen[bytes] | None = None

    def __call__(self, request: CompactionRequest) -> list[FileReference]:
        """Returns the files of the new run; raises ``CompactionFailed``."""
        if sum(part.size for part in request.parts) <= self._small_bytes:
            return self._here(request)
        stayed = self._process is not None
        answer = self._answered_by_process(request)
        if answer is None and stayed:  # it has ended in the meantime, for want of requests or by another's hand
            answer = self._answered_by_process(request)
        if answer is None:
            raise CompactionFailed("the process that merges has ended; see its output", damaged=False)
        if answer.failed is not None:
            raise CompactionFailed(answer.failed, damaged=answer.damaged)
        return answer.made

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The child, if there is one."""
        return self._process

    def close(self) -> None:
        """End the process and wait for that."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _answered_by_process(self, request: CompactionRequest) -> _Answer | None:
        """None: there is no process any more."""
        if self._process is None:
            command = module_command("nodes.transactions.checkpoints.compaction", str(self._idle_s))
            pipe, environment = subprocess.PIPE, self._environment
            # In a group of its own, since Ctrl-C at the terminal is not for it.
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, process_group=0)
        given, taken = self._process.stdin, self._process.stdout
        assert given is not None and taken is not None
        line = b""
        with contextlib.suppress(BrokenPipeError):
            given.write(msgspec.json.encode(request) + b"\n")
            given.flush()
            line = taken.readline()
        if not line.endswith(b"\n"):
            self._process.kill()
            with contextlib.suppress(BrokenPipeError):
                self.close()
            self._process = None
            return None
        return msgspec.json.decode(line, type=_Answer)


def give_way() -> None:
    """Run only where no other process wants to, as far as the system lets a process request that."""
    os.nice(_LOWEST_PRIORITY)
    if sys.platform == "linux":
        # To a nice one Linux gives little of a processor, but others that wake up still queue at the next one.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> int:
    """Read requests from standard input, a line each, and answer on standard output, until no more comes."""
    give_way()
    idle_s = float(sys.argv[1])
    compact = compact_here(open_checkpoints(load_settings(needs_bootstrap=False)))
    while select.select([sys.stdin.buffer], [], [], idle_s)[0] and (line := sys.stdin.buffer.readline()):
        try:
            answer = _Answer(compact(msgspec.json.decode(line, type=CompactionRequest)))
        except CompactionFailed as error:
            answer = _Answer(failed=str(error), damaged=error.damaged)
        try:
            sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the node was killed meanwhile
            os._exit(0)  # not by the interpreter's end, which would write again what is left
    return 0


if __name__ == "__main__":
    sys.exit(main())
