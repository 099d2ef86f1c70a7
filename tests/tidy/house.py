"""Rules of the tree as a whole: how many modules a folder has, circles between files, paths that are cited."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from tests.tidy.source import PURE, ROOMS, Source, Violation

MOST_MODULES = 16
CITING = (".py", ".md", ".toml")
# Pages that tell what was, and where things were then.
HISTORY = ("CHANGELOG.md",)
_CITED = re.compile(
    r"(?<![\w/.-])((?:wcrdt|holon|transactional|nodes|nexmark|deploy|tests|docs|examples)/[\w./-]*\w\.(?:py|md|toml|sh))"
)


def few_modules(sources: Iterable[Source]) -> Iterator[Violation]:
    """A folder of a room has at most 16 modules: more are several things."""
    folders = Counter(
        str(PurePosixPath(source.path).parent)
        for source in sources
        if source.is_python and source.within((*ROOMS, "deploy")) and not source.path.endswith("/__init__.py")
    )
    for folder, count in sorted(folders.items()):
        if count > MOST_MODULES:
            yield Violation(
                folder, 1, "few_modules", f"{count} modules, at most {MOST_MODULES}; it holds several things"
            )


def folders_are_described(sources: Iterable[Source]) -> Iterator[Violation]:
    """Each folder of a room has an ``__init__`` that begins by saying what belongs there."""
    known = {source.path: source for source in sources}
    folders = {
        str(PurePosixPath(path).parent) for path, source in known.items() if source.is_python and source.within(ROOMS)
    }
    for folder in sorted(folders):
        begin = known.get(f"{folder}/__init__.py")
        if begin is None or not ast.get_docstring(begin.tree):
            yield Violation(f"{folder}/__init__.py", 1, "folders_are_described", "say in a sentence what belongs here")


def no_circles(sources: Iterable[Source]) -> Iterator[Violation]:
    """No file imports itself by way of others; imports in functions and those for types alone count too."""
    rooms = (*ROOMS, "deploy")
    files = {module_of(source.path): source for source in sources if source.is_python and source.within(rooms)}
    graph = {module: imported(source, files) - {module} for module, source in files.items()}
    for circle in circles(graph):
        path = files[circle[0]].path
        yield Violation(path, 1, "no_circles", f"imports itself by way of {', '.join(circle[1:])}")


def module_of(path: str) -> str:
    """``a/b.py`` is ``a.b``, ``a/__init__.py`` is ``a``."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def imported(source: Source, known: Mapping[str, object]) -> set[str]:
    found = set()
    for node in _statements(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in whole}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & known.keys()


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """All, at any depth; expressions, ten times as many nodes, are not walked."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        for name in ("body", "orelse", "finalbody"):
            waiting += getattr(node, name, ())
        for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            waiting += inner.body


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The sets of nodes that reach each other (Tarjan's strongly connected components with more than one member)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found)


def cited_paths_exist(sources: Iterable[Source]) -> Iterator[Violation]:
    """A path that a page or a comment cites leads somewhere."""
    sources = list(sources)
    known = {source.path for source in sources}
    for source in sources:
        if (
            not source.path.endswith(CITING)
            or source.path in HISTORY
            or source.within(("tests/unit/house", "tests/integration/house", "tests/tidy"))
        ):
            continue
        for number, line in enumerate(source.lines, 1):
            for path in _CITED.findall(line):
                if path not in known:
                    yield Violation(source.path, number, "cited_paths_exist", f"{path} is not there")


def empty_places(sources: Iterable[Source]) -> Iterator[Violation]:
    """Places that rules name and that have no files: the rules would look at nothing. Asked of the whole tree alone."""
    python = [source for source in sources if source.is_python]
    for place in (*ROOMS, *PURE):
        if not any(source.within((place,)) for source in python):
            yield Violation(place, 1, "empty_places", "a rule names this place, and nothing is there")


TREE_RULES = (few_modules, folders_are_described, no_circles, cited_paths_exist)


def check_tree(sources: Iterable[Source]) -> list[Violation]:
    """Every violation of a rule of the tree."""
    sources = list(sources)
    return [violation for rule in TREE_RULES for violation in rule(sources)]
