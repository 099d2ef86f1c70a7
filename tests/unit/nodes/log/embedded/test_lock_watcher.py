"""A watcher whose thread cannot start: it can be stopped, and tries again."""

from __future__ import annotations

import threading

import pytest

from nodes.log.embedded.lock_watcher import LockWatcher


def test_a_thread_that_could_not_start_is_not_waited_for_and_is_started_by_the_next_notice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def start(thread: threading.Thread) -> None:
        tried.append(thread.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    watcher = LockWatcher()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="new thread"):
            watcher.notice()
    watcher.stop()
    assert tried == ["holon-log-watch"] * 2
