"""Deletes what no node needs of a transactional job's own topics: behind checkpoints, beside the node's loop.

Two rules for this file. Deleted records are needed by none of the checkpoints that may be begun with, all of which were
read back. A topic that cannot be trimmed costs space, and harms nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeAlias

from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.log.contract import Log, LogError, OffsetOutOfRange
from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint
from nodes.machine.durable import KEPT_CHECKPOINTS
from nodes.transactions.checkpoints.checkpointing import TransactionCheckpoints
from nodes.transactions.control_history import RECORDS_A_UNIT, trim_control
from nodes.transactions.topics import TransactionTopics
from transactional.epochs.trimming import Trims
from transactional.node import TransactionNode

TrimRequest: TypeAlias = tuple[str, int, int]
"""Topic, partition, and the first offset that stays."""


class TopicsTrimmed(OffsetOutOfRange):
    """Records that a node needs of the job's own topics were deleted: starting again does not help (exit code 1)."""


class Trimming:
    """Of one node. Each interval it takes a sample, and deletes by earlier ones; ``interval_ms`` 0: never."""

    def __init__(
        self,
        log: Log,
        topics: TransactionTopics,
        checkpoints: TransactionCheckpoints,
        *,
        id_window: int,
        interval_ms: int,
        saver: Saver[int] | None = None,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._log = log
        self._topics = topics
        self._checkpoints = checkpoints
        self._interval_ms = interval_ms
        self._saver: Saver[int] = DirectSaver() if saver is None else saver
        self._report = report
        self._trims = Trims(id_window)
        self._checked_ms: int | None = None
        self._requested: dict[tuple[str, int], int] = {}
        self._control_at = 0
        self._busy = False

    def turn(self, node: TransactionNode, owned: Collection[int], control_at: int, now_ms: int) -> None:
        """``owned``: units of this node, request partitions first; ``control_at``: so far it has folded control."""
        if self._busy and self._saver.finished():
            self._busy = False
        if not self._interval_ms or self._busy:
            return
        if self._checked_ms is not None and 0 <= now_ms - self._checked_ms < self._interval_ms:
            return
        self._checked_ms = now_ms
        requests = [each for each in self._trim_requests(node, owned) if each[2] > self._requested.get(each[:2], 0)]
        self._trims.sample(node, self._checkpoints.replies_ends)
        control = self._control_checkpoint(control_at) if 0 in owned else None
        if requests or control is not None:
            self._requested |= {(topic, number): offset for topic, number, offset in requests}
            self._busy = self._saver.save(partial(self._delete, requests, control)) is None

    def _control_checkpoint(self, control_at: int) -> ControlCheckpoint | None:
        """None while there is little that it would save anybody to read."""
        ownership = self._checkpoints.ownership
        if control_at - self._control_at < RECORDS_A_UNIT * ownership.partitions:
            return None
        self._control_at = control_at
        return ControlCheckpoint(control_at, ownership.snapshot())

    def _trim_requests(self, node: TransactionNode, owned: Collection[int]) -> list[TrimRequest]:
        """The records that may be deleted. Nothing while some checkpoint is known to be damaged."""
        if not self._checkpoints.first_epoch_needed():
            return []
        topics, trims, sequencers = self._topics, self._trims, self._checkpoints.sequencers
        needed = [self._needed(unit) for unit in range(sequencers, self._checkpoints.ownership.partitions)]
        found: list[TrimRequest] = []
        if 0 in owned:
            found.append((topics.epochs, 0, trims.epochs(min(needed))))
        for unit in sorted(owned):
            if unit < sequencers:
                if unit in node.sequencers:
                    found.append((topics.requests, unit, trims.requests(node, unit)))
                continue
            number = unit - sequencers
            calls, commits = trims.calls_and_commits(number, needed[number])
            found.append((topics.calls, number, calls))
            found.append((topics.commits, number, commits))
            found.append((topics.replies, number, trims.replies(node, number, needed[number])))
        return found

    def _needed(self, unit: int) -> int:
        """All checkpoints that a node may begin with are of this epoch or later; 0: there are too few yet."""
        kept = self._checkpoints.ownership.checkpoints(unit)
        return kept[-1].offset if len(kept) == KEPT_CHECKPOINTS else 0

    def _delete(self, requests: Collection[TrimRequest], control: ControlCheckpoint | None) -> int:
        """Beside the node's loop."""
        for topic, number, offset in requests:
            try:
                self._log.delete_before(topic, number, offset)
            except LogError as error:
                self._report(f"topic {topic}, partition {number} is not trimmed now: {error}")
        try:
            if control is not None:
                trim_control(self._log, self._topics, control)
        except (LogError, m.BadMessage) as error:
            self._report(f"topic {self._topics.control} is not trimmed now: {error}")
        return len(requests)


def trimmed_away(job: str, error: OffsetOutOfRange) -> TopicsTrimmed:
    """The error of a node that needs records of the job's own topics that were deleted."""
    return TopicsTrimmed(
        f"job {job!r}: {error}. The job's own topics are trimmed behind its checkpoints "
        f"(node.truncate_internal_topics), and none that reaches back so far is intact. Start the node again: it goes "
        f"on from the newest ones, which running nodes save; if no node runs and this comes again, the job can only "
        f"begin anew, under another name"
    )
