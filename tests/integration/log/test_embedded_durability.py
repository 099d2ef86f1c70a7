"""When the embedded log syncs to disk, and what it does when the disk refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest

from nodes.log import EmbeddedLog, Fsync, LogError, LogUnavailable
from nodes.log.embedded import environment
from tests.integration.processes import until


class CountingEnvironment:
    """LMDB's environment with a count of syncs, which may fail."""

    def __init__(self, inner: lmdb.Environment, options: dict[str, Any]) -> None:
        self._inner = inner
        self.options = options
        self.syncs = 0
        self.broken = False

    def sync(self, force: bool = False) -> None:
        self.syncs += 1
        if self.broken:
            raise lmdb.Error("mdb_env_sync", 5)
        self._inner.sync(force)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Engine:
    """The module ``lmdb`` with another way to open environments."""

    def __init__(self, open_environment: Callable[..., CountingEnvironment]) -> None:
        self.open = open_environment

    def __getattr__(self, name: str) -> Any:
        return getattr(lmdb, name)


@contextmanager
def counted(path: Path, fsync: Fsync, interval_ms: int) -> Iterator[tuple[EmbeddedLog, CountingEnvironment]]:
    opened: list[CountingEnvironment] = []

    def open_counting(*arguments: Any, **options: Any) -> CountingEnvironment:
        opened.append(CountingEnvironment(lmdb.open(*arguments, **options), options))
        return opened[-1]

    with EmbeddedLog(path, fsync, interval_ms) as log, pytest.MonkeyPatch.context() as patch:
        log.create_topic("t", 1)
        patch.setattr(environment, "lmdb", Engine(open_counting))
        log.end_offset("t", 0)
        (disk,) = opened
        yield log, disk


def refused() -> Any:
    return pytest.raises(LogUnavailable, match=r"'t' partition 0: .*mdb_env_sync.* acknowledged any more; check the")


def test_interval_syncs_soon_after_an_append_and_not_again_without_one(tmp_path: Path) -> None:
    with counted(tmp_path / "log", "interval", 20) as (log, disk):
        log.append("t", 0, [b"a"])
        until(lambda: disk.syncs == 1, "the first sync")
        log.append("t", 0, [b"b"])
        until(lambda: disk.syncs == 2, "the second sync")
        log.flush()
        assert disk.syncs == 2
    assert disk.syncs == 2


def test_interval_syncs_once_for_many_appends_and_at_the_end(tmp_path: Path) -> None:
    with counted(tmp_path / "log", "interval", 3_600_000) as (log, disk):
        for _ in range(100):
            log.append("t", 0, [b"a"])
        assert disk.syncs == 0
    assert disk.syncs == 1


def test_none_syncs_only_when_told_to(tmp_path: Path) -> None:
    with counted(tmp_path / "log", "none", 1) as (log, disk):
        log.append("t", 0, [b"a"])
        assert disk.syncs == 0
        log.flush()
        assert disk.syncs == 1
        log.append("t", 0, [b"b"])
    assert disk.syncs == 1


def test_batch_leaves_it_to_each_commit(tmp_path: Path) -> None:
    with counted(tmp_path / "log", "batch", 1) as (log, disk):
        log.append("t", 0, [b"a"])
        assert disk.options["sync"] and disk.options["metasync"]


def test_a_failed_sync_ends_all_acknowledgements(tmp_path: Path) -> None:
    with refused(), counted(tmp_path / "log", "interval", 3_600_000) as (log, disk):
        log.create_topic("other", 1)
        log.append("t", 0, [b"a"])
        disk.broken = True
        with refused():
            log.flush()
        disk.broken = False
        with refused():
            log.append("t", 0, [b"b"])
        with refused():
            log.flush()
        assert log.read("t", 0, 0).values == [b"a"]
        log.append("other", 0, [b"another partition"])
    with EmbeddedLog(tmp_path / "log") as log:  # the last close has told it too, and closed everything
        assert log.append("t", 0, [b"b"]).first_offset == 1


def test_a_sync_that_fails_in_the_background_is_told_to_the_next_append(tmp_path: Path) -> None:
    with refused(), counted(tmp_path / "log", "interval", 10) as (log, disk):
        disk.broken = True
        log.append("t", 0, [b"a"])
        until(lambda: disk.syncs == 1, "the failed sync")
        with refused():
            until(lambda: log.append("t", 0, [b"b"]) is None, "an append that is refused")


def test_a_weaker_policy_shares_what_is_open_and_a_stronger_one_is_refused(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "log", "interval") as log, EmbeddedLog(tmp_path / "log", "none") as weak:
        log.create_topic("t", 1)
        log.append("t", 0, [b"a"])
        weak.append("t", 0, [b"b"])
        with EmbeddedLog(tmp_path / "log", "batch") as strong, pytest.raises(LogError, match="fsync='interval'"):
            strong.append("t", 0, [b"c"])
        assert log.read("t", 0, 0).values == [b"a", b"b"]
    with EmbeddedLog(tmp_path / "log", "batch") as strong:
        strong.append("t", 0, [b"c"])


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none, interval, batch"):
        EmbeddedLog(tmp_path / "log", "always")  # type: ignore[arg-type]
