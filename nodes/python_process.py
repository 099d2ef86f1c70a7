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
    """Processes that are started within do not hear a Ctrl-C at the terminal: their parent ends them.

    They inherit what is blocked here meanwhile. A Ctrl-C within is raised afterwards: another thread may take
    the signal, and an interrupt between a child's start and its arguments would end that child with a traceback.
    """
    came: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # only there Python runs handlers
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number)) if is_main else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if is_main:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)
