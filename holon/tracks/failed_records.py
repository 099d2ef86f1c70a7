"""Records at which the user's code fails, among those of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from holon.errors import described
from holon.formats.input_run import Input


class FunctionCrashed(Exception):
    """The function ends its process, by a verdict of the job's nodes; the text explains how."""


class FailedRun(NamedTuple):
    """A run of one record that made the user's code fail."""

    run: Input
    error: BaseException

    @property
    def reason(self) -> str:
        """The text in dead letters."""
        if isinstance(self.error, FunctionCrashed):
            return f"the processing function {self.error}"
        return f"the processing function raised {described(self.error)}"


def parted(run: Input, crashed: Mapping[int, str]) -> list[Input | FailedRun]:
    """The run without the records at these offsets, which lie between its parts; the texts give the reasons."""
    rows = np.flatnonzero(np.isin(run.offsets, list(crashed))).tolist() if crashed else []
    if not rows:
        return [run]
    found: list[Input | FailedRun] = []
    begin = 0
    for row in rows:
        if begin < row:
            found.append(run.cut(begin, row))
        found.append(FailedRun(run.cut(row, row + 1), FunctionCrashed(crashed[int(run.offsets[row])])))
        begin = row + 1
    return [*found, run.cut(begin, len(run))] if begin < len(run) else found
