"""Child processes of this interpreter: the command and the environment of a Python module that runs beside this one.

The current folder is not on the child's path (``-P``): a user's ``nodes.py`` cannot shadow an installed package. A
child that needs the user's modules adds the folder itself, behind what is installed (``runtime/user_modules.py``).
"""

from __future__ import annotations

import os
import signal
import site
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)
"""The folder that Holon's packages are imported from."""


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs ``module`` as ``python -m`` does, without the current folder on its path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def child_environment(*changes: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with ``changes``; the child imports Holon from the folder that this process uses."""
    environment = dict(os.environ)
    for change in changes:
        environment.update(change)
    if ROOT not in site.getsitepackages():  # a checkout: its folder need not be on the path of another interpreter
        paths = [ROOT, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    return environment


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that are started within do not receive a Ctrl-C at the terminal: their parent ends them.

    They inherit what is blocked here meanwhile. A Ctrl-C within is raised afterwards: another thread may take
    the signal, and an interrupt between a child's start and its arguments would end that child with a traceback.
    """
    with deferred_interrupts():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """SIGINT and SIGTERM are handled at the end of the block, if this process handles them.

    For a few lines that start a process and note it: between both an interrupt would leave a child that no one ends.
    """
    if threading.current_thread() is not threading.main_thread():  # only there Python runs handlers
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    for number in handlers:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(came):
            signal.raise_signal(number)
