"""The checker catches what is planted, rule by rule, and lets the allowed neighbour of each breach pass."""

from __future__ import annotations

import pytest

from tests.tidy import RULES, Source, check

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
    ("nodes/cli/main.py", "try:\n    print(1)\nexcept Exception:\n    print(2)\n"),
    ("tests/a.py", "import time\ndef f(done):\n    while not done():\n        time.sleep(0.01)\n"),
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


def test_every_rule_has_a_planted_breach() -> None:
    assert {rule.__name__ for rule in RULES} == {rule for rule, _, _ in BREACHES} - {"parses"}


def test_violation_names_file_and_line() -> None:
    (violation,) = check(Source("holon/a.py", DOC + "import numpy\nimport time\n"))
    assert str(violation).startswith("holon/a.py:3: no_impure_import: ")
