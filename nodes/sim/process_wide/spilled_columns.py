"""Seeds whose keyed state is columns from the first key on, which lie in files, also on a disk that is full at times.

Two rules for this file: it draws from streams of its own; nothing here outlives the run, or happens in a real node.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from holon.dataflow.sessions import open_sessions
from holon.dataflow.sliced import shards
from nodes.sim.case import FIFTEENTH_SEED
from nodes.sim.process_wide.bounds import bounds_of_one
from nodes.streams.mapped_columns import MappedColumns
from wcrdt.column_memory import install_column_memory
from wcrdt.lattices import maps

if TYPE_CHECKING:
    from nodes.sim.options import Options

SHARE = 0.25
"""Of the new seeds."""
BUDGETS = 0, 0, 2_000, 20_000
"""Bytes of all nodes of a fleet in memory; columns beyond them lie in files."""
FULL = 0.0, 0.0, 0.1, 0.5
"""Chances of a column to find no room on the disk."""
LEAST_BYTES = 64
"""Of a column that may lie in a file: simulated states are small."""
FILE_BYTES = 1 << 20
MEMORY = "/dev/shm"
"""A file system in memory, where it is there: a column that goes costs a quarter of one on a disk (15 and 69 µs)."""
BOUNDS = (maps, "LEAST_KEYS"), (maps, "LEAST_KEYS_ON_WIRE"), (shards, "LEAST_KEYS"), (open_sessions, "LEAST_KEYS")
"""Of keys that are columns; the few that a simulated job has are objects elsewhere."""


def with_spilled_columns(options: Options) -> Options:
    """A quarter of the new seeds have columns in files."""
    rng = random.Random(f"options {options.seed} {options.case} spilled columns")
    budget, full = rng.choice(BUDGETS), rng.choice(FULL)
    if options.seed < FIFTEENTH_SEED or rng.random() >= SHARE:
        return options
    return replace(options, columns_in_memory=budget, columns_disk_full=full)


@contextmanager
def spilled_columns(options: Options) -> Iterator[MappedColumns | None]:
    """Columns of this process lie where the seed says, until the run ends (None: in memory, all of them)."""
    if options.columns_in_memory is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="holon-sim-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        columns = FullAtTimes(folder, options)
        with bounds_of_one(BOUNDS):
            install_column_memory(columns, LEAST_BYTES)
            try:
                yield columns
            finally:
                install_column_memory(None)


class FullAtTimes(MappedColumns):
    """Columns in files of a disk that has no room for some of them, as the seed says."""

    def __init__(self, folder: str, options: Options) -> None:
        assert options.columns_in_memory is not None
        super().__init__(folder, options.columns_in_memory, lambda _: None, FILE_BYTES)
        self._full = options.columns_disk_full
        self._rng = random.Random(f"columns {options.seed}")

    def in_file(self, rows: int, size: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """As ``MappedColumns.in_file``."""
        return None if self._rng.random() < self._full else super().in_file(rows, size, dtype)
