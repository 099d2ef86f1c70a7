"""The common part of several unit tests."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

import pytest

from holon.columnar.loops import install
from nodes.compiled import loading as compiled


@pytest.fixture(scope="session", autouse=True)
def loops_are_compiled() -> None:
    """On a new machine a process compiles them: before ``nothing_starts``."""
    assert compiled.ensure(), "numba is part of the development environment"
    install(None)


STARTS: tuple[tuple[Any, str], ...] = (
    (threading.Thread, "start"),
    (subprocess.Popen, "__init__"),
    (BaseProcess, "start"),
    *((os, name) for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system") if hasattr(os, name)),
)


@pytest.fixture(scope="module", autouse=True)
def nothing_starts() -> Iterator[None]:
    """A thread or a process that a unit test starts is an error, at the end of its module if the test swallows it."""
    started: list[str] = []

    def refusing(what: str) -> Callable[..., NoReturn]:
        def refuse(*_: object, **__: object) -> NoReturn:
            started.append(f"{os.environ.get('PYTEST_CURRENT_TEST')}: {what}")
            raise AssertionError(f"{what}: a unit test starts no thread and no process; it is an integration test")

        return refuse

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in STARTS:
            patch.setattr(owner, name, refusing(f"{owner.__name__}.{name}"))
        yield
    assert not started, started
