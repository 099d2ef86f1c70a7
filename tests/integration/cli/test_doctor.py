"""`holon doctor`: what is missing is named with what to install, and decides the exit code."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from nodes.cli.checks import machine as checks
from nodes.cli.main import run
from nodes.local_kafka import java

pytestmark = pytest.mark.usefixtures("empty_folder")

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch):
    """Pretend that a package is not installed."""

    def _without(name: str) -> None:
        real = metadata.version

        def version(asked: str) -> str:
            if asked == name:
                raise metadata.PackageNotFoundError(asked)
            return real(asked)

        monkeypatch.setattr(metadata, "version", version)

    return _without


def test_a_complete_machine_is_ok(capfd):
    assert run(["doctor", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["ok"] is True
    rows = {row["name"]: row for row in report["checks"]}
    assert rows["embedded log"]["status"] == "ok"
    assert rows["package lmdb"]["found"] == metadata.version("lmdb")


def test_a_missing_core_package_ends_with_3_and_the_command_to_install_it(without, capfd):
    without("lmdb")
    assert run(["doctor"]) == 3
    out, err = capfd.readouterr()
    assert re.search(r"^MISSING package lmdb: not installed -> pip install lmdb$", out, re.M)
    assert "package lmdb" in err


def test_a_missing_extra_is_optional_unless_required(without, capfd):
    without("redis")
    assert run(["doctor"]) == 0
    assert "pip install 'holon-streams[redis]'" in capfd.readouterr().out
    assert run(["doctor", "--require", "redis", "--json"]) == 3
    assert json.loads(capfd.readouterr().out)["ok"] is False


def test_a_missing_java_says_what_to_install(monkeypatch, capfd):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert run(["doctor", "--require", "java"]) == 3
    assert "openjdk-17" in capfd.readouterr().out


def test_an_old_java_is_missing_too(monkeypatch, capfd, tmp_path: Path):
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(["doctor", "--require", "java"]) == 3
    assert "version 11" in capfd.readouterr().out


def test_an_unknown_requirement_is_a_usage_error(capfd):
    assert run(["doctor", "--require", "sparc"]) == 2
    assert "nearest: spark" in capfd.readouterr().err


def test_an_unwritable_temporary_folder_is_reported(monkeypatch, capfd):
    def refuse(prefix: str) -> None:
        raise PermissionError(13, "Permission denied", f"/nowhere/{prefix}")

    monkeypatch.setattr(checks.tempfile, "TemporaryDirectory", refuse)
    assert run(["doctor"]) == 3
    assert re.search(r"^MISSING embedded log: .*/nowhere.* -> set TMPDIR", capfd.readouterr().out, re.M)


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.9" 2023-10-17', 17), ('java version "1.8.0_392"', 8), ('openjdk version "21" x', 21),
     ("gibberish", None)],
)  # fmt: skip
def test_java_versions_are_understood(text, version):
    assert java.java_version(text) == version


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[; ]", requirement)[0] for requirement in requirements}


def test_the_packages_that_are_checked_are_those_of_the_project():
    core = names(PROJECT["dependencies"])
    assert set(core) == set(checks.CORE)
    extras = {extra: names(listed) for extra, listed in PROJECT["optional-dependencies"].items() if extra != "all"}
    assert {extra: set(packages) for extra, packages in checks.EXTRAS.items()} == extras
