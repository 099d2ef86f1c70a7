"""A build of the compiled loops that failed is told, and tried again after a time or when a module has changed."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holon.columnar.loops import install, installed
from nodes.compiled import loading


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Exit codes of builds that are still to come; each call takes one. Those with 0 leave a file."""
    codes: list[int] = []

    def run(command: list[str], **_: Any) -> Any:
        code = codes.pop(0)
        if code == -1:
            raise subprocess.TimeoutExpired(command, loading.BUILD_TIMEOUT_S)
        if code == 0:
            Path(command[-1]).write_bytes(b"machine code")
        return subprocess.CompletedProcess(command, code, "", "it has no symbol" if code else "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(loading, "loops_file", lambda: tmp_path / "loops.bin")
    monkeypatch.setattr(loading, "load", lambda path: None)
    before = installed()
    install(None)
    monkeypatch.setattr(loading, "install", lambda loops: None)
    yield codes  # type: ignore[misc]
    install(before)


@pytest.mark.parametrize("code", [1, -1])
def test_a_build_that_failed_is_tried_again_after_a_time(code: int, builds: list[int], tmp_path: Path) -> None:
    builds += [code, 0]
    assert not loading.ensure() and builds == [0]
    assert not loading.ensure() and builds == [0], "not so soon"
    failed, path = tmp_path / "loops.failed", tmp_path / "loops.bin"
    assert not path.exists()
    long_ago_s = time.time() - loading.RETRY_AFTER_S - 1
    os.utime(failed, (long_ago_s, long_ago_s))
    loading.ensure()
    assert builds == [] and path.exists() and not failed.exists()


def test_its_reason_is_told_each_time(builds: list[int], caplog: pytest.LogCaptureFixture) -> None:
    builds += [1]
    for _ in range(2):
        caplog.clear()
        loading.ensure()
        assert "it has no symbol" in caplog.text


def test_an_empty_file_is_made_anew(builds: list[int], tmp_path: Path) -> None:
    builds += [0]
    (tmp_path / "loops.bin").touch()
    loading.ensure()
    assert builds == []


@pytest.mark.slow
def test_sources_are_all_modules_of_which_the_code_is_made() -> None:
    """So a change of any of them is another file."""
    for name in loading.SOURCES:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        for node in ast.walk(ast.parse(Path(spec.origin).read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("holon", "nodes"):
                assert node.module in loading.SOURCES, f"{name} imports it"
