"""Output of commands: results on standard output, everything else on standard error.

Under ``--json`` the process's standard output is led to standard error, also for child processes and for libraries
that print; only ``emit_json`` reaches the real one.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import typer

from nodes.runtime.logging_setup import line_as_json

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(slots=True)
class _JsonOutput:
    descriptor: int
    emitted: bool = False


_json_output: ContextVar[_JsonOutput | None] = ContextVar("json_output", default=None)


@contextmanager
def json_only_stdout() -> Iterator[None]:
    """Within, only ``emit_json`` writes to the standard output."""
    sys.stdout.flush()
    output = _JsonOutput(os.dup(1))
    os.dup2(2, 1)
    token = _json_output.set(output)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _json_output.reset(token)
        os.dup2(output.descriptor, 1)
        os.close(output.descriptor)


def emit_json(value: Any) -> None:
    """Write the command's one line of JSON. Structs, dataclasses, tuples, decimals and bytes (base64) are allowed."""
    import msgspec

    line = msgspec.json.encode(value) + b"\n"
    output = _json_output.get()
    if output is None:
        sys.stdout.write(line.decode())
        sys.stdout.flush()
        return
    assert not output.emitted, "a command emits one line of JSON"
    output.emitted = True
    while line:
        line = line[os.write(output.descriptor, line) :]


def emit_error(exit_code: int, message: str, *, as_json: bool) -> None:
    """One line on standard error; with ``--json`` also ``{"error": ...}``, unless the result is out already."""
    if message.startswith("Usage: "):  # no command was given: the message is the help
        note(message)
    elif exit_code == 130:
        note(f"holon: {message}")
    else:
        note_as_it_is(line_as_json(message, logging.ERROR) or f"holon: error: {message}")
    output = _json_output.get()
    if as_json and output is not None and not output.emitted:
        emit_json({"error": {"exit_code": exit_code, "message": message}})


def note(text: str) -> None:
    """One line for the person at the keyboard, or as JSON where records are (``logging.format``)."""
    note_as_it_is(line_as_json(text) or text)


def note_as_it_is(line: str) -> None:
    """A line that is an object already, where JSON is requested."""
    print(line, file=sys.stderr, flush=True)


def fail(exit_code: int, message: str) -> NoReturn:
    """End the command with this code after one line on standard error."""
    raise Failure(exit_code, message)


class Failure(Exception):
    """A failure with its exit code, reported by the root command."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@cache
def console() -> Console:
    """The rich console on standard error, for progress and tables beside the result."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def byte_stdout() -> Iterator[BinaryIO]:
    """Standard output for lines of bytes. Its reader may stop early (``| head``): then the command ends with 0."""
    sys.stdout.flush()
    stream = sys.stdout.buffer
    try:
        yield stream
        stream.flush()
    except BrokenPipeError:
        # Buffered output must not fail again when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(0) from None


def printable(payload: bytes) -> bytes:
    """The payload as it is in a pipe; on a terminal without control characters, which records could abuse."""
    if not sys.stdout.isatty():
        return payload
    text = payload.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text).encode()


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Aligned columns: numbers to the right, text to the left."""
    cells = [[str(cell) for cell in row] for row in rows]
    numeric = [all(line[i].isdigit() for line in cells) for i in range(len(header))]
    lines = [list(header), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )
