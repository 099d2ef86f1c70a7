"""Records at which the job's function ends its process: how the owners of their partition get past them.

Where two owners in a row were taken over from without a word and without getting on, the next one tries its input apart
first. A record that ends that process is named on the control topic, and is a dead letter on all nodes from then on. Or
the job fails, and names the record. Rules and reasons: ``docs/design/crashing-functions.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from holon.tracks.failed_records import FunctionCrashed
from holon.tracks.record_track import Input
from nodes.machine import messages as m
from nodes.machine.partitions import Partitions
from nodes.machine.runner import Runner

DEATHS = 2


class DiedAtRecord(NamedTuple):
    """A step that was tried apart has ended its process, at the record of this offset (None: it is not known)."""

    offset: int | None
    how: str


Apart = Callable[[Callable[[], object]], DiedAtRecord | None]
"""Tries a step in a process of its own, which writes nothing; None: it can be made."""


class Trials(NamedTuple):
    """How this node tries records apart, None: not at all; ``code_hash``: its code, as the control topic names it."""

    code_hash: str
    apart: Apart | None = None


class Accusing:
    """The part of one node that gets past records which end processes."""

    def __init__(self, work: Partitions, trials: Trials) -> None:
        self._work = work
        self._apart = trials.apart
        self._code_hash = trials.code_hash
        self._accused: dict[int, int] = {}  # by partition: the offset of a record whose verdict is on its way

    def feed(self, runner: Runner, run: Input) -> None:
        """Process a run of records. Raises ``UserFunctionError``."""
        runner.task.records.crashed = self._work.ownership.crashed(runner.partition, self._code_hash)
        if self._apart is None or self._work.ownership.deaths(runner.partition) < DEATHS:
            runner.feed(run)
        else:
            self._feed_apart(self._apart, runner, run)

    def waits(self, runner: Runner) -> bool:
        """Whether the runner's next record is one whose verdict has not come back yet."""
        if not self._accused or self._accused.get(runner.partition) != runner.task.next_offset:
            return False
        ownership, partition = self._work.ownership, runner.partition
        offset, saved = self._accused[partition], ownership.checkpoint(partition)
        if offset in ownership.crashed(partition, self._code_hash) or (saved is not None and saved.offset > offset):
            del self._accused[partition]
            return False
        return True

    def _feed_apart(self, apart: Apart, runner: Runner, run: Input) -> bool:
        """False if it has stopped at a record."""
        if not len(run):
            runner.feed(run)
            return True
        died = apart(partial(runner.task.feed, run))
        if died is None:
            runner.feed(run)
            return not runner.task.waiting
        rows = {int(offset): row for row, offset in enumerate(run.offsets)}
        row = rows.get(-1 if died.offset is None else died.offset, 0 if len(run) == 1 else None)
        if row is None:  # of a batch, or before the function: halve it
            half = len(run) // 2
            parts = run.cut(0, half), run.cut(half, len(run))
            return all(self._feed_apart(apart, runner, part) for part in parts)
        if row:
            runner.feed(run.cut(0, row))
        if not runner.task.waiting:
            self._accuse(runner, int(run.offsets[row]), died.how)
        return False

    def _accuse(self, runner: Runner, offset: int, how: str) -> None:
        work, partition = self._work, runner.partition
        if not runner.task.records.buries:
            error = FunctionCrashed(f"it {how}")
            raise runner.task.records.error_at(offset, f"offset {offset}", error, "")
        self._accused[partition] = offset
        work.control(m.Crashed(work.run.incarnation, work.config.node, partition, offset, self._code_hash, how))
