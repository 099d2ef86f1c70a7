"""The sources that the rules read: the files of the tree, parsed once, and the rooms that they belong to."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from tests.tidy.names import aliases, walk

ROOT = Path(__file__).parents[2]

ROOMS = ("wcrdt", "holon", "transactional", "nodes", "nexmark")
PURE = ("wcrdt", "holon", "transactional", "nodes/machine", "nexmark/model", "nexmark/generator", "nexmark/queries")

# Code that may meet any exception: it runs what users wrote, or is the outermost frame of a process or thread.
SHELL = ("nodes/shell", "nodes/cli/job_options.py", "nodes/cli/node_runs.py", "nodes/cli/errors.py")

_TEXT = (
    ".py",
    ".md",
    ".toml",
    ".cfg",
    ".ini",
    ".sh",
    ".yml",
    ".yaml",
    ".json",
    ".lock",
    ".txt",
    ".html",
    ".js",
    ".css",
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of one rule. Lines count from 1."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.message}"


@dataclass(frozen=True)
class Source:
    """A file by its path in the tree (with slashes) and its text."""

    path: str
    text: str

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree but the contexts of names, walked once for all rules."""
        return tuple(walk(self.tree))

    @cached_property
    def aliases(self) -> dict[str, str]:
        return aliases(self.nodes)

    def within(self, places: tuple[str, ...]) -> bool:
        """Whether the file is one of the places: a folder, a file, or a module named without its `.py`."""
        return any(self.path in (place, f"{place}.py") or self.path.startswith(f"{place}/") for place in places)


def tracked_sources() -> Iterator[Source]:
    """All text files that are tracked, or would be after `git add`; sorted by path."""
    for path in _tracked_paths():
        named = PurePosixPath(path)
        if named.suffix in _TEXT or named.name in ("Makefile", "LICENSE", "run", ".importlinter", ".gitignore"):
            file = ROOT / path
            if file.is_file():
                yield Source(path, file.read_text(encoding="utf-8"))


def _tracked_paths() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for path in set(listing.split("\0")) if path)
