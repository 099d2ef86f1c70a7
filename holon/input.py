"""A run of input records as the runtime hands it to a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True, frozen=True)
class Input:
    """A run of records of the input partition as columns (what the log's chunk holds, without the log)."""

    offsets: NDArray[np.int64]
    timestamps_ms: NDArray[np.int64]
    payloads: Sequence[bytes]
    next_offset: int

    def cut(self, start: int, stop: int) -> Input:
        """Rows ``start`` to ``stop`` (exclusive) as a run of their own."""
        end = self.next_offset if stop >= len(self.payloads) else int(self.offsets[stop])
        return Input(self.offsets[start:stop], self.timestamps_ms[start:stop], self.payloads[start:stop], end)

    def __len__(self) -> int:
        return len(self.payloads)
