"""Whose code a module is: the user's, Holon's, a library's or Python's, by its name and place; no file is read."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterable
from enum import Enum
from types import ModuleType

_HOLON = frozenset(["holon", "wcrdt", "transactional", "nodes"])
_WORKLOADS = "transactional.workloads"
"""Programs that come with Holon, and are written as a user's."""
_PACKAGES = ("/site-packages/", "/dist-packages/")


def _folder(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[0] + "/"


_PYTHON = _folder(inspect.__file__ or "")


TOKEN = re.compile("@[0-9a-f]{16}")
"""Behind the top-level name of a module that is in this process once more, with the code of another version."""


def plain_name(module: str) -> str:
    """Without the token of a version: under this name the module stands in its own source."""
    return TOKEN.sub("", module, count=1) if "@" in module else module


def versioned_name(module: str, like: str) -> str:
    """A module's name as those have it that are of the same version as module ``like``."""
    token = TOKEN.search(like)
    top, dot, rest = module.partition(".")
    return module if token is None else f"{top}{token[0]}{dot}{rest}"


class Room(Enum):
    """Only the user's code is walked; a library's is known by its version, Holon's and Python's by name."""

    USER = "user"
    HOLON = "holon"
    LIBRARY = "library"
    PYTHON = "python"


def room_of(module: ModuleType | None, own: frozenset[str] = frozenset()) -> Room:
    """``own``: top-level packages that are the user's wherever they are installed."""
    return Room.PYTHON if module is None else room_at(module.__name__, file_of(module), own)


@functools.lru_cache(maxsize=4096)
def room_at(name: str, file: str | None, own: frozenset[str]) -> Room:
    """As ``room_of``, by a module's name and file."""
    top, name = top_of(name), plain_name(name)
    if top in _HOLON:
        return Room.USER if name == _WORKLOADS or name.startswith(f"{_WORKLOADS}.") else Room.HOLON
    if top in own or name == "__main__":
        return Room.USER
    if file is None:
        return Room.PYTHON
    path = file.replace("\\", "/")
    if any(each in path for each in _PACKAGES):
        return Room.LIBRARY
    return Room.PYTHON if path.startswith(_PYTHON) else Room.USER


def full_name(module: str, qualname: str) -> str:
    """The name of a definition; one of Holon's has its package alone, so that moving a file is no change of code."""
    top, module = top_of(module), plain_name(module)
    return f"{top if room_at(module, None, frozenset()) is Room.HOLON else module}.{qualname}"


def file_of(module: ModuleType) -> str | None:
    """Where the module is; None for one that is built in."""
    found = getattr(module, "__file__", None)
    if found is None:  # a namespace package has folders only
        found = next((f"{path}/" for path in getattr(module, "__path__", ())), None)
    return found


def top_of(module: str) -> str:
    """The top-level package."""
    return plain_name(module).partition(".")[0]


def own_packages(modules: Iterable[str]) -> frozenset[str]:
    """Top-level packages that the functions of a job or program come from: the user's, even where installed."""
    tops = {top_of(name) for name in modules if name} - _HOLON - {"__main__"}
    return frozenset(top for top in sorted(tops) if room_of(loaded(top)) is not Room.PYTHON)


def version_of(top: str) -> str:
    """A library's version as it gives it itself; empty where it does not."""
    version = getattr(loaded(top), "__version__", "")
    return version if isinstance(version, str) else ""


def loaded(name: str) -> ModuleType | None:
    """The module by its name; None where there is none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
