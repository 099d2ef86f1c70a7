"""State machines change in ``step`` alone: events in, effects out."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.source import Source, Violation

MACHINES = frozenset(
    "node machine ledger claiming sharing work ownership detector merging rejoining handover runner runners "
    "standby standbys sequencer sequencers lifecycle".split()
)
"""Names of variables and attributes that hold a node's state machine or a part of it."""
SHELLS = ("nodes", "nexmark", "deploy")
"""Rooms that drive them."""
INSIDE = ("nodes/machine/",)


def no_write_past_step(source: Source) -> Iterator[Violation]:
    """A shell writes no field of a state machine: it steps it with an event, or gives it an argument."""
    inside = source.path.startswith(INSIDE) or not source.within(SHELLS)
    if not source.is_python or inside:
        return
    for node in source.nodes:
        for target in _written(node):
            owner = _owner(target)
            if owner is not None:
                why = f"writes to a field of {owner!r}; make it an event of its step, or an argument"
                yield Violation(source.path, target.lineno, "no_write_past_step", why)


def _written(node: ast.AST) -> Iterator[ast.Attribute | ast.Subscript]:
    """Targets that a statement stores to, or deletes, but for variables."""
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node


def _owner(target: ast.Attribute | ast.Subscript) -> str | None:
    """The state machine that holds the target, as the source calls it."""
    part: ast.AST = target.value
    if isinstance(target, ast.Subscript):  # an item of a container: whose field is that?
        if not isinstance(part, ast.Attribute):
            return None
        part = part.value
    while True:
        match part:
            case ast.Attribute(attr=name) if name in MACHINES:
                return name
            case ast.Name(id=name):
                return name if name in MACHINES else None
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                part = inner
            case _:
                return None
