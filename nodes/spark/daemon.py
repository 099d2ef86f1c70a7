"""The process that Spark's Python workers are forked from: as `pyspark.daemon`, with less work for each task.

Spark puts a packed copy of pyspark before the installed one. Before each task a worker reads the directory of that file
anew, once for each package in it; after each task it searches all objects for garbage. Both is most of a small task.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path


def without_packed_copy(path: Sequence[str], spark_home: str | None) -> list[str]:
    """``path`` without the files of ``spark_home`` in it, if it has the pyspark of ``spark_home`` besides."""
    if spark_home is None:
        return list(path)
    home = Path(spark_home).resolve()
    rest = [entry for entry in path if not Path(entry).resolve().is_relative_to(home)]
    found = PathFinder.find_spec("pyspark", rest)
    same = found is not None and found.origin is not None and Path(found.origin).resolve().parent == home
    return rest if same else list(path)


def main() -> None:
    """Load what workers need, and fork one for each request, until Spark ends."""
    sys.path[:] = without_packed_copy(sys.path, os.environ.get("SPARK_HOME"))
    sys.path_importer_cache.clear()  # files that nothing is imported from any more
    from pyspark import daemon

    if sys.argv[1:] == ["pyspark.worker"]:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
    gc.freeze()  # modules are no garbage
    daemon.manager()


if __name__ == "__main__":
    main()
