"""Columns for readers out of stored blocks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

import numpy as np

from holon.columnar.payloads import BinaryColumn
from holon.columnar.record_parts import RecordParts
from nodes.log.checks import record_sizes
from nodes.log.contract import FetchedRecords
from nodes.log.embedded.block import Block


def empty_chunk(offset: int) -> FetchedRecords:
    """The result for a reader at the end."""
    nothing = np.empty(0, np.int64)
    return FetchedRecords(nothing, nothing, [], [], None, offset)


def make_chunk(
    blocks: Sequence[Block], offset: int, max_records: int, max_bytes: int, header_names: Collection[str] | None = None
) -> FetchedRecords:
    """The records from ``offset`` on, within the limits but at least one. Blocks follow each other without a gap.

    ``header_names``: the headers to give by name; None: the result has no parts.
    """
    skip = offset - blocks[0].head.first
    counts = [block.head.records for block in blocks]
    stop = min(sum(counts), skip + max(max_records, 1))
    values = _values(blocks)[skip:stop]
    headers = keys = None
    if any(block.headers is not None for block in blocks):
        headers = list(chain.from_iterable(block.headers or [b""] * block.head.records for block in blocks))[skip:stop]
    if any(block.keys is not None for block in blocks):
        nothing: list[bytes | None] = [None]
        keys = list(chain.from_iterable(block.keys or nothing * block.head.records for block in blocks))[skip:stop]
        if all(key is None for key in keys):
            keys = None
    if sum(block.size for block in blocks) > max_bytes:
        ends = np.cumsum(record_sizes(values, headers, keys))
        fit = max(1, int(np.searchsorted(ends, max_bytes, side="right")))
        values, headers, keys = values[:fit], headers and headers[:fit], keys and keys[:fit]
    count = len(values)
    stamps = np.repeat([block.head.timestamp_ms for block in blocks], counts)[skip : skip + count]
    return FetchedRecords(
        offsets=np.arange(offset, offset + count, dtype=np.int64),
        timestamps_ms=stamps.astype(np.int64, copy=False),
        values=values,
        headers=headers or [b""] * count,
        keys=keys,
        next_offset=offset + count,
        bare=headers is None,
        parts=None if header_names is None else _parts(blocks, skip, skip + count, keys, header_names),
    )


def _parts(
    blocks: Sequence[Block], first: int, last: int, keys: list[bytes | None] | None, names: Collection[str]
) -> RecordParts | None:
    """Of the rows from one to below another; ``keys`` are cut already."""
    if all(block.special is None for block in blocks):
        return None if keys is None else RecordParts(keys)
    rows = chain.from_iterable(block.special or [None] * block.head.records for block in blocks)
    found = list(rows)[first:last]
    headers = {name: [None if one is None else one.headers.get(name) for one in found] for name in names}
    return RecordParts(keys, headers, np.array([one is not None and one.value is None for one in found], np.bool_))


def _values(blocks: Sequence[Block]) -> Sequence[bytes]:
    parts = [block.values for block in blocks]
    if all(isinstance(part, BinaryColumn) for part in parts):
        return BinaryColumn.joined([BinaryColumn.of(part) for part in parts])
    return list(chain.from_iterable(parts))
