"""The first lines of a process that imports the engine: what they change costs more afterwards.

A rule for this file: it imports nothing that takes time.
"""

from __future__ import annotations

import gc
import os
from collections.abc import MutableMapping

GC_THRESHOLDS = (20_000, 20, 50)
"""Collect cycles more rarely than Python's 700 objects: a batch makes far more, nearly none of them in cycles."""
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
"""Each of these tells OpenBLAS, which numpy brings, how many threads to have; the first one counts."""


def start_lightly(environ: MutableMapping[str, str] = os.environ) -> None:
    """Imports cost 0.1 s of CPU less then, of a node's 0.6 s; call it before numpy is imported.

    Seven hundred modules make objects, and no garbage. The threads of OpenBLAS spin when numpy is imported. A node has
    one core, so it gets one thread, unless the environment says how many. With another number products of matrices may
    round otherwise: it should be equal on all nodes.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    if not any(name in environ for name in BLAS_THREADS):
        environ[BLAS_THREADS[0]] = "1"
