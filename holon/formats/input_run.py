"""A run of input records as the runtime hands it to a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn
from holon.columnar.record_parts import RecordParts


class Input(msgspec.Struct, frozen=True):
    """A run of records of the input partition as columns (what the log's chunk holds, without the log).

    ``headers`` None: no record has one. ``passed``: offset of the last record before rows were left out; -1: none were.
    ``parts``: what the format requests beside values; None: it requests nothing, or no record has any. ``refused``:
    offsets of records that are dead whatever their values are, and why; None: there are none.
    """

    offsets: NDArray[np.int64]
    timestamps_ms: NDArray[np.int64]
    payloads: Sequence[bytes]
    next_offset: int
    headers: Sequence[bytes] | None = None
    passed: int = -1
    parts: RecordParts | None = None
    refused: Mapping[int, str] | None = None

    def cut(self, start: int, stop: int) -> Input:
        """Rows ``start`` to ``stop`` (exclusive) as a run of their own, with what was left out in front of each."""
        whole = stop >= len(self.payloads)
        end = self.next_offset if whole else int(self.offsets[stop])
        stamps, payloads = self.timestamps_ms[start:stop], self.payloads[start:stop]
        headers = None if self.headers is None else self.headers[start:stop]
        passed, parts = self.passed if whole else -1, None if self.parts is None else self.parts.cut(start, stop)
        return Input(self.offsets[start:stop], stamps, payloads, end, headers, passed, parts, self.refused)

    def take(self, kept: NDArray[np.bool_]) -> Input:
        """The rows of a mask; the position passes the others all the same."""
        rows = np.flatnonzero(kept)
        return msgspec.structs.replace(
            self,
            offsets=self.offsets[rows],
            timestamps_ms=self.timestamps_ms[rows],
            payloads=_taken(self.payloads, rows),
            headers=None if self.headers is None else _taken(self.headers, rows),
            passed=self.last,
            parts=None if self.parts is None else self.parts.take(rows),
        )

    @property
    def last(self) -> int:
        """Offset of the last record, left out or not; -1 where there is none."""
        return max(self.passed, int(self.offsets[-1]) if len(self.offsets) else -1)

    def __len__(self) -> int:
        return len(self.payloads)


def _taken(values: Sequence[bytes], rows: NDArray[np.intp]) -> Sequence[bytes]:
    if isinstance(values, BinaryColumn):
        return values.take(rows)
    return [values[row] for row in rows.tolist()]
