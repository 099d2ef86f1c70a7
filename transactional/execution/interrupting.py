"""Which function of a program a thread is running, and how it is interrupted: by what stands on its stack.

Nothing is kept while functions run, so a function that does not hang pays nothing for being watched.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_COROUTINE
from types import FrameType
from typing import Final, NamedTuple

from transactional import context
from transactional.execution import Execution
from transactional.site import Called

STEPS: Final = frozenset(
    step.__code__
    for step in (Execution._begin, Execution._go, Execution._drop)  # pyright: ignore[reportPrivateUsage]
)
"""Where a function is called, goes on, and is ended: each has ``self`` and ``target``."""


class Step(NamedTuple):
    """A step of a function. ``frame``: the function's own, while it lives; ``is_in_ctx``: the program asks ``ctx``."""

    frame: FrameType
    execution: Execution
    target: Called
    is_in_ctx: bool

    def interrupt(self) -> None:
        """End the transaction, if the program's own code runs now. Raises ``TimedOut``, to be raised there."""
        if not self.is_in_ctx:
            self.execution.time_out(self.target)


def function_of(frame: FrameType | None) -> FrameType | None:
    """The frame of the innermost function of a program on this stack; None: there is none."""
    inner = None
    while frame is not None:
        if frame.f_code in STEPS:
            return inner if inner is not None and inner.f_code.co_flags & CO_COROUTINE else None
        inner, frame = frame, frame.f_back
    return None


def step_of(frame: FrameType | None) -> Step | None:
    """The step that this stack, of the calling thread, is in."""
    function = function_of(frame)
    if function is None:
        return None
    is_in_ctx = False
    while frame is not None and frame is not function:
        is_in_ctx |= frame.f_globals is vars(context)
        frame = frame.f_back
    assert function.f_back is not None
    found = function.f_back.f_locals
    return Step(function, found["self"], found["target"], is_in_ctx)


class Noting:
    """A profile function of the interpreter (``sys.setprofile``) that knows which transaction runs.

    ``note`` is called with the TID and what is called, whenever that changes.
    """

    def __init__(self, note: Callable[[int, str], None]) -> None:
        self._note = note
        self._last: tuple[int, str] | None = None

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """A Python function begins or goes on."""
        if event != "call":
            return
        caller = frame.f_back
        if frame.f_code in STEPS:
            self._remark(frame.f_locals["self"].tid, "")
        elif caller is not None and caller.f_code in STEPS and frame.f_code.co_flags & CO_COROUTINE:
            execution, target = caller.f_locals["self"], caller.f_locals["target"]
            self._remark(execution.tid, f"function {target.function} of operator {target.operator}")

    def _remark(self, tid: int, what: str) -> None:
        if self._last is None or self._last[0] != tid or (what and self._last[1] != what):
            self._last = tid, what
            self._note(tid, what)
