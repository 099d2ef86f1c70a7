"""Where a run shows what happens: the live view on a terminal, or a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from nodes.fleet.live_view import one_line, render
from nodes.fleet.progress import JobProgress
from nodes.runtime.logging_setup import line_as_json

REFRESH_S = 0.25
LINE_S = 5.0
OTHER_ROWS = 12
"""Rows of the terminal that are not partitions: header, nodes, and some lines of messages."""


class Screen(Protocol):
    """Use as a context manager. ``due`` returns whether ``show`` would show anything now."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def due(self) -> bool: ...
    def show(self, progress: JobProgress) -> None: ...
    def print_line(self, line: str) -> None: ...
    def print_node_line(self, node: int, line: str) -> None: ...


class LiveScreen:
    """Redraws the view in place; lines go above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._shown_s = float("-inf")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def due(self) -> bool:
        return time.monotonic() - self._shown_s >= REFRESH_S

    def show(self, progress: JobProgress) -> None:
        self._shown_s = time.monotonic()
        rows = max(4, self._console.size.height - OTHER_ROWS - len(progress.nodes))
        self._live.update(render(progress, rows), refresh=True)

    def print_line(self, line: str) -> None:
        self._console.print(Text(line))

    def print_node_line(self, node: int, line: str) -> None:
        self.print_line(f"node {node} | {line}")


class LineScreen:
    """One line every few seconds, and all messages."""

    def __init__(self, write: Callable[[str], None], interval_s: float = LINE_S) -> None:
        self._write = write
        self._interval_s = interval_s
        self._shown_s = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def due(self) -> bool:
        return time.monotonic() - self._shown_s >= self._interval_s

    def show(self, progress: JobProgress) -> None:
        self._shown_s = time.monotonic()
        self._write(one_line(progress))

    def print_line(self, line: str) -> None:
        self._write(line)

    def print_node_line(self, node: int, line: str) -> None:
        self._write(f"node {node} | {line}")


class JsonScreen(LineScreen):
    """For ``logging.format = json``: each line is one object; those that nodes log are that already.

    Args: ``write`` makes an object of a line, ``write_object`` takes one.
    """

    def __init__(self, write: Callable[[str], None], write_object: Callable[[str], None]) -> None:
        super().__init__(write)
        self._write_object = write_object

    def print_node_line(self, node: int, line: str) -> None:
        if line:
            self._write_object(line if _is_object(line) else line_as_json(line, node=node) or line)


def _is_object(line: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except msgspec.DecodeError:
        return False
