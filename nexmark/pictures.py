"""The files of a measurement: figures as JSON, a table, and a picture by matplotlib (extra ``plots``)."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_files(
    folder: Path, name: str, found: object, text: str, draw: Callable[[Path], None] | None = None
) -> list[Path]:
    """``NAME.json``, ``NAME.md`` and, with matplotlib, ``NAME.svg`` by ``draw``; what was written."""
    written = [folder / f"{name}.json", folder / f"{name}.md"]
    written[0].write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    written[1].write_text(text, encoding="utf-8")
    if draw is not None and importlib.util.find_spec("matplotlib") is not None:
        written.append(folder / f"{name}.svg")
        draw(written[-1])
    return written


@contextmanager
def picture(path: Path, rows: int, columns: int, size: tuple[float, float]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """A figure and its axes, row by row, saved at the end; ``size`` in inches. No display is needed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    yield figure, list(axes.flat)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "holon"}):  # small, and the same each time
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
