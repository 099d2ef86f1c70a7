"""Arrow record batches as rows of the flows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holon import Decoded
from nexmark.flows.columns import RowColumns, by_rows
from nexmark.queries.atoms import NexmarkAtoms


class RowAtoms(NexmarkAtoms):
    """As ``RowColumns``, but a record is an atom."""

    def __init__(self, columns: RowColumns) -> None:
        super().__init__(columns)
        self.renamed, self.timed = columns.renamed, columns.timed

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run of payloads."""
        return by_rows(super().decode(payloads), self.renamed, self.timed)
