"""The shape of code: lengths, docstrings, what may be caught, called and printed where."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.names import FunctionNode, imported_modules, qualified
from tests.tidy.source import ROOMS, SHELL, Source, Violation

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 80
USUAL_FUNCTION_LINES = 45

# Bytes that these read can run code: nothing that came from a log, a disk or a network may meet them.
CODE_IN_BYTES = frozenset(["pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"])
CODE_IN_TEXT = frozenset(["eval", "exec", "compile", "builtins.eval", "builtins.exec"])


def short_file(source: Source) -> Iterator[Violation]:
    """No file of code is longer than 400 lines."""
    if source.is_python and len(source.lines) > MAX_FILE_LINES:
        message = f"{len(source.lines)} lines, at most {MAX_FILE_LINES}; one job a file"
        yield Violation(source.path, len(source.lines), "short_file", message)


def short_functions(source: Source) -> Iterator[Violation]:
    """No function is longer than 80 lines, and nine of ten in a file with many are under 45."""
    if not source.is_python:
        return
    named = [node for node in source.nodes if isinstance(node, FunctionNode)]
    lengths = {node: (node.end_lineno or node.lineno) - node.lineno + 1 for node in named}
    for node, length in lengths.items():
        if length > MAX_FUNCTION_LINES:
            message = f"{node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"
            yield Violation(source.path, node.lineno, "short_functions", message)
    long = [node.name for node, length in lengths.items() if length >= USUAL_FUNCTION_LINES]
    if len(long) > max(1, len(lengths) // 10):
        message = (
            f"{len(long)} of {len(lengths)} functions have {USUAL_FUNCTION_LINES} lines or more: {', '.join(long)}"
        )
        yield Violation(source.path, 1, "short_functions", message)


def has_docstrings(source: Source) -> Iterator[Violation]:
    """In the rooms, every module and every public class and function says what it is; a bare record need not."""
    if not source.is_python or not source.within(ROOMS):
        return
    if source.text.strip() and not ast.get_docstring(source.tree):
        yield Violation(source.path, 1, "has_docstrings", "the module has no docstring")
    for node in source.tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node) and not _is_overload(node) and not _is_bare_record(node):
            yield Violation(source.path, node.lineno, "has_docstrings", f"public {node.name} has no docstring")


def _is_overload(node: ast.stmt) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(qualified(decorator, {}).split(".")[-1] == "overload" for decorator in decorators)


def _is_bare_record(node: ast.stmt) -> bool:
    """Whether a class has nothing but annotated fields: its name and theirs say all."""
    return isinstance(node, ast.ClassDef) and all(isinstance(item, ast.AnnAssign | ast.Pass) for item in node.body)


def no_broad_except(source: Source) -> Iterator[Violation]:
    """Only the shell catches every exception; elsewhere a broad clause must raise again at its end."""
    if not source.is_python or source.within(SHELL) or not source.within((*ROOMS, "deploy")):
        return
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not _raises_again(node):
            message = "catches every exception outside of the shell; name what is expected"
            yield Violation(source.path, node.lineno, "no_broad_except", message)


def _is_broad(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(_is_broad(item) for item in caught.elts)
    return caught is None or qualified(caught, {}).split(".")[-1] in ("Exception", "BaseException")


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def no_code_in_data(source: Source) -> Iterator[Violation]:
    """No decoder that can run code, and no code made from text, anywhere."""
    if not source.is_python:
        return
    known = source.aliases
    for line, module in imported_modules(source.nodes):
        if module.split(".")[0] in CODE_IN_BYTES:
            yield Violation(source.path, line, "no_code_in_data", f"imports {module}: its bytes can run code")
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        if (name := qualified(node.func, known)) in CODE_IN_TEXT:
            yield Violation(source.path, node.lineno, "no_code_in_data", f"{name}() runs text as code")
        if any(keyword.arg == "allow_pickle" for keyword in node.keywords):
            yield Violation(source.path, node.lineno, "no_code_in_data", "allow_pickle: its bytes can run code")


def no_print(source: Source) -> Iterator[Violation]:
    """Libraries do not print: the command line does, the rest logs or returns."""
    if not source.is_python or not source.within(ROOMS):
        return
    if "/cli/" in source.path or source.path.endswith("/cli.py"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and qualified(node.func, {}) == "print":
            yield Violation(source.path, node.lineno, "no_print", "print() in library code; log it or return it")
