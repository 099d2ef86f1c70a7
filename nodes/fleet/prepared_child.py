"""A child process that imports a node's modules before its node is known, while the command imports its own.

Rules for this file. It imports nothing that takes time: the console script begins with it. A child that gets no node
ends by itself, since the end of its input is the end of its parent or of the parent's interest.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Final, Self

from nodes.python_process import child_environment, deferred_interrupts, module_command

MODULE: Final = "nodes.cli.prepared_child"
"""The module that a child runs; it lies above this one, so it is named and not imported."""


class PreparedChild:
    """One process that waits for its argument and environment. Its output is one pipe, and it is a group of its own."""

    def __init__(self) -> None:
        with deferred_interrupts():
            self.process = subprocess.Popen(
                module_command(MODULE),
                env=child_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )

    def begin(self, argument: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
        """Be the node of that argument; None if the process has ended already."""
        assert self.process.stdin is not None
        try:
            with self.process.stdin as given:
                given.write(json.dumps([argument, dict(environment)]).encode() + b"\n")
        except BrokenPipeError:
            return None
        self.process.stdin = None  # as with one that was started without
        return self.process

    def end(self) -> None:
        """There is no node for it; it has done nothing yet."""
        self.process.kill()
        with self.process:
            pass


class PreparedChildren:
    """The children of this process that wait for a node: one, since the command itself needs a core meanwhile."""

    def __init__(self) -> None:
        self._waiting: list[PreparedChild] = []

    def __enter__(self) -> Self:
        """Start one."""
        self._waiting.append(PreparedChild())
        return self

    def __exit__(self, *exc: object) -> None:
        """No more nodes will be started."""
        while self._waiting:
            self._waiting.pop().end()

    def begin(self, argument: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
        """A child that is the node of that argument from now on; None if none waits."""
        while self._waiting:
            process = self._waiting.pop().begin(argument, environment)
            if process is not None:
                return process
        return None


PREPARED: Final = PreparedChildren()
