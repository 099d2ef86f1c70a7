"""A checkpoint store that fails now and then."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest

from nodes.checkpoints.store import CheckpointKey, CheckpointMissing, StoreUnavailable
from nodes.checkpoints.store_retries import PAUSES_S, PatientCheckpoints

KEY = CheckpointKey("job", 0, 0, (1, 0), (2, 0))


class Moody:
    """Fails so many times, then works."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.asked = 0

    def _ask(self) -> None:
        self.asked += 1
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("store down")

    def save(self, key: CheckpointKey, data: bytes, copies: int = 1) -> str:
        self._ask()
        return f"{key.job} {data!r}"

    def load(self, name: str) -> bytes:
        self._ask()
        if name == "gone":
            raise CheckpointMissing(name)
        return name.encode()

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        self._ask()
        return [job]

    def prune(
        self, job: str, incarnation: int, partition: int, keep: Collection[str] = (), below: Collection[str] = ()
    ) -> list[str]:
        self._ask()
        return [job]


class Clock:
    """Time that passes only where somebody sleeps; after ``leave_after_s`` the node wants to leave."""

    def __init__(self, leave_after_s: float = float("inf")) -> None:
        self.now_s = 0.0
        self.leave_after_s = leave_after_s
        self.leaving = threading.Event()
        self.slept: list[float] = []

    def sleep(self, pause_s: float) -> None:
        self.slept.append(pause_s)
        self.now_s += pause_s
        if self.now_s >= self.leave_after_s:
            self.leaving.set()


def patient(failures: int, clock: Clock) -> tuple[PatientCheckpoints, Moody]:
    store = Moody(failures)
    checkpoints = PatientCheckpoints(store, clock.leaving, leave_s=15.0, sleep=clock.sleep, clock_s=lambda: clock.now_s)
    return checkpoints, store


def test_a_store_that_comes_back_is_waited_for_however_long_it_takes() -> None:
    clock = Clock()
    checkpoints, store = patient(1000, clock)
    assert checkpoints.save(KEY, b"x") == "job b'x'"
    assert tuple(clock.slept[: len(PAUSES_S)]) == PAUSES_S and set(clock.slept[len(PAUSES_S) :]) == {PAUSES_S[-1]}
    assert store.asked == 1001
    assert checkpoints.load("a") == b"a" and checkpoints.list("j", 0, 0) == ["j"]


def test_a_node_that_wants_to_leave_waits_for_so_long_and_then_says_why_it_cannot() -> None:
    clock = Clock(leave_after_s=100.0)
    checkpoints, _ = patient(100_000, clock)
    with pytest.raises(StoreUnavailable, match="store down"):
        checkpoints.save(KEY, b"x")
    assert 115.0 <= clock.now_s <= 115.0 + 2 * PAUSES_S[-1]


def test_a_node_that_is_leaving_already_still_gives_the_store_its_time() -> None:
    clock = Clock(leave_after_s=0.0)
    clock.leaving.set()
    checkpoints, _ = patient(9, clock)
    assert checkpoints.save(KEY, b"x") == "job b'x'"


def test_an_absence_is_reported_at_once_then_every_ten_seconds_and_its_end_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    checkpoints, _ = patient(20, clock)
    checkpoints.load("a")
    waits = [record.getMessage() for record in caplog.records]
    assert waits[0].startswith("the partition of checkpoint a waits for 0 s, the node works on: store down")
    assert len(waits) == 5 and waits[-1] == f"the checkpoint store answers again after {clock.now_s:.0f} s"


def test_a_missing_checkpoint_is_not_waited_for() -> None:
    clock = Clock()
    checkpoints, _ = patient(0, clock)
    with pytest.raises(CheckpointMissing):
        checkpoints.load("gone")
    assert clock.slept == []


def test_old_checkpoints_that_cannot_be_deleted_harm_nothing() -> None:
    clock = Clock()
    checkpoints, store = patient(1, clock)
    assert checkpoints.prune("j", 0, 0) == [] and clock.slept == []
    assert checkpoints.prune("j", 0, 0) == ["j"] and store.asked == 2
