"""Which function of a program runs, and how it is interrupted. Only the process's main thread runs functions.

``Execution`` names each step in ``RUNNING`` before it makes it. The step is being made at this moment if the
function's frame is on the thread's stack.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType, FrameType
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from transactional import context
from transactional.execution.site import Called
from transactional.sampled_cpu import SampledCpu


class Interruptible(Protocol):
    """An execution of a transaction."""

    tid: int

    def time_out(self, target: Called) -> NoReturn:
        """End it, as this function runs too long."""
        ...


class RunningCall:
    """The last step that was begun: a call in a transaction, and the coroutine that runs it.

    ``cpu``: measures each call, None: it is not measured.
    """

    __slots__ = ("coroutine", "cpu", "execution", "target")

    def __init__(self) -> None:
        self.execution: Interruptible | None = None
        self.target: Called | None = None
        self.coroutine: CoroutineType[Any, Any, Any] | None = None
        self.cpu: SampledCpu | None = None

    @property
    def frame(self) -> FrameType | None:
        """The function's own frame; None once it has ended."""
        return None if self.coroutine is None else self.coroutine.cr_frame


RUNNING: Final = RunningCall()


class FunctionStep(NamedTuple):
    """A step of a function. ``frame``: the function's own, until it ends; ``is_in_ctx``: the program calls ``ctx``."""

    frame: FrameType
    execution: Interruptible
    target: Called
    is_in_ctx: bool

    def interrupt(self) -> None:
        """End the transaction, if the program's own code runs now. Raises ``TimedOut``, to be raised there."""
        if not self.is_in_ctx:
            self.execution.time_out(self.target)


def function_of(frame: FrameType | None) -> FrameType | None:
    """The frame of the function that runs on this stack; None: there is none."""
    function = RUNNING.frame
    while frame is not None and frame is not function:
        frame = frame.f_back
    return frame


def step_of(frame: FrameType | None) -> FunctionStep | None:
    """The step that this stack, of the main thread, is in; to be called in that thread."""
    function = function_of(frame)
    execution, target = RUNNING.execution, RUNNING.target
    if function is None or execution is None or target is None:
        return None
    is_in_ctx = False
    while frame is not None and frame is not function:
        is_in_ctx |= frame.f_globals is vars(context)
        frame = frame.f_back
    return FunctionStep(function, execution, target, is_in_ctx)


class Noting:
    """A profile function of the interpreter (``sys.setprofile``) that knows which transaction runs.

    ``note`` is called with the TID and what is called, whenever that changes.
    """

    def __init__(self, note: Callable[[int, str], None]) -> None:
        self._note = note
        self._last: tuple[int, str] | None = None
        RUNNING.execution = RUNNING.coroutine = None  # of the parent process

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """A Python function begins or goes on."""
        execution, target = RUNNING.execution, RUNNING.target
        if event != "call" or execution is None or target is None:
            return
        is_function = frame is RUNNING.frame
        self._remark(execution.tid, f"function {target.function} of operator {target.operator}" if is_function else "")

    def _remark(self, tid: int, what: str) -> None:
        if self._last is None or self._last[0] != tid or (what and self._last[1] != what):
            self._last = tid, what
            self._note(tid, what)
