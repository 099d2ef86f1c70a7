"""The user's code that the results of a job or program follow from: every definition that is reached, by name.

The walk begins at the functions that the runtime calls. It reaches functions that they call, globals and constants that
they name, closures, defaults and decorators. It reaches classes with their bases and members, types with their fields,
and imported modules. Libraries count by name and version. Nothing here depends on hash seeds, addresses, paths or line
numbers.
"""

from __future__ import annotations

import hashlib
import inspect
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from holon.fingerprint import bytecode
from holon.fingerprint.module_owners import (
    Room,
    full_name,
    loaded,
    own_packages,
    plain_name,
    room_at,
    room_of,
    top_of,
    version_of,
    versioned_name,
)
from holon.fingerprint.values import ValueText

_DYNAMIC = frozenset(["eval", "exec", "__import__", "import_module"])
_BY_NAME = frozenset(["getattr", "vars", "globals"])
_GENERATED = "<"
"""File names of code that was made from text begin so; what made it is seen elsewhere."""


class CodePrint(msgspec.Struct, frozen=True):
    """``parts``: definition -> digest. ``unknown``: what they reach that cannot be known, for people."""

    parts: dict[str, str]
    unknown: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """One for all."""
        text = "\n".join(f"{name} {part}" for name, part in sorted(self.parts.items()))
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def changed(self, before: Mapping[str, str]) -> list[str]:
        """Definitions that are other, new or gone, by name."""
        names = sorted(before.keys() | self.parts.keys())
        return [name for name in names if before.get(name) != self.parts.get(name)]


def code_print(roots: Mapping[str, Any], functions: Iterable[Any]) -> CodePrint:
    """All that ``roots`` reach; the packages that ``functions`` are from are the user's, even where installed."""
    return _Walk(own_packages(_modules(functions))).all_of(roots)


def _modules(functions: Iterable[Any]) -> Iterator[str]:
    for function in functions:
        function = inspect.unwrap(function) if callable(function) else function
        inner = getattr(function, "__func__", getattr(function, "func", function))
        given = getattr(inner, "__module__", None) or type(inner).__module__
        yield given if isinstance(given, str) else ""


class _Walk:
    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._values = ValueText(self)
        self._labels: dict[int, list[tuple[Any, str]]] = {}
        self._counts: dict[str, int] = {}
        self._waiting: deque[tuple[str, Any]] = deque()
        self._texts: dict[str, list[str]] = {}
        self._unknown: dict[str, None] = {}
        self._place = ""
        self._quiet = 0

    def all_of(self, roots: Mapping[str, Any]) -> CodePrint:
        self._part("(bytecode)", bytecode.FORMAT)
        for self._place, root in roots.items():
            self._part(f"({self._place})", self.token(root))
        while self._waiting:
            self._place, found = self._waiting.popleft()
            self._part(self._place, self._definition(found))
        return CodePrint({name: _digest(texts) for name, texts in self._texts.items()}, tuple(self._unknown))

    # --- what the texts of values are made with -----------------------------------------------------------------------

    def token(self, value: Any) -> str:
        """Text of a value; definitions that it names are walked later."""
        return self._values.token(value)

    def room(self, kind: type) -> Room:
        """Whose a class is."""
        return room_of(self._module_of(kind), self._own)

    def report_unknown(self, what: str) -> None:
        """Once; within libraries nothing is reported."""
        if not self._quiet:
            self._unknown[f"{self._place}: {what}"] = None

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """The user cannot mend the values that a library keeps."""
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1

    def label(self, name: str, found: Any) -> str:
        """The name of a definition or object, with a number where another one has it; it is walked later."""
        same = self._labels.setdefault(object.__hash__(found), [])
        known = next((label for each, label in same if each is found), None)
        if known is None:
            count = self._counts[name] = self._counts.get(name, 0) + 1
            known = name if count == 1 else f"{name}#{count}"
            same.append((found, known))
            self._waiting.append((known, found))
        return known

    def library(self, module: str) -> None:
        """A library is reached: its version counts."""
        top = top_of(module)
        if top not in self._texts:
            self._part(top, f"library {version_of(top)}")

    # --- definitions --------------------------------------------------------------------------------------------------

    def function(self, found: types.FunctionType) -> str:
        """Text of a function: its label, or its name where it is no user's."""
        space = found.__globals__
        module = str(space.get("__name__", ""))
        name = full_name(module, found.__code__.co_qualname)
        room = room_at(module, space.get("__file__"), self._own)
        if room is Room.USER:
            return self.label(name, found)
        if room is Room.LIBRARY:
            self.library(module)
        if found.__closure__ is None and not hasattr(found, "__wrapped__"):
            return name
        return self.label(f"{name}()", found)  # what it was made with may be the user's

    def class_(self, kind: type) -> str:
        """Text of a class: its label, or its name where it is no user's."""
        name = full_name(kind.__module__, kind.__qualname__)
        match self.room(kind):
            case Room.USER:
                return self.label(name, kind)
            case Room.LIBRARY:
                self.library(kind.__module__)
        return name

    def _definition(self, found: Any) -> str:
        if isinstance(found, types.FunctionType):
            return self._function_text(found)
        if isinstance(found, type):
            return "\n".join(self._values.class_lines(found, self._space_of(found)))
        return "\n".join(self._values.object_lines(found))

    def _function_text(self, function: types.FunctionType) -> str:
        module = str(function.__globals__.get("__name__", ""))
        if room_at(module, function.__globals__.get("__file__"), self._own) is not Room.USER:
            with self.quietly():
                return "\n".join(self._made_with(function))
        lines = [bytecode.code_text(function.__code__)]
        lines.append(self.token([list(function.__defaults__ or ()), function.__kwdefaults__ or {}]))
        lines += self._made_with(function)
        lines += [f".{name}={self.token(value)}" for name, value in sorted(vars(function).items()) if name[0] != "_"]
        lines += self._globals(function)
        return "\n".join(lines)

    def _made_with(self, function: types.FunctionType) -> Iterator[str]:
        """The values that the function closes over, and wraps."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            yield f"({name})={self.token(_contents(cell))}"
        if "__wrapped__" in vars(function):
            yield f"wraps {self.token(function.__wrapped__)}"  # type: ignore[attr-defined]

    def _globals(self, function: types.FunctionType) -> Iterator[str]:
        space, names = function.__globals__, _names(function.__code__)
        builtin = names.difference(space) if names & (_DYNAMIC | _BY_NAME) else frozenset[str]()
        for name in sorted(names & _DYNAMIC if builtin else ()):
            self.report_unknown(f"what {name}() makes when it runs")
        for name in sorted(names.intersection(space)):
            if not _is_special(name):
                yield f"{name}={self.named(space[name], names, everything=bool(builtin & _BY_NAME))}"
        if "globals" in builtin and (module := loaded(str(space.get("__name__")))) is not None:
            yield self._module(module, names, everything=True)
        for wanted in bytecode.imports(function.__code__):
            yield self._imported(wanted, space, names)

    def named(self, value: Any, names: frozenset[str], *, everything: bool = False) -> str:
        """Of a module what is used by one of the names, or may be; else the value."""
        if isinstance(value, types.ModuleType):
            return self._module(value, names, everything=everything)
        return self.token(value)

    def _module(
        self, module: types.ModuleType, names: frozenset[str], *, everything: bool = False, above: tuple[Any, ...] = ()
    ) -> str:
        match room_of(module, self._own):
            case Room.LIBRARY:
                self.library(module.__name__)
            case Room.USER if not any(each is module for each in above):
                wanted = vars(module).keys() if everything else names & vars(module).keys()
                lines = [f"module {plain_name(module.__name__)}"]
                for name in sorted(each for each in wanted if not _is_special(each)):
                    value = vars(module)[name]
                    inner = isinstance(value, types.ModuleType)
                    text = self._module(value, names, above=(*above, module)) if inner else self.token(value)
                    lines.append(f"{name}={text}")
                return "\n".join(lines)
        return f"module {plain_name(module.__name__)}"

    def _imported(self, wanted: bytecode.Import, space: dict[str, Any], names: frozenset[str]) -> str:
        """An import that waits until the function runs; a module of the user's is loaded now, to be walked."""
        name = wanted.module
        if wanted.level:
            parts = plain_name(str(space.get("__package__") or "")).split(".")
            parts = parts[: len(parts) - wanted.level + 1]
            name = ".".join([*parts, *([name] if name else [])])
        own = versioned_name(name, str(space.get("__name__")))
        found = loaded(own) or loaded(name)
        if found is None:
            return f"no module {name}"
        for each in wanted.names:
            if not hasattr(found, each):
                loaded(f"{found.__name__}.{each}")
        return self._module(found, names | frozenset(wanted.names))

    def _module_of(self, kind: type) -> types.ModuleType | None:
        return inspect.getmodule(kind)

    def _space_of(self, kind: type) -> dict[str, Any]:
        module = self._module_of(kind)
        return {} if module is None else vars(module)

    def _part(self, label: str, text: str) -> None:
        self._texts.setdefault(label.partition("#")[0], []).append(text)


def _names(code: types.CodeType) -> frozenset[str]:
    return frozenset(name for each in bytecode.nested(code) for name in each.co_names)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _digest(texts: list[str]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
