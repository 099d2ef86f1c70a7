"""Progress of a run on standard error: a bar on a terminal, a line a phase elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nexmark.runs.watch import Progress, Show
from nexmark.runs.plan import RunPlan


@contextmanager
def shown(console: Any, plan: RunPlan) -> Iterator[Show]:
    """Give the function that shows progress."""
    if not console.is_terminal:
        yield _lines(console)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn(f"{plan.query} {{task.description}}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(progress: Progress) -> None:
            bar.update(task, description=progress.phase, completed=progress.done, total=progress.total or None)

        yield show


def _lines(console: Any) -> Show:
    phase = [""]

    def show(progress: Progress) -> None:
        if progress.phase != phase[0]:
            phase[0] = progress.phase
            console.print(f"{progress.phase} ...", highlight=False)

    return show
