"""The fingerprint of a job's code: whatever results follow from changes it, nothing else does, on every process."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from holon import Json
from holon.fingerprint.reach import CodePrint, code_print
from holon.job import encode_json
from wcrdt import GCounter, Max

HELPERS = "shop_helpers"
MAIN = "shop_job"

HELPER = """
LIMIT = 10
def price(event): return event.amount
def rarely(event): return 1
def unused(event): return 1
"""
JOB = """
from __future__ import annotations
import enum, functools, re
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict
import msgspec
import shop_helpers
from shop_helpers import price

class Color(enum.Enum):
    RED = 1
    BLUE = 2
class Line(msgspec.Struct):
    count: int = 1
class Bid(msgspec.Struct):
    amount: int = 0
    lines: list[Line] = []
    color: Color = Color.RED
@dataclass
class Point:
    x: int = 0
class Pair(NamedTuple):
    left: int = 1
class Extra(TypedDict):
    key: int
class Base:
    scale = 2
    def scaled(self, value): return value * self.scale
class Rules(Base):
    def __init__(self, most): self.most = most
RULES = Rules(7)
RATES = {"a": 1, "b": {2, 3}, "c": (4, frozenset(["x", "y"]))}
NAME = re.compile("a+")
def traced(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) + 0
    return wrapper
@traced
def decorated(event): return 1
@functools.lru_cache
def cached(value): return value
def maker(amount):
    def made(event): return event.amount + amount
    return made
added = maker(3)
halved = functools.partial(divmod, 2)
def defaults(event, by=1, *, at=2): return by + at
def lazy(event):
    from shop_helpers import rarely
    return rarely(event)
def process(event: Bid, ctx: Any) -> None:
    try:
        ctx.emit(price(event) + shop_helpers.LIMIT + decorated(event) + added(event) + defaults(event))
        ctx.emit([Line(), Point(), Pair(), Extra(key=1), RULES.scaled(1), RATES, NAME, halved, cached(1), Bid])
        ctx.emit([lazy(event), (lambda one: one + 5)(1), {1, 2}, Color.RED, event in {"red", "green", "blue"}])
    except ValueError:
        pass
def unreached(event): return 1
"""


class Shop:
    """Makes the two modules anew, each time in another folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made = 0

    def module(self, name: str, source: str) -> ModuleType:
        self._made += 1
        path = self._folder / str(self._made) / f"{name}.py"
        path.parent.mkdir()
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    def __call__(self, job: str = JOB, helper: str = HELPER) -> CodePrint:
        self.module(HELPERS, helper)
        process = self.module(MAIN, job).process
        return code_print({"function": process}, [process])


@pytest.fixture
def printed(tmp_path: Path) -> Iterator[Shop]:
    yield Shop(tmp_path)
    for name in (HELPERS, MAIN):
        sys.modules.pop(name, None)


def changed(source: str, old: str, new: str) -> str:
    assert old in source, f"{old!r} is what is changed"
    return source.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("ctx.emit(price(event) +", "ctx.emit(1 + price(event) +", "shop_job.process"),
        ("one + 5", "one + 6", "shop_job.process"),
        ("except ValueError", "except TypeError", "shop_job.process"),
        ("amount: int = 0", "amount: int = 1", "shop_job.Bid"),
        ("amount: int = 0", "amount: float = 0", "shop_job.Bid"),
        ("class Bid(msgspec.Struct)", "class Bid(msgspec.Struct, rename='upper')", "shop_job.Bid"),
        ("class Bid(msgspec.Struct)", "class Bid(msgspec.Struct, forbid_unknown_fields=True)", "shop_job.Bid"),
        ("class Bid(msgspec.Struct)", "class Bid(msgspec.Struct, tag='b')", "shop_job.Bid"),
        ("count: int = 1", "count: int = 2", "shop_job.Line"),
        ("BLUE = 2", "BLUE = 3", "shop_job.Color"),
        ("BLUE = 2", "GREEN = 2", "shop_job.Color"),
        ("x: int = 0", "x: int = 1", "shop_job.Point"),
        ("x: int = 0", "x: str = 0", "shop_job.Point"),
        ("left: int = 1", "left: int = 2", "shop_job.Pair"),
        ("    key: int", "    key: str", "shop_job.Extra"),
        ("scale = 2", "scale = 3", "shop_job.Base"),
        ("value * self.scale", "value + self.scale", "shop_job.Base.scaled"),
        ("class Rules(Base)", "class Rules(Base, Point)", "shop_job.Rules"),
        ("Rules(7)", "Rules(8)", "shop_job.Rules()"),
        ('"a": 1', '"a": 2', "shop_job.process"),
        ("{2, 3}", "{2, 4}", "shop_job.process"),
        ('"x", "y"', '"x", "z"', "shop_job.process"),
        ('re.compile("a+")', 're.compile("a*")', "shop_job.process"),
        ("function(*args) + 0", "function(*args) + 1", "shop_job.traced.<locals>.wrapper"),
        ("def decorated(event): return 1", "def decorated(event): return 2", "shop_job.decorated"),
        ("@traced\ndef", "def", "shop_job.process"),
        ("def cached(value): return value", "def cached(value): return -value", "shop_job.cached"),
        ("maker(3)", "maker(4)", "shop_job.maker.<locals>.made"),
        ("partial(divmod, 2)", "partial(divmod, 3)", "shop_job.process"),
        ("by=1", "by=2", "shop_job.defaults"),
        ("at=2", "at=3", "shop_job.defaults"),
        ("from shop_helpers import price", "from shop_helpers import unused as price", "shop_helpers.unused"),
    ],
)
def test_what_a_function_reaches_is_part_of_it_and_named(old: str, new: str, named: str, printed: Shop) -> None:
    before, after = printed(), printed(changed(JOB, old, new))
    assert before.digest != after.digest
    assert named in after.changed(before.parts)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("LIMIT = 10", "LIMIT = 11", "shop_job.process"),
        ("def price(event): return event.amount", "def price(event): return -event.amount", "shop_helpers.price"),
        ("def rarely(event): return 1", "def rarely(event): return 2", "shop_helpers.rarely"),
    ],
)
def test_so_are_functions_and_constants_of_imported_modules(old: str, new: str, named: str, printed: Shop) -> None:
    before, after = printed(), printed(helper=changed(HELPER, old, new))
    assert before.digest != after.digest and named in after.changed(before.parts)


def test_what_is_not_reached_is_no_part_nor_are_comments_lines_and_places(printed: Shop) -> None:
    before = printed()
    assert printed().digest == before.digest and before.unknown == ()
    assert printed(changed(JOB, "def unreached(event): return 1", "def unreached(event): return 2")) == before
    assert printed(helper=changed(HELPER, "def unused(event): return 1", "def unused(event): return 2")) == before
    assert printed(JOB.replace("class Color", "\n\n# how it looks\nclass Color")) == before


def test_functions_of_one_name_are_told_apart_and_circles_end(printed: Shop) -> None:
    source = "def maker(n):\n    def made(event): return n\n    return made\none, two = maker(1), maker(2)\n"
    source += "ring = []\nring.append(ring)\nclass Node:\n    pass\nnode = Node()\nnode.next = node\n"
    source += "def process(event): return one(event), two(event), ring, node, process\n"
    before = printed(source)
    assert printed(source) == before
    assert printed(source.replace("maker(1), maker(2)", "maker(1), maker(3)")).digest != before.digest


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def process(event): return eval(event)", "eval"),
        ("import importlib\ndef process(event): return importlib.import_module(event)", "import_module"),
        ("import itertools\nCOUNT = itertools.count()\ndef process(event): return next(COUNT)", "itertools.count"),
        ("import random\nD = random.Random(1)\ndef process(e): return D", "Random"),
    ],
)
def test_what_cannot_be_known_is_said_once(code: str, said: str, printed: Shop) -> None:
    unknown = printed(code).unknown
    assert len(unknown) == 1 and said in unknown[0] and "shop_job.process" in unknown[0]


def test_a_module_that_is_looked_into_by_name_counts_as_a_whole(printed: Shop) -> None:
    code = "import shop_helpers\ndef process(event): return getattr(shop_helpers, event)(event)"
    before = printed(code)
    after = printed(code, changed(HELPER, "def unused(event): return 1", "def unused(event): return 2"))
    assert after.changed(before.parts) == ["shop_helpers.unused"]


def test_a_library_counts_by_its_version(monkeypatch: pytest.MonkeyPatch, printed: Shop) -> None:
    code = "import numpy as np\ndef process(event): return np.add(event, 1)"
    before = printed(code)
    monkeypatch.setattr("numpy.__version__", "0.0.1")
    after = printed(code)
    assert after.changed(before.parts) == ["numpy"] and before.unknown == ()


def test_moving_a_file_of_holon_is_no_change_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade that only moves files resumes every job: what is Holon's is known by its package and its name."""
    used = {"format": Json(dict), "lattice": GCounter, "given": Max(), "function": encode_json}
    before = code_print(used, [])
    for kind, place in ((Json, "holon.job"), (GCounter, "wcrdt.codec"), (Max, "wcrdt.codec")):
        monkeypatch.setattr(kind, "__module__", place)
    monkeypatch.setitem(encode_json.__globals__, "__name__", "holon.source")
    assert code_print(used, []) == before
    assert code_print({**used, "lattice": Max}, []) != before
