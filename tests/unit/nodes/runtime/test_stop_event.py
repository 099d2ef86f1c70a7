"""An event that a signal handler sets: the signal may come at any line of the thread that waits for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from nodes.runtime.stop_signals import StopEvent

PLENTY_S = 60.0


def interrupted(call: Callable[[], Any], at_line: int, handler: Callable[[], None]) -> tuple[Any, int]:
    """Call with a handler at that line: the answer, and how many lines of Python it took."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == at_line:
                handler()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = call()
    finally:
        sys.settrace(before)
    return found, lines


def test_a_signal_at_any_line_of_a_wait_is_noticed() -> None:
    StopEvent().wait(0.0)  # imports what it needs
    event = StopEvent()
    _, lines = interrupted(lambda: event.wait(0.0), 0, event.set)
    assert lines > 3
    for line in range(1, lines + 1):
        event = StopEvent()
        found, _ = interrupted(lambda event=event: event.wait(0.0), line, event.set)
        assert found and event.wait(PLENTY_S)


@pytest.mark.parametrize("line", range(1, 4))
def test_a_second_signal_within_the_first_is_no_harm(line: int) -> None:
    event = StopEvent()
    interrupted(event.set, line, event.set)
    assert event.is_set() and event.wait(0.0) and event.wait(PLENTY_S)


def test_without_a_signal_a_wait_ends_at_its_time() -> None:
    event = StopEvent()
    assert not event.wait(0.0) and not event.wait(-1.0) and not event.is_set()
