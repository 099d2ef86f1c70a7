"""Starting and stopping other processes in tests, with lines as the conversation."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLENTY_S = 120.0


class Child:
    """A process that runs a module of the tests."""

    def __init__(self, module: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Its next line; an error if it ends instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"process {self.process.args} ended with {self.process.wait()}")
        return line.rstrip("\n")

    def rest(self) -> list[str]:
        """Its whole lines up to its end."""
        assert self.process.stdout is not None
        text = self.process.stdout.read()
        return text[: text.rfind("\n") + 1].splitlines()

    def send_line(self, line: str) -> None:
        """Write it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def finish(self) -> int:
        """Wait for its end; gives its exit code."""
        return self.process.wait(PLENTY_S)


@contextmanager
def children(module: str, commands: list[tuple[object, ...]]) -> Iterator[list[Child]]:
    """Several processes; what is left of them at the end is killed."""
    started = []
    try:
        for command in commands:
            started.append(Child(module, *command))
        yield started
    finally:
        for child in started:
            child.process.kill()
            child.process.wait()
            for stream in (child.process.stdin, child.process.stdout):
                if stream is not None:
                    stream.close()


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, with a generous limit."""
    deadline = time.monotonic() + PLENTY_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PLENTY_S:.0f} s in vain: {what}")
        time.sleep(0.01)
