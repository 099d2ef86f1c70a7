"""Words that no tracked file may hold. They are spelled in parts here, so that this file passes too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.tidy.source import Source, Violation

_UNDONE = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
_MACHINE_PATH = re.compile(r"(?<![\w.\-~>/])/(?:work/\w|roo" + r"t\b|hom" + r"e/\w|User" + r"s/\w)")
_REGISTRY = re.compile(
    r"(?:py" + r"pi\.org|pythonhos" + r"ted\.org|npm" + r"js\.(?:org|com)|maven\.(?:apache\.)?org|/maven[2]"
    r"|crates\.i" + r"o|proxy\.golan" + r"g|deb\.debia" + r"n\.org|archive\.ubunt" + r"u)",
    re.IGNORECASE,
)


def no_undone(source: Source) -> Iterator[Violation]:
    """Nothing is left for later in a comment: it is done, or an issue."""
    yield from _search(source, _UNDONE, "no_undone", "finish it or file an issue")


def no_machine_path(source: Source) -> Iterator[Violation]:
    """No path of somebody's own machine."""
    yield from _search(source, _MACHINE_PATH, "no_machine_path", "a path of one machine; make it relative")


def no_registry(source: Source) -> Iterator[Violation]:
    """No address of a package source: where packages come from is the installing machine's affair."""
    yield from _search(source, _REGISTRY, "no_registry", "an address of a package source")


def _search(source: Source, pattern: re.Pattern[str], rule: str, why: str) -> Iterator[Violation]:
    for number, line in enumerate(source.lines, start=1):
        if found := pattern.search(line):
            yield Violation(source.path, number, rule, f"{found.group()!r}: {why}")
