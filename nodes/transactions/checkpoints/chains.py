"""Chains of checkpoint files of a state partition: each holds what has changed since the ones that it rests upon.

Two rules for this file. A file is never changed, so merging makes new ones that later checkpoints rest upon. A file is
deleted only when no checkpoint that may be begun with rests upon it. Each file names the epoch since which it holds
changes, so a chain that is not whole is refused when it is read or merged.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointNewer
from nodes.checkpoints.file_names import CheckpointKey, parse_name
from nodes.checkpoints.store import CheckpointStore
from nodes.transactions.topics import FIRST_INCARNATION
from transactional.state.snapshot_chain import BrokenChain, Continuity
from transactional.state.snapshots import (
    NewerSnapshot,
    PartitionState,
    Row,
    merged_replies,
    merged_rows,
    snapshot_bytes,
    snapshot_state,
)
from transactional.state.values import BadValue, decode, encode
from wcrdt.replica.slots import WINDOW_START

CHAIN_VERSION = 1
MERGE_FILES = 16
"""So many files and more are merged, once the oldest of them is no larger than those after it together."""
SEGMENT_BYTES = 8 << 20
"""Of items: a merged file has no more, or a single item, so that no reader needs all of a state at once."""
_ROW_BYTES = 16


class FileReference(msgspec.Struct, array_like=True, frozen=True):
    """One file. ``follows``: its keys come behind those of the file before it, with which it was made."""

    name: str
    size: int
    follows: bool = False


class ChainFile(msgspec.Struct, array_like=True, frozen=True):
    """The contents of a file: ``rests_on``, from the oldest on, and the bytes of a ``PartitionState``."""

    version: int
    rests_on: list[FileReference]
    state: bytes


def save_file(
    store: CheckpointStore,
    job: str,
    unit: int,
    position: tuple[int, int],
    rests_on: Sequence[FileReference],
    state: bytes,
) -> FileReference:
    """Save one file; ``position`` is its epoch, and 0 or the number of a merged file. Raises as ``save`` does."""
    data = encode(ChainFile(CHAIN_VERSION, list(rests_on), state))
    key = CheckpointKey(job, FIRST_INCARNATION, unit, position, WINDOW_START)
    return FileReference(store.save(key, data), len(data))


def load_file(store: CheckpointStore, name: str) -> tuple[list[FileReference], PartitionState]:
    """Raises as ``load`` does; what is none of ours is ``CheckpointDamaged``."""
    with _named(name):
        found = _file(store, name)
        return found.rests_on, snapshot_state(found.state)


def rests_on(store: CheckpointStore, name: str) -> list[FileReference]:
    """The files that a file depends on. Raises as ``load_file``."""
    with _named(name):
        return _file(store, name).rests_on


def _file(store: CheckpointStore, name: str) -> ChainFile:
    found = decode(store.load(name), ChainFile)
    if found.version != CHAIN_VERSION:
        kind = NewerSnapshot if found.version > CHAIN_VERSION else BadValue
        raise kind(f"a chain of format {found.version}: this version reads {CHAIN_VERSION}")
    return found


@contextmanager
def _named(name: str) -> Iterator[None]:
    """An older checkpoint would do in place of a newer release's, and hide that two releases do not go together."""
    try:
        yield
    except NewerSnapshot as error:
        raise CheckpointNewer(f"checkpoint {name} holds {error}: run the newer Holon that has written it") from None
    except BadValue as error:
        raise CheckpointDamaged(f"checkpoint {name} holds {error}") from None


class ChainBroken(CheckpointDamaged):
    """Each file of the chain is intact, and together they are no state: changes are missing."""


def states(
    store: CheckpointStore, parts: Iterable[FileReference], newest: tuple[str, PartitionState] | None = None
) -> Iterator[PartitionState]:
    """Of a chain from its first file on, one after the other; ``newest``: what rests upon them, and is only checked.

    Raises as ``load_file`` where it comes to a bad one, ``ChainBroken`` where it does not continue the ones before it.
    """
    continuity = Continuity()
    for part in parts:
        state = load_file(store, part.name)[1]
        _follow(continuity, part.name, state)
        yield state
    if newest is not None:
        _follow(continuity, *newest)


def chain_of(store: CheckpointStore, name: str) -> tuple[PartitionState, Iterator[PartitionState]]:
    """A checkpoint's own file, and all that it consists of, from the first one on. Raises as ``states``."""
    below, newest = load_file(store, name)
    return newest, itertools.chain(states(store, below, (name, newest)), (newest,))


def _follow(continuity: Continuity, name: str, state: PartitionState) -> None:
    try:
        continuity.follow(state)
    except BrokenChain as error:
        raise ChainBroken(f"checkpoint {name} holds {error}") from None


# --- merging ----------------------------------------------------------------------------------------------------------


def runs_of(chain: Sequence[FileReference]) -> list[list[FileReference]]:
    """Files that were made together are one run."""
    runs: list[list[FileReference]] = []
    for part in chain:
        if part.follows and runs:
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def to_merge(chain: Sequence[FileReference]) -> Sequence[FileReference]:
    """The end of the chain that is worth merging, perhaps nothing.

    A byte is written again about once each time the state doubles (size-tiered, as in a log-structured merge tree).
    """
    runs, best, later = runs_of(chain), None, 0
    for at in range(len(runs) - 1, -1, -1):
        size = sum(part.size for part in runs[at])
        if size <= later and len(runs) - at >= MERGE_FILES:
            best = at
        later += size
    return () if best is None else [part for run in runs[best:] for part in run]


def merge_files(
    store: CheckpointStore, job: str, unit: int, parts: Sequence[FileReference], *, whole: bool, segment_bytes: int
) -> list[FileReference]:
    """Make one run of several; memory is for a file of each run. ``whole``: they rest upon nothing.

    Raises as ``states`` and ``save`` do.
    """
    runs = runs_of(parts)
    seen: list[list[PartitionState]] = [[] for _ in runs]
    rows = merged_rows([_rows(store, run, kept) for run, kept in zip(runs, seen, strict=True)], whole=whole)
    last = load_file(store, parts[-1].name)[1]
    made: list[FileReference] = []

    def save(items: list[Row], of: PartitionState) -> None:
        state = msgspec.structs.replace(of, items=items, since=last.ledger.done if made else seen[0][0].since)
        saved = save_file(store, job, unit, (last.ledger.done, len(made) + 1), (), snapshot_bytes(state))
        made.append(msgspec.structs.replace(saved, follows=bool(made)))

    bare = msgspec.structs.replace(last, replies=[], reply_order=[])
    items: list[Row] = []
    for segment in _segments(rows, segment_bytes):
        if items:
            save(items, bare)
        items = segment
    followed = [state for kept in seen for state in kept]
    _check(parts, followed, whole=whole)
    save(items, merged_replies(followed))
    return made


def _check(parts: Sequence[FileReference], states: Sequence[PartitionState], *, whole: bool) -> None:
    """Raises ``ChainBroken`` where what was merged hides that changes are missing, or may be."""
    continuity = Continuity(whole=whole)
    for part, state in zip(parts, states, strict=True):
        _follow(continuity, part.name, state)
    if continuity.since != states[0].since:
        raise ChainBroken(f"checkpoints up to {parts[-1].name} do not all name the epoch since which they hold changes")


def _rows(store: CheckpointStore, run: Sequence[FileReference], seen: list[PartitionState]) -> Iterator[Row]:
    """Of one run, in order; leaves what else its files hold in ``seen``."""
    for state in (load_file(store, part.name)[1] for part in run):
        seen.append(msgspec.structs.replace(state, items=[]))
        yield from sorted(state.items, key=_place)


def _place(row: Row) -> tuple[str, str]:
    return row[:2]


def _segments(rows: Iterable[Row], segment_bytes: int) -> Iterator[list[Row]]:
    items: list[Row] = []
    size = 0
    for row in rows:
        if size >= segment_bytes:
            yield items
            items, size = [], 0
        items.append(row)
        size += _ROW_BYTES + len(row[1]) + len(row[2] or b"")
    yield items


# --- deleting ---------------------------------------------------------------------------------------------------------


def not_rested_on(
    names: Sequence[str], announced: Collection[str], kept: Collection[str], rested_on: Collection[str]
) -> list[str]:
    """Files that may go: older than all of ``announced``, the checkpoints that may be begun with, and under none.

    ``kept``: beside these, the file that was just saved. It is no bound, since only its maker knows it: another owner,
    which has begun without it, has made older files meanwhile. Every owner begins with an announced checkpoint, and
    all that it makes is newer.
    """
    if not announced:
        return []
    oldest = min(_position(name) for name in announced)
    return [name for name in names if name not in kept and name not in rested_on and _position(name) < oldest]


def _position(name: str) -> tuple[int, int]:
    """Epoch, and number of a merged file. Two owners may have made one of the same epoch: neither is older."""
    return parse_name(name).key.record_position
