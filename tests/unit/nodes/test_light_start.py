"""Changes of a process before it imports the engine."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from nodes.light_start import GC_THRESHOLDS, start_lightly


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_numpy_gets_one_thread_and_cycles_are_searched_for_rarely() -> None:
    gc.set_threshold(700, 10, 10)
    environ = {"HOME": "/"}
    start_lightly(environ)
    assert environ == {"HOME": "/", "OPENBLAS_NUM_THREADS": "1"}
    assert gc.get_threshold() == GC_THRESHOLDS and gc.isenabled()


@pytest.mark.parametrize("name", ["OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"])
def test_who_says_how_many_threads_keeps_them(name: str) -> None:
    environ = {name: "3"}
    start_lightly(environ)
    assert environ == {name: "3"}
