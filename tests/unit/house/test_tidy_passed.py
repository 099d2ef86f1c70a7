"""Files that passed before are left out only where nothing that the check depends on has changed."""

from __future__ import annotations

from pathlib import Path

from tests.tidy.passed import KEPT, Passed, digest
from tests.tidy.source import Source
from tests.tidy.types import digests

SETTINGS = '[tool.pyright]\ninclude = ["wcrdt", "holon", "nodes"]\nexclude = ["nodes/peers"]\n'
FILES = {
    "pyproject.toml": SETTINGS,
    "requirements.lock": "libraries",
    "wcrdt/__init__.py": '"""Lattices."""\n',
    "wcrdt/base.py": "BASE = 1\n",
    "wcrdt/sums.py": "from wcrdt.base import BASE\n",
    "holon/__init__.py": '"""Jobs."""\n',
    "holon/job.py": "def late() -> int:\n    from wcrdt import sums\n    return sums.BASE\n",
    "nodes/__init__.py": '"""Nodes."""\n',
    "nodes/alone.py": "import os\n",
    "nodes/peers/other.py": "import sys\n",
    "tests/unit/test_a.py": "import wcrdt.base\n",
}
PYTHON = {name for name in FILES if name.startswith(("wcrdt", "holon", "nodes"))} - {"nodes/peers/other.py"}
"""The files that pyright checks by these settings."""


def changed_by(path: str, text: str) -> set[str]:
    """The files whose digest is another one once that file has this text."""
    before = digests(Source(name, content) for name, content in FILES.items())
    after = digests(Source(name, content) for name, content in (FILES | {path: text}).items())
    return {name for name in after if after[name] != before.get(name)}


def test_digests_cover_what_pyright_checks() -> None:
    found = digests(Source(name, text) for name, text in FILES.items())
    assert set(found) == PYTHON


def test_types_are_checked_again_of_a_file_and_of_all_that_import_it() -> None:
    assert changed_by("nodes/alone.py", "import sys\n") == {"nodes/alone.py"}
    assert changed_by("wcrdt/sums.py", "from wcrdt.base import BASE as B\n") == {"wcrdt/sums.py", "holon/job.py"}
    assert changed_by("wcrdt/base.py", "BASE = 'a'\n") == {"wcrdt/base.py", "wcrdt/sums.py", "holon/job.py"}


def test_packages_are_imports_too() -> None:
    assert changed_by("holon/__init__.py", '"""Others."""\n') == {"holon/__init__.py", "holon/job.py"}
    assert "holon/job.py" in changed_by("wcrdt/__init__.py", "BASE = 1\n")


def test_other_settings_and_other_libraries_concern_all() -> None:
    assert changed_by("pyproject.toml", f"{SETTINGS}strict = true\n") == PYTHON
    assert changed_by("requirements.lock", "newer") == PYTHON


def test_a_module_that_appears_or_goes_is_a_change_of_its_importers() -> None:
    with_module = changed_by("wcrdt/sums/__init__.py", "BASE = 2\n")
    assert {"wcrdt/sums/__init__.py", "holon/job.py"} <= with_module


def test_what_passed_is_left_out_until_it_changes(tmp_path: Path) -> None:
    first = {"a": digest("1"), "b": digest("2")}
    assert Passed("check", tmp_path).changed(first) == ["a", "b"]
    Passed("check", tmp_path).keep(first, failed=["b"])
    assert Passed("check", tmp_path).changed(first) == ["b"]
    assert Passed("check", tmp_path).changed({"a": digest("3")}) == ["a"]
    assert Passed("other", tmp_path).changed(first) == ["a", "b"]
    assert Passed("check", tmp_path).changed({"c": digest("1")}) == ["c"]


def test_what_passed_in_another_clone_is_left_out_in_this_one_until_it_fails(tmp_path: Path) -> None:
    first, second = {"a": digest("1"), "b": digest("2")}, {"a": digest("3")}
    Passed("check", tmp_path).keep(first, failed=[])
    Passed("check", tmp_path).keep(second, failed=[])
    assert Passed("check", tmp_path).changed(first) == Passed("check", tmp_path).changed(second) == []
    Passed("check", tmp_path).keep(first, failed=["a"])
    assert Passed("check", tmp_path).changed(first) == ["a"]


def test_those_that_were_met_last_are_kept(tmp_path: Path) -> None:
    first, others = {"a": digest("1")}, {f"b{place}": digest("2") for place in range(KEPT - 1)}
    Passed("check", tmp_path).keep(first, failed=[])
    Passed("check", tmp_path).keep(others, failed=[])
    assert Passed("check", tmp_path).changed(first) == []
    Passed("check", tmp_path).keep({"c": digest("3")}, failed=[])
    assert Passed("check", tmp_path).changed(first) == ["a"]
    assert Passed("check", tmp_path).changed(others) == []


def test_a_cache_that_cannot_be_written_knows_of_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Passed("check", tmp_path / "file").keep({"a": "1"}, failed=[])
    assert Passed("check", tmp_path / "file").changed({"a": "1"}) == ["a"]


def test_a_damaged_file_knows_of_none(tmp_path: Path) -> None:
    (tmp_path / "check.json").write_text("{")
    assert Passed("check", tmp_path).changed({"a": "1"}) == ["a"]


def test_texts_are_known_by_their_places() -> None:
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4
