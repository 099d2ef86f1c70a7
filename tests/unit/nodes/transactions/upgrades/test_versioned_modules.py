"""Two versions of a user's modules in one process."""

from __future__ import annotations

import importlib
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.transactions.upgrades.programs import loaded_version
from nodes.transactions.upgrades.versioned_modules import forget_version, import_version
from transactional import Program
from transactional.describing import version_of
from transactional.errors import ProgramMissing
from transactional.program_versions import ProgramVersion

ONE, TWO = "1" * 16, "2" * 16
PROGRAM = """
from __future__ import annotations
import json
import msgspec
import {name}.prices as prices
from {name}.shared import LIMIT, Kind
from . import shared as again
from transactional import Context, Operator, Program

class Money(msgspec.Struct):
    kind: Kind
    cents: int

account = Operator("account", partitions=1, state=Money)

@account.register
async def add(ctx: Context, amount: int) -> int:
    from {name}.late import factor
    import {name}.late
    assert {name}.late.factor is factor
    before = ctx.get()
    ctx.put(Money(Kind("x"), (before.cents if before else 0) + amount * factor() * prices.price))
    return [again.LIMIT, LIMIT, ctx.get().cents, json.dumps(1)]

program = Program("shop", [account])
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    name = "shop_of_versions"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "shared.py").write_text("import enum\nLIMIT = 1\nclass Kind(enum.Enum):\n    X = 'x'\n")
    (folder / "prices.py").write_text("price = 10\n")
    (folder / "late.py").write_text("def factor():\n    return 1\n")
    (folder / "orders.py").write_text(PROGRAM.replace("{name}", name))
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for token in (ONE, TWO):
        forget_version(token)
    for each in [each for each in sys.modules if each.startswith(name)]:
        del sys.modules[each]


def called(program: Program) -> Any:
    from transactional import Serial

    return Serial(program).call("account", "a", "add", [2])


def test_each_version_has_its_own_modules_also_those_that_functions_import_when_they_run(package: Path) -> None:
    plain = importlib.import_module("shop_of_versions.orders")
    one = import_version("shop_of_versions.orders", ONE)
    version_of(one.program)  # loads what functions import when they run
    (package / "shared.py").write_text("import enum\nLIMIT = 7\nclass Kind(enum.Enum):\n    X = 'x'\n")
    (package / "prices.py").write_text("price = 30\n")
    (package / "late.py").write_text("def factor():\n    return 5\n")
    two = import_version("shop_of_versions.orders", TWO)
    assert [called(each.program) for each in (one, two)] == [[1, 1, 20, "1"], [7, 7, 300, "1"]]
    assert two.Money is not one.Money is not plain.Money and two.json is one.json is plain.json
    assert two.__name__ == f"shop_of_versions@{TWO}.orders" and sys.modules[two.__name__] is two
    assert plain.prices.price == 10, "the modules that were there stay as they were"


def test_a_version_has_the_digest_that_it_has_under_its_plain_name(package: Path) -> None:
    plain = importlib.import_module("shop_of_versions.orders")
    one = import_version("shop_of_versions.orders", ONE)
    assert version_of(one.program) == version_of(plain.program)
    (package / "late.py").write_text("def factor():\n    return 2\n")
    two = import_version("shop_of_versions.orders", TWO)
    assert version_of(two.program).changed_since(version_of(one.program)) == "shop_of_versions.late.factor"


def test_what_fails_leaves_nothing_and_may_be_tried_again(package: Path) -> None:
    (package / "prices.py").write_text("raise OSError('no prices')\n")
    with pytest.raises(OSError, match="no prices"):
        import_version("shop_of_versions.orders", ONE)
    assert not [each for each in sys.modules if ONE in each]
    (package / "prices.py").write_text("price = 1\n")
    assert import_version("shop_of_versions.orders", ONE).prices.price == 1
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        import_version("nowhere.orders", ONE)
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        import_version("shop_of_versions.nothing", ONE)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("nowhere.orders:program", "nowhere.orders:program cannot be imported here: ModuleNotFoundError: .*nowhere"),
        ("shop_of_versions.orders:Money", "shop_of_versions.orders:Money is no transactional program here"),
        ("shop_of_versions.orders:program", f"has code .* here, and not {TWO}; other is shop_of_versions.late.factor"),
    ],
)
def test_a_node_says_why_it_cannot_have_a_program_and_keeps_nothing_of_it(
    package: Path, reference: str, reason: str
) -> None:
    proposed = importlib.import_module("shop_of_versions.orders").program
    described_as = version_of(proposed)
    (package / "late.py").write_text("def factor():\n    return 2\n")
    wanted = ProgramVersion.of(proposed, number=1, code=TWO, reference=reference)
    with pytest.raises(ProgramMissing, match=reason):
        loaded_version(wanted, described_as)
    assert not [each for each in sys.modules if TWO in each]


@pytest.mark.parametrize("name", ["os", "time", "sys", "itertools", "io", "abc", "os.path", "math", "collections.abc"])
def test_a_version_shares_modules_of_python_that_are_built_in_or_frozen(package: Path, name: str) -> None:
    """``os`` and ``time`` have no file to tell whose they are: each program that imported them was refused."""
    with (package / "prices.py").open("a") as file:
        file.write(f"import {name} as shared\n")
    assert import_version("shop_of_versions.orders", ONE).prices.shared is importlib.import_module(name)


def test_versions_share_modules_of_the_user_that_have_no_source(package: Path, tmp_path: Path) -> None:
    for source in (package / "late.py", tmp_path / "fees_of_versions.py"):
        source.write_text("def factor():\n    return 3\n")
        py_compile.compile(str(source), str(source.with_suffix(".pyc")))
        source.unlink()
    with (package / "prices.py").open("a") as file:
        file.write("import fees_of_versions as fees\n")
    plain = importlib.import_module("shop_of_versions.late")
    one, two = (import_version("shop_of_versions.orders", token) for token in (ONE, TWO))
    assert one.prices.fees is two.prices.fees is importlib.import_module("fees_of_versions")
    assert called(two.program) == called(one.program) == [1, 1, 60, "1"]
    assert sys.modules[f"shop_of_versions@{ONE}.late"] is plain
    assert plain.__spec__ is not None and plain.__spec__.name == "shop_of_versions.late"
    del sys.modules["fees_of_versions"]


def test_modules_of_holon_and_of_libraries_are_shared() -> None:
    import json

    assert import_version("json", ONE) is json
    assert import_version("transactional.operators", ONE) is sys.modules["transactional.operators"]
