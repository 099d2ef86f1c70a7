"""Pure rooms have no clock, randomness, environment, threads, files or network."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tests.tidy.names import functions, imported_modules, qualified
from tests.tidy.source import PURE, Source, Violation

# By the first part of the module's name.
IMPURE_MODULES = frozenset(
    "asyncio concurrent ctypes fcntl glob http logging mmap multiprocessing os pathlib platform queue random sched "
    "secrets select selectors shutil signal socket ssl subprocess sys tempfile threading time urllib uuid _thread "
    "confluent_kafka lmdb obstore psutil pyspark redis requests structlog".split()
)
ALLOWED_IMPORTS = frozenset([("holon/dataflow/following/loops/locals.py", "ctypes")])
"""It writes names of the one frame that it is given, by Python's own function for debuggers."""
IMPURE_CALLS = frozenset(["open", "input", "print", "breakpoint"])
CLOCKS = frozenset(
    ["datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today"]
)


def no_impure_import(source: Source) -> Iterator[Violation]:
    """A pure room imports nothing that reaches beyond its arguments."""
    if not source.is_python or not source.within(PURE):
        return
    for line, module in imported_modules(source.nodes):
        if (str(source.path), module) in ALLOWED_IMPORTS:
            continue
        if module.split(".")[0] in IMPURE_MODULES or f"{module}.".startswith("numpy.random."):
            message = f"a pure room imports {module}; let the caller pass what is needed"
            yield Violation(source.path, line, "no_impure_import", message)


def no_impure_call(source: Source) -> Iterator[Violation]:
    """A pure room reads no clock, draws no random number, opens no file, and knows no hash seed or address."""
    if not source.is_python or not source.within(PURE):
        return
    known = source.aliases
    hashables = _lines_of_hashable_classes(source.nodes)
    for node in source.nodes:
        why = None
        if isinstance(node, ast.Attribute):
            why = _impure_attribute(qualified(node, known))
        elif isinstance(node, ast.Call):
            why = _impure_call(node, qualified(node.func, known), node.lineno in hashables)
        if why:
            yield Violation(source.path, node.lineno, "no_impure_call", why)


def _impure_attribute(name: str) -> str | None:
    if name == "numpy.random":
        return "numpy.random in a pure room; draw from a seed and a counter that are arguments"
    if name in CLOCKS:
        return f"{name} in a pure room; let the caller pass the time"
    return None


def _impure_call(call: ast.Call, name: str, in_hashable: bool) -> str | None:
    if name in IMPURE_CALLS:
        return f"{name}() in a pure room"
    if name == "id" or (name == "hash" and not in_hashable):
        return f"{name}() differs from process to process"
    if name == "datetime.datetime.fromtimestamp" and len(call.args) + len(call.keywords) == 1:
        return "fromtimestamp() without a time zone reads the machine's"
    return None


def _lines_of_hashable_classes(nodes: Iterable[ast.AST]) -> frozenset[int]:
    """Lines of the classes that define `__hash__`: these may compute it early and keep it."""
    owners = [
        node
        for node in nodes
        if isinstance(node, ast.ClassDef) and any(method.name == "__hash__" for method in functions(node))
    ]
    return frozenset(line for node in owners for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))
