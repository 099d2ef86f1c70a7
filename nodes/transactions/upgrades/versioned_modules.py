"""The user's modules once more, beside those that this process has: so two versions of a program can work in it.

They have a token behind their top-level name (``shop@0123456789abcdef.orders``), and import each other under it. Other
modules are shared, as are those of the user's that have no source (compiled ones). Source files are read at once, since
compiled ones may be of a moment before.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType
from typing import Any

from holon.fingerprint.module_owners import TOKEN, Room, plain_name, room_at, top_of, versioned_name
from nodes.runtime.user_modules import add_working_directory


def import_version(name: str, token: str) -> ModuleType:
    """Module ``name`` under this token, of 16 hexadecimal digits; whatever it raises is raised here.

    One of Holon's own, or of a library, is the one that this process has. Nothing stays of modules that fail.
    """
    add_working_directory()
    importlib.invalidate_caches()
    _is_users.cache_clear()
    versioned = f"{top_of(name)}@{token}{name[len(top_of(name)) :]}"
    assert TOKEN.search(versioned), f"{token!r} is no token"
    if not _is_users(top_of(name)):
        return importlib.import_module(name)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)  # before that of Python, which goes by the last part of a name
    try:
        return importlib.import_module(versioned)
    except BaseException:
        forget_version(token)
        raise


def forget_version(token: str) -> None:
    """Modules of this token are imported anew the next time."""
    for each in [each for each in sys.modules if f"@{token}" in each]:
        del sys.modules[each]


@functools.cache
def _is_users(top: str) -> bool:
    spec = _plain_spec(top, None)
    if spec is None or not (_has_source(spec) or spec.submodule_search_locations is not None):
        return False
    file = spec.origin if spec.has_location else None  # else it is built in, or frozen as ``os`` is, and has no file
    place = file or next((f"{each}/" for each in spec.submodule_search_locations or ()), None)
    return room_at(top, place, frozenset()) is Room.USER


def _has_source(spec: ModuleSpec) -> bool:
    return isinstance(spec.loader, SourceFileLoader)


def _plain_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if finder is not _FINDER and (find := getattr(finder, "find_spec", None)) is not None:
            found = find(name, path)
            if found is not None:
                return found
    return None


class _Finder(MetaPathFinder):
    """Finds modules whose name has a token where those without it are."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        plain = plain_name(fullname)
        if plain == fullname or not (path or _is_users(plain)):
            return None
        found = _plain_spec(plain, path)
        if found is None:
            return None
        folders = found.submodule_search_locations
        if _has_source(found) and found.origin is not None:
            loader = _Source(fullname, found.origin)
            return spec_from_file_location(fullname, found.origin, loader=loader, submodule_search_locations=folders)
        if folders is None:
            return ModuleSpec(fullname, _Shared(plain))
        namespace = ModuleSpec(fullname, None, is_package=True)
        namespace.submodule_search_locations = list(folders)
        return namespace


_FINDER = _Finder()


class _Shared(Loader):
    """Of a module that has no source: it is the one that this process has."""

    def __init__(self, plain: str) -> None:
        self._plain = plain
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made = importlib.import_module(self._plain)
        self._spec = made.__spec__
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import has set the other one


class _Source(SourceFileLoader):
    """Modules whose imports of the user's modules give those of the same token."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__

        def imported(
            wanted: str,
            space: Mapping[str, object] | None = None,
            local: Mapping[str, object] | None = None,
            names: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            if level == 0 and _is_users(top_of(wanted)):
                wanted = versioned_name(wanted, name)
            return builtins.__import__(wanted, space, local, names or (), level)

        vars(module)["__builtins__"] = {**vars(builtins), "__import__": imported}
        super().exec_module(module)
