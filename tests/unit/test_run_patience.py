"""A checkpoint store that fails now and then."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from nodes.checkpoints import CheckpointKey, CheckpointMissing, StoreUnavailable
from nodes.patience import PAUSES_S, PatientCheckpoints

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

    def save(self, key: CheckpointKey, data: bytes) -> str:
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

    def prune(self, job: str, incarnation: int, partition: int, keep: Collection[str] = ()) -> list[str]:
        self._ask()
        return [job]


def patient(failures: int) -> tuple[PatientCheckpoints, Moody, list[float]]:
    slept: list[float] = []
    store = Moody(failures)
    return PatientCheckpoints(store, sleep=slept.append), store, slept


def test_a_store_that_comes_back_is_waited_for() -> None:
    checkpoints, _, slept = patient(failures=3)
    assert checkpoints.save(KEY, b"x") == "job b'x'"
    assert slept == list(PAUSES_S[:3])
    assert checkpoints.load("a") == b"a" and checkpoints.list("j", 0, 0) == ["j"]


def test_a_store_that_stays_away_is_an_error_in_the_end() -> None:
    checkpoints, store, slept = patient(failures=100)
    with pytest.raises(StoreUnavailable, match="store down"):
        checkpoints.load("a")
    assert store.asked == len(PAUSES_S) + 1 and sum(slept) == pytest.approx(3.0)


def test_a_missing_checkpoint_is_not_waited_for() -> None:
    checkpoints, _, slept = patient(failures=0)
    with pytest.raises(CheckpointMissing):
        checkpoints.load("gone")
    assert slept == []


def test_old_checkpoints_that_cannot_be_deleted_harm_nothing() -> None:
    checkpoints, store, slept = patient(failures=1)
    assert checkpoints.prune("j", 0, 0) == [] and slept == []
    assert checkpoints.prune("j", 0, 0) == ["j"] and store.asked == 2
