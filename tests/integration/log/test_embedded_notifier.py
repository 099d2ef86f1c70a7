"""Waking readers: with the kernel's help and without."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from nodes.log import EmbeddedLog
from nodes.log.embedded.notifier import Notifier, create_notifier_file
from tests.integration.processes import PLENTY_S


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_notifier_file(tmp_path / "notifier")
    return tmp_path / "notifier"


@pytest.mark.parametrize("futex", [True, False])
def test_whoever_waits_is_woken_by_a_notification(path: Path, futex: bool) -> None:
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
        theirs.notify()
    thread.join()
    assert len(set(heard)) == 100
    for notifier in (ours, theirs):
        notifier.close()


@pytest.mark.parametrize("futex", [True, False])
def test_a_notification_between_sample_and_wait_is_not_missed(path: Path, futex: bool) -> None:
    notifier = Notifier(path, futex=futex)
    seen = notifier.sample()
    notifier.notify()
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
    notifier.notify()
    began_s = time.monotonic()
    notifier.wait(notifier.sample(), 0.01)
    assert time.monotonic() - began_s < PLENTY_S


def test_a_folder_of_an_earlier_release_keeps_the_names_of_its_files(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log") as log:
        log.create_topic("t", 1)
    old_names = {"notifier": "doorbell", "free-space-reserve": "reserve"}
    for new, old in old_names.items():
        (tmp_path / "log" / new).rename(tmp_path / "log" / old)
    with EmbeddedLog(tmp_path / "log") as log:
        log.append("t", 0, [b"x"])
    names = {file.name for file in (tmp_path / "log").iterdir()}
    assert names >= {*old_names.values()} and not names & {*old_names}
