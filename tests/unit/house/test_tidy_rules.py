"""The checker catches what is planted, rule by rule, and lets the allowed neighbour of each breach pass."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tidy import RULES, TREE_RULES, Source, check, check_tree
from tests.tidy.house import empty_places
from tests.tidy.names import walk
from tests.tidy.source import PURE, ROOMS
from tests.tidy.words import RENAMED

DOC = '"""A module."""\n'
LONG_BODY = "    x = 1\n" * 80

# rule, path, text that breaks it
BREACHES = [
    ("no_impure_import", "wcrdt/a.py", "import time\n"),
    ("no_impure_import", "holon/a.py", "from os import environ\n"),
    ("no_impure_import", "holon/sub/a.py", "def f():\n    import threading\n"),
    ("no_impure_import", "transactional/a.py", "import os.path as p\n"),
    ("no_impure_import", "nodes/machine/a.py", "import asyncio\n"),
    ("no_impure_import", "nexmark/model.py", "import random\n"),
    ("no_impure_import", "nexmark/generator/a.py", "from numpy import random\n"),
    ("no_impure_import", "nexmark/queries/q7.py", "from numpy.random import default_rng\n"),
    ("no_impure_import", "wcrdt/a.py", "import lmdb\n"),
    ("no_impure_call", "wcrdt/a.py", "from datetime import datetime as dt\nx = dt.now()\n"),
    ("no_impure_call", "wcrdt/a.py", "import datetime\nx = datetime.date.today\n"),
    ("no_impure_call", "wcrdt/a.py", "from datetime import datetime\nx = datetime.fromtimestamp(1)\n"),
    ("no_impure_call", "nexmark/generator/a.py", "import numpy as n\nx = n.random.default_rng(1)\n"),
    ("no_impure_call", "holon/a.py", "x = open('f')\n"),
    ("no_impure_call", "holon/a.py", "x = hash('f')\n"),
    ("no_impure_call", "holon/a.py", "def f(a):\n    return id(a)\n"),
    ("no_set_order", "wcrdt/a.py", "for x in {1, 2}:\n    pass\n"),
    ("no_set_order", "wcrdt/a.py", "a = [1]\nb = list(set(a))\n"),
    ("no_set_order", "wcrdt/a.py", "def f(a: set[int]):\n    return [x for x in a]\n"),
    ("no_set_order", "wcrdt/a.py", "def f(a: frozenset[str]):\n    return ','.join(a)\n"),
    ("no_set_order", "wcrdt/a.py", "def f(a: dict, b: dict):\n    for k in a.keys() & b.keys():\n        yield k\n"),
    ("no_set_order", "wcrdt/a.py", "def f(a):\n    s = set()\n    s.add(a)\n    return {k: 1 for k in s | {2}}\n"),
    ("no_set_order", "wcrdt/a.py", "class _A:\n    s: set[int]\n    def f(self):\n        return tuple(self.s)\n"),
    ("no_set_order", "wcrdt/a.py", "class _A:\n    def f(self):\n        self.s = set()\n        return [*self.s]\n"),
    ("no_set_order", "wcrdt/a.py", "def f(a: set[int]):\n    return a.pop()\n"),
    ("no_set_order", "wcrdt/a.py", "def f(a: set[int], b: set[int]):\n    for x in a.union(b):\n        print(x)\n"),
    ("no_write_past_step", "nodes/streams/a.py", DOC + "def _f(process):\n    process.node.stats = {}\n"),
    ("no_write_past_step", "nodes/streams/a.py", DOC + "def _f(node):\n    node.work.stopping |= True\n"),
    ("no_write_past_step", "nodes/transactions/a.py", DOC + "def _f(self):\n    self.node.units[1].offset = 2\n"),
    ("no_write_past_step", "deploy/a.py", DOC + "def _f(runners):\n    del runners[1].standby\n"),
    ("short_file", "tests/a.py", "x = 1\n" * 401),
    ("short_functions", "nodes/a.py", "def _f():\n" + LONG_BODY),
    ("short_functions", "nodes/a.py", "".join(f"def _f{i}():\n" + LONG_BODY[: 45 * 10] for i in range(2))),
    ("has_docstrings", "nodes/a.py", "x = 1\n"),
    ("has_docstrings", "nodes/a.py", DOC + "def f():\n    pass\n"),
    ("has_docstrings", "nodes/a.py", DOC + "class A:\n    x: int\n    def f(self):\n        pass\n"),
    ("no_broad_except", "nodes/loop.py", "try:\n    x = 1\nexcept Exception:\n    x = 2\n"),
    ("no_broad_except", "nodes/loop.py", "try:\n    x = 1\nexcept:\n    x = 2\n"),
    (
        "no_broad_except",
        "nodes/loop.py",
        "try:\n    x = 1\nexcept (OSError, BaseException) as e:\n    raise OSError from e\n",
    ),
    ("no_code_in_data", "tests/a.py", "import pickle\n"),
    ("no_code_in_data", "nodes/a.py", "from marshal import loads\n"),
    ("no_code_in_data", "nodes/a.py", "def _f(a):\n    return eval(a)\n"),
    ("no_code_in_data", "nodes/a.py", "import numpy as np\nx = np.load('a', allow_pickle=True)\n"),
    ("no_print", "nodes/loop.py", "print('a')\n"),
    ("no_sleep_in_tests", "tests/unit/test_a.py", "from time import sleep\nsleep(1)\n"),
    ("no_sleep_in_tests", "tests/unit/test_a.py", "import time\nfor _ in range(9):\n    time.sleep(1)\n"),
    ("no_sleep_in_tests", "tests/a.py", "import asyncio\nasync def f():\n    await asyncio.sleep(1)\n"),
    ("has_assertion", "tests/unit/test_a.py", "def test_a():\n    print(1)\n"),
    (
        "has_assertion",
        "tests/unit/test_a.py",
        "def run():\n    return 1\ndef test_a():\n    run()\n",
    ),
    ("no_private_access", "tests/unit/test_a.py", "def test_a(log):\n    assert log._pumped_s\n"),
    ("no_private_access", "tests/a.py", "def f(log):\n    log.inner._pumped_s = 0.0\n"),
    ("no_private_access", "tests/a.py", "def f(patch, log):\n    patch.setattr(log, '_pumped_s', 0.0)\n"),
    ("no_private_access", "tests/a.py", "def f(patch):\n    patch.setattr('nodes.log._pumped_s', 0.0)\n"),
    ("no_private_access", "tests/a.py", "from nodes.log import _pump\n"),
    ("no_private_access", "tests/a.py", "from nodes import log\nlog._pump()\n"),
    ("no_old_name", "docs/a.md", "call `emit_" + "unstable`\n"),
    ("no_relative_subject", "docs/a.md", "It ends. What came before stays.\n"),
    ("field_verbs", "nodes/a.py", "raise ValueError(f'{x}: the log says no')\n"),
    ("field_verbs", "holon/a.py", "logger.warning('node %s: nobody answers', x)\n"),
    ("no_long_sentence", "docs/a.md", "A cell. " + "word " * 31 + "\n"),
    ("no_undone", "nodes/a.py", "x = 1  # TO" + "DO: two\n"),
    ("no_undone", "docs/a.md", "FIX" + "ME\n"),
    ("no_machine_path", "docs/a.md", "see /hom" + "e/ann/holon\n"),
    ("no_machine_path", "Makefile", "x:\n\tcat /wor" + "k/main/a\n"),
    ("no_machine_path", "nodes/a.py", "x = '/roo" + "t/.cache'\n"),
    ("no_registry", "requirements.lock", "# from https://py" + "pi.org/simple\n"),
    ("no_registry", "deploy/a.sh", "curl https://repo1.maven" + ".org/a\n"),
    ("parses", "nodes/a.py", "def f(:\n"),
]

# path, text that is fine
ALLOWED = [
    ("nodes/loop.py", "import time\nimport os\nx = time.time()\n"),
    ("nexmark/runs.py", "import random\n"),
    ("nexmark/modelling.py", "import os\n"),
    ("nexmark/queries/README.md", "import os\n"),
    ("holon/a.py", "from datetime import UTC, datetime, timedelta\nx = datetime.fromtimestamp(1, UTC)\n"),
    ("holon/a.py", "def _f(ctx):\n    return ctx.now, ctx.random, ctx.time\n"),
    ("holon/a.py", "class _A:\n    def __hash__(self):\n        return hash((1, 2))\n"),
    ("holon/a.py", "class _A:\n    H = hash(1)\n    def __hash__(self):\n        return self.H\n"),
    ("wcrdt/a.py", "for x in sorted({1, 2}):\n    pass\n"),
    ("wcrdt/a.py", "def _f(a: set[int]):\n    return sum(x for x in a), max(a), len(a), sorted(x + 1 for x in a)\n"),
    ("wcrdt/a.py", "def _f(a: set[int], b: set[int]):\n    return {x for x in a | b}\n"),
    ("wcrdt/a.py", "def _f(a: set[int]):\n    a = sorted(a)\n    return list(a)\n"),
    ("wcrdt/a.py", "def _f(a: list[int]):\n    return list(a), a.pop()\n"),
    ("nodes/a.py", DOC + "def _f():\n    pass\nclass A:\n    x: int\n"),
    ("nodes/a.py", "try:\n    x = 1\nexcept BaseException:\n    x = 2\n    raise\n"),
    ("nodes/a.py", "try:\n    x = 1\nexcept (OSError, ValueError):\n    x = 2\n"),
    ("nodes/shell/a.py", "try:\n    x = 1\nexcept Exception:\n    x = 2\n"),
    ("nodes/cli/errors.py", "try:\n    print(1)\nexcept Exception:\n    print(2)\n"),
    ("tests/a.py", "import time\ndef f(done):\n    while not done():\n        time.sleep(0.01)\n"),
    ("tests/a.py", "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n"),
    ("tests/unit/test_a.py", "def test_a():\n    assert 1\ndef must(x):\n    return x\ndef test_b():\n    must(2)\n"),
    ("tests/unit/test_a.py", "def run():\n    assert 1\ndef again():\n    run()\ndef test_a():\n    again()\n"),
    ("tests/unit/test_a.py", "import pytest\ndef test_a():\n    with pytest.raises(ValueError):\n        int('x')\n"),
    ("tests/a.py", "import os\nos._exit(1)\nx = (1)._replace(a=2)\n"),
    (
        "tests/a.py",
        "class A:\n    def __init__(self):\n        self._a = 1\ndef f(a):\n    return a._a, a.__dict__\n",
    ),
    ("tests/a.py", "import re\nx = re.compile('a')\n"),
    ("docs/a.md", "`https://example.org/home/a`, `wcrdt/work/a`, ~/work, ./home/b\n"),
]


def rules_broken(path: str, text: str) -> set[str]:
    text = text if path.startswith("tests") or '"""' in text or not path.endswith(".py") else DOC + text
    return {violation.rule for violation in check(Source(path, text))}


@pytest.mark.parametrize(("rule", "path", "text"), BREACHES)
def test_planted_breach_is_caught(rule: str, path: str, text: str) -> None:
    source = (
        Source(path, text) if rule == "has_docstrings" else Source(path, DOC + text if path.endswith(".py") else text)
    )
    assert rule in {violation.rule for violation in check(source)}


@pytest.mark.parametrize(("path", "text"), ALLOWED)
def test_allowed_neighbour_passes(path: str, text: str) -> None:
    assert not rules_broken(path, text)


@pytest.mark.parametrize("old", RENAMED)
def test_each_old_name_is_caught_and_its_new_name_passes(old: str) -> None:
    assert rules_broken("docs/a.md", f"It is {old} here.\n") == {"no_old_name"}
    assert not rules_broken("docs/a.md", f"It is {RENAMED[old]} here.\n")
    assert not rules_broken("CHANGELOG.md", f"It is {old} here.\n")


def test_every_rule_has_a_planted_breach() -> None:
    assert {rule.__name__ for rule in RULES} == {rule for rule, _, _ in BREACHES} - {"parses"}


def test_violation_names_file_and_line() -> None:
    (violation,) = check(Source("holon/a.py", DOC + "import numpy\nimport time\n"))
    assert str(violation).startswith("holon/a.py:3: no_impure_import: ")


# rule, files that break it, files beside which the same passes
TREE_BREACHES = [
    ("few_modules", {f"holon/a/m{n}.py": DOC for n in range(17)}, {f"holon/a/m{n}.py": DOC for n in range(16)}),
    ("folders_are_described", {"nodes/a/b.py": DOC, "nodes/a/__init__.py": ""}, {"nodes/a/b.py": DOC}),
    ("no_circles", {"wcrdt/a.py": "import wcrdt.b\n", "wcrdt/b.py": "from wcrdt import a\n"}, {"wcrdt/a.py": DOC}),
    (
        "no_circles",
        {
            "wcrdt/a.py": "if TYPE_CHECKING:\n    from wcrdt.b import B\n",
            "wcrdt/b.py": "def f():\n    from wcrdt.c import C\n",
            "wcrdt/c.py": "from wcrdt.a import A\n",
        },
        {"wcrdt/b.py": "from wcrdt.c import C\n", "wcrdt/c.py": DOC},
    ),
    (
        "cited_paths_exist",
        {"docs/a.md": "see `nodes/gone.py`\n"},
        {"docs/a.md": "see `nodes/b.py`\n", "nodes/b.py": DOC},
    ),
]


@pytest.mark.parametrize(("rule", "breaking", "passing"), TREE_BREACHES)
def test_breach_of_the_tree_is_found(rule: str, breaking: dict[str, str], passing: dict[str, str]) -> None:
    begins = {f"{folder}/__init__.py": DOC for folder in ("holon/a", "nodes/a", "nodes", "wcrdt")}

    def found(files: dict[str, str]) -> set[str]:
        return {violation.rule for violation in check_tree([Source(*each) for each in {**begins, **files}.items()])}

    assert found(breaking) == {rule}
    assert found(passing) == set()


def test_every_rule_of_the_tree_has_a_breach() -> None:
    assert {rule.__name__ for rule in TREE_RULES} == {rule for rule, _, _ in TREE_BREACHES}


def test_place_that_a_rule_names_and_that_is_not_there_is_found() -> None:
    every = [Source(f"{place}/a.py", DOC) for place in (*ROOMS, *PURE)]
    assert list(empty_places(every)) == []
    left = [source for source in every if not source.within(("wcrdt",))]
    assert [violation.path for violation in empty_places(left)] == ["wcrdt", "wcrdt"], "as a room, and as a pure one"


def test_walk_finds_all_nodes_but_contexts_in_order() -> None:
    tree = ast.parse(Path(__file__).read_text())
    known = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    assert list(map(id, walk(tree))) == list(map(id, known)) and len(known) > 500
