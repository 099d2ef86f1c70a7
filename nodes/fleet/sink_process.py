"""`holon sink` as a child of `holon run`: it writes the files of the job's outputs, and is started again if it ends."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from nodes.errors import RunFailed
from nodes.python_process import child_environment, deferred_interrupts, module_command
from nodes.settings.settings import Settings

_PAUSE_S = 1.0
_FINAL = (1, 2, 3)
"""Exit codes that another start would only repeat: a row that fits no file, wrong settings, a missing package."""


class SinkProcess:
    """Use as a context manager, at whose end the process is ended. ``report`` gets a line where it has to start again.

    ``settings`` travel in the environment, as those of nodes do.
    """

    def __init__(self, job: str, settings: Settings, report: Callable[[str], None]) -> None:
        self._command = module_command("nodes.cli", "sink", job, "--parent", str(os.getpid()))
        self._environment = child_environment(settings.environment())
        self._report = report
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._ended: tuple[int, str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._supervise, name="holon-sink", daemon=True)

    def __enter__(self) -> Self:
        self._start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over.set()
            if self._process is not None:
                self._process.terminate()
        self._thread.join()

    def finish(self) -> None:
        """Wait until all files are written, once the job has come to its end. Raises ``RunFailed``."""
        self._thread.join()
        if self._ended is not None and self._ended[0] != 0:
            raise RunFailed(f"the job is done, but not all of its files are written: {self._ended[1]}")

    def _start(self) -> None:
        with self._lock, deferred_interrupts():
            if self._over.is_set():
                return
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
            )

    def _supervise(self) -> None:
        while True:
            assert self._process is not None
            _, said = self._process.communicate()
            code, why = self._process.returncode, said.rstrip().rpartition("\n")[2] or "it printed nothing"
            if code == 0 or self._over.is_set():
                self._ended = (0, "")
                return
            if code in _FINAL:
                self._ended = (code, why)
                self._report(f"files are not written any more: {why}")
                return
            self._report(f"holon sink ended with {code}, and is started again: {why}")
            self._over.wait(_PAUSE_S)
            self._start()
