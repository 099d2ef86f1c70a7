"""Small questions to a syntax tree that several rules ask."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def walk(tree: ast.AST) -> list[ast.AST]:
    """Its nodes in the order of ``ast.walk``, in a third of the time; without ``Load``, ``Store`` and ``Del``."""
    found = [tree]
    for node in found:
        for value in vars(node).values():
            if isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                found.append(value)
    return found


def aliases(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The meaning of each imported name: `import numpy as np` gives ``np: numpy``. Relative imports are left out."""
    return {name: full for _, name, full in _imports(nodes)}


def imported_modules(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and full name of each thing imported; whether `a.b` is a module or a name in `a` is not known."""
    for line, _, full in _imports(nodes):
        yield line, full


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.split(".")[0]
                yield node.lineno, alias.asname or first, alias.name if alias.asname else first
                if not alias.asname and first != alias.name:
                    yield node.lineno, alias.name, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                yield node.lineno, alias.asname or alias.name, f"{node.module}.{alias.name}"


def qualified(node: ast.expr, known: dict[str, str]) -> str:
    """The full dotted name of `a.b.c`, imports resolved; an unnamed beginning (a call, an index) counts as ``?``."""
    if isinstance(node, ast.Attribute):
        return f"{qualified(node.value, known)}.{node.attr}"
    return known.get(node.id, node.id) if isinstance(node, ast.Name) else "?"


def functions(tree: ast.AST) -> Iterator[FunctionNode]:
    """Every function and method, nested ones too."""
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def called_name(node: ast.AST) -> str | None:
    """The bare name that a call calls, or the method's name; None for anything else."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else None
