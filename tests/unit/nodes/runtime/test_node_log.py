"""The log of a node's process."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.log import LogAddress, MemoryLog
from nodes.runtime import log_opening
from nodes.settings.settings import load_settings


def test_a_node_gives_a_broker_that_stands_still_as_long_when_it_starts_as_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[LogAddress] = []
    monkeypatch.setattr(log_opening, "open_log", lambda address: asked.append(address) or MemoryLog())
    definitions = ("log.kind=kafka", "log.bootstrap=127.0.0.1:9", "log.timeout_ms=40000")
    settings = load_settings(definitions=definitions, environ={}, directory=tmp_path)
    log_opening.open_node_log(settings)
    log_opening.open_job_log(settings)
    assert [address.connect_timeout_s for address in asked] == [40.0, None]
