"""Rules for tests: they assert something, wait for conditions, and leave private names alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain

from tests.tidy.names import FunctionNode, called_name, qualified, walk
from tests.tidy.source import ROOMS, Source, Violation

OURS = (*ROOMS, "deploy")
SELVES = ("self", "cls", "other")
NAMED_TUPLE = frozenset(["_replace", "_asdict", "_fields", "_make"])
PATCHES = frozenset(["getattr", "setattr", "delattr", "hasattr"])

SLEEPS = frozenset(["time.sleep", "asyncio.sleep"])
FAULTS = "tests/fault_durations.py"
"""The one place that sleeps for a time: where a duration is the fault itself."""

_JUDGES = re.compile(r"_?(?:assert|check|must|expect|raises|warns|fail|until)(?:_|$)")


def no_sleep_in_tests(source: Source) -> Iterator[Violation]:
    """Tests wait for conditions; a duration that is the fault itself goes through the named helper."""
    if not source.is_python or not source.within(("tests",)) or source.path == FAULTS:
        return
    for node in source.nodes:
        if not isinstance(node, ast.Call) or (name := qualified(node.func, source.aliases)) not in SLEEPS:
            continue
        yields = name == "asyncio.sleep" and node.args and ast.unparse(node.args[0]) == "0"
        if not yields and not _in_wait_loop(source, node):
            message = f"sleeps; wait for a condition (a while loop that polls is fine), or see {FAULTS}"
            yield Violation(source.path, node.lineno, "no_sleep_in_tests", message)


def _in_wait_loop(source: Source, call: ast.Call) -> bool:
    loops = (node for node in source.nodes if isinstance(node, ast.While))
    return any(call in chain.from_iterable(walk(item) for item in loop.body) for loop in loops)


def has_assertion(source: Source) -> Iterator[Violation]:
    """Each test asserts something: itself, by a helper of its file that does, or by one whose name says so."""
    if not source.is_python or not _is_test_file(source.path):
        return
    known = {node.name: node for node in source.nodes if isinstance(node, FunctionNode)}
    judging = {name for name, node in known.items() if _judges(node)}
    while more := {name for name in known.keys() - judging if _calls(known[name]) & judging}:
        judging |= more
    for name in sorted(known.keys() - judging):
        if name.startswith("test_"):
            yield Violation(source.path, known[name].lineno, "has_assertion", f"{name} asserts nothing")


def _is_test_file(path: str) -> bool:
    return path.startswith("tests/") and path.rsplit("/", 1)[-1].startswith("test_")


def _judges(function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Assert | ast.Raise)
        or (isinstance(node, ast.Call) and _JUDGES.match(called_name(node) or ""))
        for node in walk(function)
    )


def _calls(function: ast.AST) -> set[str]:
    """Names that the function calls, takes as an argument (a fixture) or hands on."""
    names = {node.id for node in walk(function) if isinstance(node, ast.Name)}
    return names | {node.attr for node in walk(function) if isinstance(node, ast.Attribute)}


def no_private_access(source: Source) -> Iterator[Violation]:
    """Tests touch no private name of what they test: they ask what it shows, or look at what it does."""
    if not source.is_python or not source.within(("tests",)) or source.within(("tests/tidy",)):
        return
    for line, name in sorted(_private_accesses(source)):
        yield Violation(source.path, line, "no_private_access", f"touches {name}, which is private")


def _private_accesses(source: Source) -> Iterator[tuple[int, str]]:
    own = set(_own_names(source))
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in own:
            if not _is_self(node.value) and not _is_foreign(node.value, source.aliases):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Call) and called_name(node) in PATCHES:
            texts = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            names = [text for text in texts if isinstance(text, str) and _is_private(text.rsplit(".", 1)[-1])]
            foreign = bool(node.args) and _is_foreign(node.args[0], source.aliases)
            yield from ((node.lineno, name) for name in names if not foreign and name not in own)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in NAMED_TUPLE


def _is_self(node: ast.expr) -> bool:
    return called_name(node) == "super" or (isinstance(node, ast.Name) and node.id in SELVES)


def _is_foreign(node: ast.expr, known: dict[str, str]) -> bool:
    """Whether this is a module or class of somebody else's package (os._exit)."""
    name = qualified(node, known)
    return isinstance(node, ast.Name) and node.id in known and name.split(".")[0] not in (*OURS, "tests")


def _own_names(source: Source) -> Iterator[str]:
    """Names that classes of the same file define, or bind to ``self``."""
    for owner in (node for node in source.nodes if isinstance(node, ast.ClassDef)):
        for node in walk(owner):
            if isinstance(node, FunctionNode):
                yield node.name
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
                yield node.attr
