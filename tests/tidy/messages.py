"""The texts of errors and log lines use the field's verbs (request, return, advance), not everyday ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import Source, Violation

ROOMS = ("wcrdt", "holon", "transactional", "nodes", "nexmark")
LEVELS = ("debug", "info", "warning", "error")
_EVERYDAY = re.compile(
    r"\b(?:tells?|told|says?|said|hears?|heard|looks?|looked|stands?|stood|asks?|asked|speaks?|spoke"
    r"|who|whoever|nobody|somebody)\b",
    re.IGNORECASE,
)


def field_verbs(source: Source) -> Iterator[Violation]:
    """An error says what happened, where, and what to do, in words that its reader knows from other systems."""
    if not source.is_python or not source.within(ROOMS):
        return
    for node in source.nodes:
        for text in _texts(node):
            if found := _EVERYDAY.search(str(text.value)):
                yield Violation(source.path, text.lineno, "field_verbs", f"{found[0]!r}: use the field's word")


def _texts(node: ast.AST) -> Iterator[ast.Constant]:
    """The constant parts of a text that is raised or logged here."""
    if isinstance(node, ast.Raise):
        call = node.exc
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
        call = node if isinstance(node.func.value, ast.Name) and node.func.value.id == "logger" else None
    else:
        return
    if isinstance(call, ast.Call):
        for part in ast.walk(call):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part
