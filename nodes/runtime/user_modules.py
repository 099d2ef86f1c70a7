"""The user's own modules: where they are found, and which of them an installed package hides."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

from nodes.errors import UnknownName


class ModuleHidden(Exception):
    """A module of the current folder has the name of an installed package, which is imported instead (exit code 2)."""


def add_working_directory() -> None:
    """Make modules beside the caller importable; installed packages come first."""
    folder = str(Path.cwd())
    if "" not in sys.path and folder not in sys.path:
        sys.path.append(folder)


def import_user_module(name: str) -> ModuleType:
    """Import a module that the user has named, from the current folder or from what is installed.

    Raises ``UnknownName`` where it is not there, and ``ModuleNotFoundError`` where a module that it imports is not
    there. Raises ``ModuleHidden`` where an installed package hides it, or a module of the same folder that it imports.
    """
    add_working_directory()
    _check_hidden(name, Path.cwd())
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name is not None and not isinstance(error, ModuleNotFoundError):
            _check_hidden(error.name, Path.cwd())
        elif error.name is not None and "." in error.name:  # a sub-module that only the user's package has
            _check_hidden(error.name.partition(".")[0], Path.cwd())
        if isinstance(error, ModuleNotFoundError) and error.name is not None and name.startswith(error.name):
            raise UnknownName("module", name, _modules_near(name)) from error
        raise


def _check_hidden(name: str, folder: Path) -> None:
    top = name.partition(".")[0]
    mine = next((path for path in (folder / f"{top}.py", folder / top / "__init__.py") if path.is_file()), None)
    if mine is None:
        return
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None or Path(spec.origin).resolve() == mine.resolve():
        return
    raise ModuleHidden(
        f"{mine.relative_to(folder)} in {folder} has the name of an installed module ({spec.origin}), which is "
        f"imported instead of it: rename your module"
    )


def _modules_near(name: str) -> list[str]:
    """Modules beside the requested one."""
    parent = name.rpartition(".")[0]
    try:
        spec = importlib.util.find_spec(parent) if parent else None
    except ModuleNotFoundError:
        return []
    paths = None if spec is None else spec.submodule_search_locations
    if parent and not paths:
        return []
    prefix = f"{parent}." if parent else ""
    return [prefix + module.name for module in pkgutil.iter_modules(paths)]
