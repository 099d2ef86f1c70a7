"""The control topic of a transactional job, folded, and trimmed behind checkpoints of what it folds to.

Two rules for this file. Nothing is deleted before three intact checkpoints that make up for it were read back.
All commands and autoscalers know the nodes at work from here: a node is if it is a member by the control topic, is not
leaving, and its heartbeats count. Those of a deaf node, which reads nothing, count for no node.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence

from nodes.log.contract import Log, TopicPartition
from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint, encode_control_checkpoint
from nodes.machine.ownership.ownership import Ownership
from nodes.runtime.control_topic import ControlHistory
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics, control_topic

KEPT = 3
RECORDS_A_UNIT = 4
"""So far the topic goes on until its next checkpoint, at least: a checkpoint is as large as three of these."""


def control_history(log: Log, topics: TransactionTopics, units: int) -> ControlHistory:
    """For an observer, not read yet."""
    return ControlHistory(log, control_topic(topics), Ownership(units, owners_save=True), FIRST_INCARNATION)


def trim_control(log: Log, topics: TransactionTopics, checkpoint: ControlCheckpoint) -> None:
    """Write the checkpoint down, then delete what the newest three do not need.

    They are the newest of all that were ever written, so other nodes that trim, or were paused, do not matter. No bound
    ever moves back, and three checkpoints stay that reach as far as the control topic does. For a thread beside the
    node's loop.
    """
    log.append(topics.control_checkpoints, 0, [encode_control_checkpoint(checkpoint)])
    found = control_topic(topics).intact_checkpoints(log, waits=False)
    kept = sorted(found, key=lambda each: (each[1].offset, each[0]))[-KEPT:]
    if len(kept) < KEPT:
        return
    log.delete_before(topics.control, 0, min(known.offset for _, known in kept))
    log.delete_before(topics.control_checkpoints, 0, min(at for at, _ in kept))


def counted_heartbeats(values: Sequence[bytes]) -> Iterator[m.Heartbeat]:
    """Those that count; anything else on the topic is passed over."""
    for value in values:
        try:
            message = m.decode_control(value)
        except m.BadMessage:
            continue
        if isinstance(message, m.Heartbeat) and message.incarnation != m.UNCOUNTED_INCARNATION:
            yield message


def at_work(heard: Collection[str], ownership: Ownership) -> list[str]:
    """Of the nodes whose heartbeats were read, in order."""
    return sorted(node for node in heard if node in ownership.members and not ownership.is_stopping(node))


def nodes_at_work(
    log: Log,
    topics: TransactionTopics,
    read: Callable[[], Ownership],
    seconds: float,
    enough: Callable[[list[str]], bool] = lambda found: False,
    clock_s: Callable[[], float] = lambda: time.monotonic(),
) -> list[str]:
    """Those that send heartbeats from now on, in order; ``read``: the control topic as it is by then.

    Returns once ``enough`` of them were found, else after that time. Raises ``LogError``.
    """
    where = TopicPartition(topics.heartbeats, 0)
    at, heard, deadline = log.end_offset(*where), set[str](), clock_s() + seconds
    while True:
        chunk = log.poll(*where, at)
        at = chunk.next_offset
        heard.update(each.node for each in counted_heartbeats(chunk.values))
        found, left_s = at_work(heard, read()), deadline - clock_s()
        if left_s <= 0 or enough(found):
            return found
        log.wait({where: at}, left_s)
