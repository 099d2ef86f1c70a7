"""The state of one state partition at the end of an epoch, as values: what checkpoints of it hold.

Each holds what has changed since the one before, which it rests upon; the first holds all. It holds the ledger's state
too, restricted to what comes after that epoch. So a node that begins with it reads the epochs topic from
``epochs_offset``, the calls of the partition from ``calls_offset`` and its commits from ``commits_offset``, and nothing
before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Annotated, Any, TypeAlias

import msgspec

from transactional.epochs.layout_messages import Copied, CopyArrived, Handover, Item
from transactional.epochs.messages import (
    Attempt,
    Crashes,
    Cut,
    ReadSetSnapshot,
    RecordPiece,
    ReplyState,
    Request,
    RoundBarrier,
    TimeoutAcknowledgement,
    TimeoutProposal,
)
from transactional.layout import Layout
from transactional.operators import StateKey
from transactional.program_versions import ProgramSince
from transactional.state.values import BadValue, decode, encode

FORMAT_VERSION = 7
_READ = (6, 7)
"""The formats that this version reads. Before 7, names of long calls did not hold their keys."""
UNSAID = -1
"""In place of the epoch since which a snapshot holds changes: it was made by a version that did not record it."""
SLICE_ROWS = 2000
"""Take less than a millisecond."""

Row: TypeAlias = tuple[str, str, bytes | None]
"""Operator, key, and the entity's state; None: it was deleted."""

Natural = Annotated[int, msgspec.Meta(ge=0)]


class NewerSnapshot(BadValue):
    """A snapshot of a format that a later release has brought."""


class PostponedState(msgspec.Struct, array_like=True, frozen=True):
    """A transaction that was postponed; lists are sorted."""

    tid: int
    time_ms: int
    request: Request
    keys: list[tuple[str, str]]
    prefixes: list[tuple[str, str]]


class CopiesState(msgspec.Struct, array_like=True, frozen=True):
    """Batches that count, in order; of each partition at most one that does not yet; who has what of those."""

    batches: list[Copied] = []
    pending: list[Copied] = []
    arrived: list[CopyArrived] = []


class LedgerState(msgspec.Struct, array_like=True, frozen=True):
    """The fold over the epochs topic before ``epochs_offset``, without the epochs up to ``done``.

    ``closed``: see ``TimeoutProposals``. ``layouts``: that of epoch ``done`` and later ones, each with the epoch from
    which it holds; none: keys are still where the first layout has them. ``programs``: all versions; none: the first.
    ``planned``: later ones, each with the first epoch of copies to homes in it; ``copies``: those that were made.
    """

    epochs_offset: Natural
    done: Natural
    base: Natural
    carried: list[PostponedState]
    next_cut: list[int]
    cut_to: list[int]
    cuts: list[Cut]
    barriers: list[RoundBarrier]
    read_sets: list[ReadSetSnapshot]
    pieces: list[RecordPiece] = []
    hanging: list[TimeoutProposal | TimeoutAcknowledgement] = []
    closed: int = 0
    crashing: list[Attempt | Crashes] = []
    layouts: list[tuple[int, Layout]] = []
    programs: list[ProgramSince] = []
    handovers: list[Handover] = []
    planned: list[tuple[int, Layout]] = []
    copies: CopiesState = CopiesState()


class PartitionState(msgspec.Struct, array_like=True, frozen=True):
    """A state partition at the end of epoch ``ledger.done``; of items and replies what is not in those it rests upon.

    ``reply_order``: sequencer, how many of its replies are remembered in all, offsets and ids of the newest of them.
    ``since``: the epoch of the one that it continues; None: it is whole. See ``state/snapshot_chain.py``.
    ``all_replies``: those of the ones that it rests upon are not remembered any more, unless they are here.
    ``written``: while a layout is planned, what was written of that which moves, and the last epoch in which.
    """

    version: int
    partition: int
    calls_offset: Natural
    commits_offset: Natural
    committed: int
    ledger: LedgerState
    items: list[Row]
    replies: list[ReplyState]
    reply_order: list[tuple[int, int, list[tuple[int, str]]]]
    since: int | None = UNSAID
    all_replies: bool = False
    written: list[tuple[Item, int]] = []


class _RawItems(msgspec.Struct, array_like=True, frozen=True):
    """A ``PartitionState`` whose fields and items are bytes."""

    version: msgspec.Raw
    partition: msgspec.Raw
    calls_offset: msgspec.Raw
    commits_offset: msgspec.Raw
    committed: msgspec.Raw
    ledger: msgspec.Raw
    items: list[msgspec.Raw]
    replies: msgspec.Raw
    reply_order: msgspec.Raw
    since: msgspec.Raw = msgspec.Raw()
    all_replies: msgspec.Raw = msgspec.Raw()
    written: msgspec.Raw = msgspec.Raw()


class _StateHead(msgspec.Struct, array_like=True, frozen=True):
    """The beginning of a ``PartitionState``: what follows is passed over, and not made."""

    version: Any = None


class StateSnapshot:
    """A state whose items are in ``rows``, and that is encoded later: nothing of it changes any more."""

    def __init__(self, state: PartitionState, rows: Mapping[StateKey, bytes | None]) -> None:
        self._state = state
        self._rows = rows

    @property
    def since(self) -> int | None:
        """The epoch of the snapshot that it continues; None: it is whole."""
        return self._state.since

    def encoded(self) -> bytes:
        """As ``snapshot_bytes``, a slice at a time: in another thread it delays the node's loop only briefly."""
        parts = [_array(len(msgspec.structs.fields(PartitionState)))]
        for name in PartitionState.__struct_fields__:
            parts += self._items() if name == "items" else (encode(getattr(self._state, name)),)
        return b"".join(parts)

    def _items(self) -> Iterator[bytes]:
        yield _array(len(self._rows))
        rows = iter(self._rows.items())
        while taken := [(operator, key, value) for (operator, key), value in islice(rows, SLICE_ROWS)]:
            yield encode(taken)[len(_array(len(taken))) :]


def _array(count: int) -> bytes:
    """The head of an array in MessagePack."""
    if count < 16:
        return bytes([0x90 | count])
    return b"\xdc" + count.to_bytes(2) if count < 1 << 16 else b"\xdd" + count.to_bytes(4)


def snapshot_bytes(state: PartitionState) -> bytes:
    """Equal states give equal bytes."""
    return encode(state)


def snapshot_state(data: bytes) -> PartitionState:
    """Raises ``BadValue``, ``NewerSnapshot`` for one of a newer format."""
    version = decode(data, _StateHead).version
    if version not in _READ:
        kind = NewerSnapshot if isinstance(version, int) and version > FORMAT_VERSION else BadValue
        raise kind(f"a snapshot of format {version!r}: this version reads {_READ[0]} to {_READ[-1]}")
    raw = decode(data, _RawItems)
    fields = [b"\x90" if name == "items" else bytes(getattr(raw, name)) for name in _RawItems.__struct_fields__]
    there = [field for field in fields if field]  # a snapshot of an earlier version does not have the last ones
    return msgspec.structs.replace(
        decode(_array(len(there)) + b"".join(there), PartitionState), items=_decoded(raw.items)
    )


def _decoded(raw: Sequence[msgspec.Raw]) -> list[Row]:
    """A slice at a time: so another thread, which waits for Python's lock, waits briefly."""
    rows: list[Row] = []
    for start in range(0, len(raw), SLICE_ROWS):
        taken = raw[start : start + SLICE_ROWS]
        rows += decode(_array(len(taken)) + b"".join(taken), list[Row])
    return rows


class Remembered:
    """Replies by (sequencer, id), and in which order they will be forgotten."""

    def __init__(self) -> None:
        self.given: dict[tuple[int, str], ReplyState] = {}
        self.order: dict[int, deque[tuple[int, str]]] = {}

    def follow(self, state: PartitionState) -> None:
        """Go on from what ``state`` rests upon to ``state``."""
        if state.all_replies:
            self.given.clear()
            self.order.clear()
        self.given.update(((each.sequencer, each.id), each) for each in state.replies)
        for sequencer, count, newest in state.reply_order:
            order = self.order.setdefault(sequencer, deque())
            order.extend(newest)
            while len(order) > count:
                self.forget_first(sequencer)

    def forget_first(self, sequencer: int) -> None:
        """The oldest of a sequencer; its reply too, unless that was requested again since."""
        offset, name = self.order[sequencer].popleft()
        given = self.given.get((sequencer, name))
        if given is not None and given.offset <= offset:
            del self.given[sequencer, name]


def merged_replies(states: Sequence[PartitionState]) -> PartitionState:
    """The last of these, which continue each other, with the replies of all of them and no items."""
    memory = Remembered()
    for state in states:
        memory.follow(state)
    last = states[-1]
    counts = {sequencer: count for sequencer, count, _ in last.reply_order}
    order = [(sequencer, counts[sequencer], list(memory.order[sequencer])) for sequencer in sorted(counts)]
    names = dict.fromkeys((sequencer, name) for sequencer, _, newest in order for _, name in newest)
    replies = [memory.given[each] for each in names if each in memory.given]
    has_all = any(state.all_replies for state in states)
    return msgspec.structs.replace(
        last, items=[], replies=replies, reply_order=order, since=states[0].since, all_replies=has_all
    )


def merged_rows(runs: Sequence[Iterable[Row]], *, whole: bool) -> Iterator[Row]:
    """The newest row of each key, in order of the keys; ``runs`` from the oldest to the newest, each in order.

    ``whole``: they rest upon nothing, so what was deleted is left out.
    """
    numbered = [_numbered(run, -age) for age, run in enumerate(runs)]
    last: tuple[str, str] | None = None
    for operator, key, _, value in merge(*numbered, key=_place):
        if (operator, key) != last:
            last = operator, key
            if value is not None or not whole:
                yield operator, key, value


def _numbered(run: Iterable[Row], number: int) -> Iterator[tuple[str, str, int, bytes | None]]:
    for operator, key, value in run:
        yield operator, key, number, value


def _place(row: tuple[str, str, int, bytes | None]) -> tuple[str, str, int]:
    return row[:3]
