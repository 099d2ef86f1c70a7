"""Waking readers: with the kernel's help and without."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from nodes.log.embedded.notifier import Notifier, create_notifier_file
from tests.integration.processes import PLENTY_S


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_notifier_file(tmp_path / "bell")
    return tmp_path / "bell"


@pytest.mark.parametrize("futex", [True, False])
def test_whoever_waits_is_woken_by_a_ring(path: Path, futex: bool) -> None:
    ours, theirs = Notifier(path, futex=futex), Notifier(path)
    heard = []

    def listen() -> None:
        for _ in range(100):
            seen = ours.sample()
            asked.release()
            while ours.sample() == seen:
                ours.wait(seen, PLENTY_S)
            heard.append(seen)

    asked = threading.Semaphore(0)
    thread = threading.Thread(target=listen)
    thread.start()
    for _ in range(100):
        asked.acquire()
        theirs.ring()
    thread.join()
    assert len(set(heard)) == 100
    for notifier in (ours, theirs):
        notifier.close()


@pytest.mark.parametrize("futex", [True, False])
def test_a_ring_between_sample_and_wait_is_not_missed(path: Path, futex: bool) -> None:
    notifier = Notifier(path, futex=futex)
    seen = notifier.sample()
    notifier.ring()
    began_s = time.monotonic()
    notifier.wait(seen, 3600)
    assert time.monotonic() - began_s < PLENTY_S
    notifier.close()


@pytest.mark.parametrize("futex", [True, False])
def test_nobody_waits_longer_than_told(path: Path, futex: bool) -> None:
    notifier = Notifier(path, futex=futex)
    began_s = time.monotonic()
    notifier.wait(notifier.sample(), 0.01)
    notifier.wait(notifier.sample(), 0.0)
    assert time.monotonic() - began_s < PLENTY_S
    notifier.close()


def test_a_closed_bell_may_be_rung_and_waited_for_by_late_threads(path: Path) -> None:
    notifier = Notifier(path)
    notifier.close()
    notifier.ring()
    began_s = time.monotonic()
    notifier.wait(notifier.sample(), 0.01)
    assert time.monotonic() - began_s < PLENTY_S
