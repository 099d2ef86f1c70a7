"""The rows that no window takes any more, as a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holon.dataflow.aggregations import Aggregation
from holon.dataflow.steps import Entry, Step


@dataclass(eq=False)
class LateRows(Entry):
    """The rows that no window of an aggregation takes any more."""

    of: Aggregation | None = None

    verb = "late"

    @property
    def _input(self) -> Step:
        assert self.of is not None and self.of.above is not None
        return self.of.above

    @property
    def row_type(self) -> Any:
        return self._input.row_type

    @property
    def is_checked(self) -> bool:
        return self._input.is_checked

    @property
    def stage(self) -> int:
        return self._input.stage

    @property
    def is_parted(self) -> bool:
        return self._input.is_parted

    @property
    def after(self) -> int | None:
        return None if self.of is None else self.of.number
