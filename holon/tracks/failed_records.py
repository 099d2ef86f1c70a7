"""Records at which the user's code fails, among those of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from holon.errors import FailedStep, described
from holon.formats.input_run import Input

WHAT = "the processing function"


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
            return f"{WHAT} {self.error}"
        if isinstance(self.error, FailedStep):
            return str(self.error)
        return f"{WHAT} raised {described(self.error)}"


def blamed(error: BaseException) -> tuple[str, BaseException]:
    """The part of the job's code that failed, by name, and the exception that it raised."""
    return (error.what, error.cause) if isinstance(error, FailedStep) else (WHAT, error)


def blamed_rows(run: Input, error: BaseException) -> tuple[int, int]:
    """The first and the last row of a run that has failed as a batch: one where it is known."""
    if not isinstance(error, FailedStep):
        return 0, len(run) - 1
    row = int(np.searchsorted(run.offsets, error.offset))
    return row, row


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
