"""The context of log lines in threads."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator

import pytest

from nodes.runtime.logging_setup import set_up_logging, undo_logging
from tests.unit.nodes.runtime.test_logging_setup import records


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    yield io.StringIO()
    undo_logging()


def test_the_context_holds_in_every_thread(stream):
    set_up_logging("info", "json", stream=stream, node=3)
    thread = threading.Thread(target=lambda: logging.getLogger("nodes.heartbeat").info("beat"))
    thread.start()
    thread.join()
    assert records(stream)[0]["node"] == 3
