"""The parts of records beside their values, as columns: for formats that request them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True, frozen=True)
class RecordParts:
    """Keys, headers and nulls of a run of records, one entry a record.

    ``keys`` None: no record has one. ``headers``: by name, the requested ones; a record without it, or whose
    header has no value, has None; a name that is missing here occurs in no record. ``nulls`` marks records without a
    value, which is empty then; None: all have one.
    """

    keys: Sequence[bytes | None] | None = None
    headers: Mapping[str, Sequence[bytes | None]] = field(default_factory=dict)
    nulls: NDArray[np.bool_] | None = None

    def cut(self, start: int, stop: int) -> RecordParts:
        """Rows ``start`` to ``stop`` (exclusive)."""
        rows = slice(start, stop)
        return RecordParts(
            None if self.keys is None else self.keys[rows],
            {name: column[rows] for name, column in self.headers.items()},
            None if self.nulls is None else self.nulls[rows],
        )

    def take(self, rows: NDArray[np.intp]) -> RecordParts:
        """The rows of an index, in its order."""
        index = rows.tolist()
        return RecordParts(
            None if self.keys is None else [self.keys[row] for row in index],
            {name: [column[row] for row in index] for name, column in self.headers.items()},
            None if self.nulls is None else self.nulls[rows],
        )

    def key(self, row: int) -> bytes | None:
        """The key of a record."""
        return None if self.keys is None else self.keys[row]

    def headers_of(self, row: int) -> dict[str, bytes]:
        """The requested headers of a record, where it has them."""
        found = ((name, column[row]) for name, column in sorted(self.headers.items()))
        return {name: value for name, value in found if value is not None}

    def is_null(self, row: int) -> bool:
        """Whether a record has no value."""
        return self.nulls is not None and bool(self.nulls[row])


def joined_parts(runs: Sequence[tuple[int, RecordParts | None]]) -> RecordParts | None:
    """The parts of runs of so many records each, one after the other; None if none has any."""
    if all(parts is None for _, parts in runs):
        return None
    nothing = RecordParts()
    known = [(count, nothing if parts is None else parts) for count, parts in runs]
    names = sorted({name for _, parts in known for name in parts.headers})
    keys = nulls = None
    if any(parts.keys is not None for _, parts in known):
        keys = _joined([(count, parts.keys) for count, parts in known])
    if any(parts.nulls is not None for _, parts in known):
        nulls = np.concatenate([np.zeros(n, np.bool_) if parts.nulls is None else parts.nulls for n, parts in known])
    return RecordParts(
        keys, {name: _joined([(count, parts.headers.get(name)) for count, parts in known]) for name in names}, nulls
    )


def _joined(columns: Sequence[tuple[int, Sequence[bytes | None] | None]]) -> list[bytes | None]:
    return [value for count, column in columns for value in (column if column is not None else [None] * count)]
