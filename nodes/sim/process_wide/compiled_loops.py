"""Seeds that have the compiled loops, also for the few records that a simulated node reads at once.

Two rules for this file: nothing else may depend on the loops, so a seed has the same trace without them; nothing here
outlives the run, or happens in a real node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holon.columnar import encoding, payloads
from holon.columnar.structs import times
from holon.dataflow.following import formats
from holon.dataflow.outputs import json_rows
from holon.formats import json_columns
from nodes.compiled.loading import loops_if
from nodes.sim.process_wide.bounds import bounds_of_one

if TYPE_CHECKING:
    from nodes.sim.options import Options

BOUNDS = tuple((module, "FEW") for module in (json_columns, encoding, formats, json_rows, times, payloads))
"""Below so many rows Python takes less time than a loop."""


@contextmanager
def compiled_loops(options: Options) -> Iterator[None]:
    """Odd seeds have them, where they were compiled before, as nodes have them; others have none."""
    wanted = options.seed % 2 == 1
    with bounds_of_one(BOUNDS if wanted else ()), loops_if(wanted):
        yield
