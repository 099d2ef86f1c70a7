"""The folder of things that can be fetched or made again: jars, compiled loops, peers of benchmarks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's cache; ``XDG_CACHE_HOME`` moves it."""
    base = environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "holon"
