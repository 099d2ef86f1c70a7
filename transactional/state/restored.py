"""The state that a partition begins with, made from snapshots: by a thread beside the node's loop, if need be.

A rule for this file: nothing here belongs to a node yet, so nothing of a node is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from transactional.epochs.layout_messages import Item
from transactional.requests.replies import ReplyBook
from transactional.state.snapshot_chain import Continuity
from transactional.state.snapshots import SLICE_ROWS, LedgerState, PartitionState
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store


@dataclass(frozen=True, slots=True)
class RestoredState:
    """A state partition at the end of an epoch. It belongs to the one partition that begins with it.

    ``calls_offset``, ``commits_offset``: records before these were needed for what is in it. ``written``: as in
    ``PartitionState``.
    """

    partition: int
    ledger: LedgerState
    calls_offset: int
    commits_offset: int
    committed: int
    store: Store | SpillingStore
    replies: ReplyBook
    written: Sequence[tuple[Item, int]] = ()


def empty_state(
    partition: int, ledger: LedgerState, id_window: int, new_store: Callable[[], Store | SpillingStore] = Store
) -> RestoredState:
    """Of a state partition that takes no part in epoch ``ledger.done``: as it is at the end of that epoch."""
    return RestoredState(partition, ledger, 0, 0, 0, new_store(), ReplyBook(id_window))


def restored_state(
    newest: PartitionState,
    rests_on: Iterable[PartitionState] = (),
    *,
    id_window: int,
    new_store: Callable[[], Store | SpillingStore] = Store,
) -> RestoredState:
    """``rests_on``: the snapshots before ``newest``, from the oldest on, the first of which holds all.

    Raises ``BrokenChain`` where they do not continue each other, and what reading them raises.
    """
    store, replies, continuity = new_store(), ReplyBook(id_window), Continuity()
    for each in chain(rests_on, (newest,)):
        continuity.follow(each)
        rows = iter(each.items)
        while taken := {(operator, key): value for operator, key, value in islice(rows, SLICE_ROWS)}:
            store.apply(taken)
            store.changed = {}
        replies.follow(each)
    return RestoredState(
        newest.partition, newest.ledger, newest.calls_offset, newest.commits_offset, newest.committed, store,
        replies, newest.written,
    )  # fmt: skip
