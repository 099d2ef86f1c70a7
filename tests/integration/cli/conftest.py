"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.runtime.logging_setup import undo_logging


@pytest.fixture
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Commands run in a folder of their own; their logging ends with the test."""
    monkeypatch.chdir(tmp_path)
    yield
    undo_logging()
