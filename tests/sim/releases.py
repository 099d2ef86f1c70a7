"""The modules of two releases in one process: those of now, and those of a commit in the history of the checkout.

The earlier release's modules are others of the same names: ``Releases`` says which ones are imported at a moment. The
log, the store and their errors are common to both. So modules have to be where they are now.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import ModuleType

import nodes.log.checks
import nodes.log.memory  # noqa: F401

PACKAGES = ("holon", "nodes", "transactional", "wcrdt")
COMMON = ("nodes.log", "nodes.errors", "nodes.sim.store")
COMMON += tuple(f"nodes.checkpoints.{name}" for name in ("errors", "file_names", "format", "store"))
"""Both releases use the same ones."""
_FORMATS = ("nodes/machine/envelope.py", "nodes/machine/messages.py")
"""One of them has, or had, the number of the wire format."""
Modules = dict[str, ModuleType]


class Releases:
    """The modules of this release, and those of the earlier one below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._modules: dict[bool, Modules] = {False: _imported()}
        self._earlier = False

    def earlier(self, name: str) -> ModuleType:
        """The earlier release's module of that name. Raises ``ImportError`` where it has none."""
        with self.using(earlier=True):
            sys.path.insert(0, str(self.folder))
            try:
                module = import_module(name)
            finally:
                sys.path.remove(str(self.folder))
        assert name.startswith(COMMON) or str(module.__file__).startswith(str(self.folder)), module
        return module

    @contextmanager
    def using(self, *, earlier: bool) -> Iterator[None]:
        """Imports meanwhile are those of one release: also those that a function makes when it is called."""
        before = self._earlier
        self._use(earlier)
        try:
            yield
        finally:
            self._use(before)

    def _use(self, earlier: bool) -> None:
        if earlier == self._earlier:
            return
        self._modules[self._earlier] = _imported()
        for name in self._modules[self._earlier]:
            if not name.startswith(COMMON):
                del sys.modules[name]
        sys.modules.update(self._modules.get(earlier, {}))
        self._earlier = earlier


def _imported() -> Modules:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in PACKAGES}


@contextmanager
def checked_out(commit: str, *more: str) -> Iterator[Path]:
    """The code of a commit, and these paths of it besides, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(_git("archive", commit, *PACKAGES, *more))) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


def last_before(number: int) -> str:
    """The last commit whose wire format is before this one. Raises ``SystemExit`` where the history lacks it."""
    began = f"FORMAT_VERSION = {number}"
    # The number has moved from one file to the other: its first commit is the one that has not moved it.
    found = _git("log", "--reverse", "--format=%h", "-S", began, "--", *_FORMATS).decode().split()
    if not found:
        raise SystemExit(f"the history of this checkout does not have the commit that began format {number}")
    return f"{found[0]}~1"


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], capture_output=True, check=True).stdout
