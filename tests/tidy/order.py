"""Pure rooms never take elements from a set in its own order: that order is an accident of hashes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tests.tidy.names import FunctionNode, called_name, functions, walk
from tests.tidy.source import PURE, Source, Violation

# Functions that give the same result for every order, or bring one.
ORDER_BLIND = frozenset(["sorted", "set", "frozenset", "len", "any", "all", "sum", "min", "max", "Counter", "fsum"])
ORDER_BOUND = frozenset(
    [
        "list",
        "tuple",
        "enumerate",
        "iter",
        "next",
        "zip",
        "map",
        "filter",
        "fromkeys",
        "join",
        "extend",
        "array",
        "asarray",
    ]
)
SET_TYPES = frozenset(["set", "frozenset", "Set", "AbstractSet", "MutableSet"])
SET_METHODS = frozenset(["union", "intersection", "difference", "symmetric_difference"])
_SETS = re.compile(rf"\b(?:{'|'.join(sorted(SET_TYPES))}|keys)\b")
"""Without one of these, and without a set in braces, no expression of a file is known to be a set."""
SET_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)


def no_set_order(source: Source) -> Iterator[Violation]:
    """No loop, list or join over a set without sorted(); finds sets that the same file shows to be sets."""
    if not source.is_python or not source.within(PURE):
        return
    if not _SETS.search(source.text) and not any(isinstance(node, ast.Set | ast.SetComp) for node in source.nodes):
        return
    attributes = _names_of_sets(source.tree, source.nodes, attributes=True)
    seen = set()
    for scope in (*functions(source.tree), source.tree):
        nodes = source.nodes if scope is source.tree else walk(scope)
        known = _Known(attributes, _names_of_sets(scope, nodes, attributes=False))
        for node in _order_taken(nodes, known):
            if node not in seen:
                seen.add(node)
                message = "takes elements from a set in no fixed order; use sorted()"
                yield Violation(source.path, node.lineno, "no_set_order", message)


class _Known:
    """The names and attributes that hold sets and nothing else, in one scope."""

    def __init__(self, attributes: frozenset[str], names: frozenset[str]) -> None:
        self.attributes = attributes
        self.names = names

    def is_set(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return node.attr in self.attributes
        if isinstance(node, ast.BinOp) and isinstance(node.op, SET_OPERATORS):
            sides = (node.left, node.right)
            return any(self.is_set(side) or called_name(side) == "keys" for side in sides)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in SET_METHODS and self.is_set(node.func.value)
        return isinstance(node, ast.Set | ast.SetComp) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
        )


def _order_taken(nodes: Iterable[ast.AST], known: _Known) -> Iterator[ast.expr]:
    blind = _inside_order_blind_calls(nodes)
    for node in nodes:
        taken: list[ast.expr] = []
        if isinstance(node, ast.For | ast.AsyncFor):
            taken = [node.iter]
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp) and node not in blind:
            taken = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.Starred | ast.YieldFrom):
            taken = [node.value]
        elif isinstance(node, ast.Call) and called_name(node) in ORDER_BOUND:
            taken = node.args
        elif isinstance(node, ast.Call) and called_name(node) == "pop" and isinstance(node.func, ast.Attribute):
            taken = [] if node.args else [node.func.value]
        yield from (expression for expression in taken if known.is_set(expression))


def _inside_order_blind_calls(nodes: Iterable[ast.AST]) -> set[ast.AST]:
    calls = (node for node in nodes if isinstance(node, ast.Call) and called_name(node) in ORDER_BLIND)
    return {argument for call in calls for argument in call.args}


def _names_of_sets(scope: ast.AST, nodes: Iterable[ast.AST], *, attributes: bool) -> frozenset[str]:
    """Names (or attributes) that every assignment and annotation in the scope, of these nodes, shows to be a set."""
    verdicts: dict[str, bool] = {}
    for target, is_set in _bindings(scope, nodes, attributes=attributes):
        verdicts[target] = verdicts.get(target, True) and is_set
    return frozenset(name for name, is_set in verdicts.items() if is_set)


def _bindings(scope: ast.AST, nodes: Iterable[ast.AST], *, attributes: bool) -> Iterator[tuple[str, bool]]:
    nothing_known = _Known(frozenset(), frozenset())
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and not attributes:
        yield from _arguments(scope)
    for node in nodes:
        if isinstance(node, ast.AnnAssign) and (name := _bound(node.target, attributes)):
            yield name, _is_set_type(node.annotation)
        elif isinstance(node, ast.ClassDef) and attributes:
            fields = (item for item in node.body if isinstance(item, ast.AnnAssign))
            yield from ((_bound(item.target, False) or "", _is_set_type(item.annotation)) for item in fields)
        elif isinstance(node, ast.Assign):
            names = filter(None, (_bound(target, attributes) for target in node.targets))
            yield from ((name, nothing_known.is_set(node.value)) for name in names)
        elif isinstance(node, ast.For | ast.comprehension) and not attributes:
            yield from ((part.id, False) for part in ast.walk(node.target) if isinstance(part, ast.Name))


def _arguments(function: FunctionNode) -> Iterator[tuple[str, bool]]:
    every = function.args
    for argument in (*every.posonlyargs, *every.args, *every.kwonlyargs):
        yield argument.arg, argument.annotation is not None and _is_set_type(argument.annotation)


def _bound(target: ast.expr, attributes: bool) -> str | None:
    if attributes:
        return target.attr if isinstance(target, ast.Attribute) else None
    return target.id if isinstance(target, ast.Name) else None


def _is_set_type(annotation: ast.expr) -> bool:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
    return name in SET_TYPES
