"""Windows driven by data: those of a key follow from its elements, one after the other, in the order of event time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from wcrdt.windows.durations import duration_ms

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Change(NamedTuple):
    """The effect of an element on the windows of its key, of which one is open at most.

    ``state``: of the window that is open behind the element; None: none is, so that it ends with the element.
    ``takes``: the element belongs to the open window, or is the first one of another. ``closes``: the window that is
    open ends before it.
    """

    state: Any
    takes: bool = True
    closes: bool = False


@runtime_checkable
class DataDriven(Protocol[T_contra]):
    """Windows of the elements of a key that the elements themselves open and close.

    ``next`` is called for each element, in the order of time, topic, partition, offset and place. So it is pure. An
    open window closes by itself ``timeout_ms`` after its first element, where that is not None.
    """

    @property
    def slice_ms(self) -> int:
        """Event time is cut in slices so long (ms). Windows close at ends of slices, and later elements are late."""
        ...

    @property
    def timeout_ms(self) -> int | None:
        """How long a window is open at most (ms). None needs elements that close each window, or input that ends."""
        ...

    @property
    def marks(self) -> Sequence[Callable[[T_contra], Any]]:
        """Functions of an element, on whose bools, ints, texts or bytes ``next`` decides."""
        ...

    def next(self, state: Any, *marks: Any) -> Change:
        """The change by an element with these marks; bools come as 0 and 1. ``state``: None where no window is open.

        A state is None, a bool, an int, a text, bytes, or a tuple of these: it is kept in checkpoints.
        """
        ...

    def describe(self) -> str:
        """Canonical text of the parameters, part of the job's fingerprint."""
        ...


class Count:
    """Windows of so many elements of a key, side by side: the first ``size`` ones, the next ones, and so on.

    Args:
        size: 1 or more.
        timeout: ms, or a text as ``"1d"``: a window closes so long after its first element, with those that it has.
            None: it is open until ``size`` have come, or until the end of input that is declared to end.
        slice: ms, or a text: how long slices of event time are.
    """

    __slots__ = ("size", "slice_ms", "timeout_ms")

    marks: Sequence[Callable[[Any], Any]] = ()

    def __init__(self, size: int, *, timeout: int | str | None = None, slice: int | str = "1s") -> None:
        self.size = index(size)
        if self.size < 1:
            raise ValueError(f"windows by count have 1 element or more, got {size}")
        self.slice_ms, self.timeout_ms = _durations(slice, timeout)

    def next(self, state: Any, *marks: Any) -> Change:
        count = (state or 0) + 1
        return Change(None if count == self.size else count)

    def describe(self) -> str:
        return f"count({self.size},{self.timeout_ms},{self.slice_ms})"

    def __repr__(self) -> str:
        return f"Count({self.size}, timeout={self.timeout_ms}, slice={self.slice_ms})"


class Between(Generic[T]):
    """Windows from an element for which ``start`` is true to the next one for which ``end`` is: both belong to it.

    An element that is both, and comes where no window is open, is a window by itself. In an open window ``start`` does
    nothing. Elements between two windows are in none.

    Args:
        start, end: of an element; what they give counts as true or false.
        timeout: ms, or a text as ``"6h"``: a window closes so long after its first element, without the ones that come
            then. None needs input that ends, since no end may come.
        slice: ms, or a text: how long slices of event time are.
    """

    __slots__ = ("end", "slice_ms", "start", "timeout_ms")

    def __init__(
        self,
        start: Callable[[T], Any],
        end: Callable[[T], Any],
        *,
        timeout: int | str | None = None,
        slice: int | str = "1s",
    ) -> None:
        self.start, self.end = start, end
        self.slice_ms, self.timeout_ms = _durations(slice, timeout)

    @property
    def marks(self) -> Sequence[Callable[[T], Any]]:
        return self.start, self.end

    def next(self, state: Any, *marks: Any) -> Change:
        start, end = marks
        if state is None and not start:
            return _OUTSIDE
        return _LAST if end else _INSIDE

    def describe(self) -> str:
        return f"between({self.timeout_ms},{self.slice_ms})"

    def __repr__(self) -> str:
        return f"Between(timeout={self.timeout_ms}, slice={self.slice_ms})"


_OUTSIDE, _INSIDE, _LAST = Change(None, takes=False), Change(1), Change(None)


def _durations(slice: int | str, timeout: int | str | None) -> tuple[int, int | None]:
    slice_ms, timeout_ms = duration_ms(slice), None if timeout is None else duration_ms(timeout)
    if slice_ms < 1 or (timeout_ms is not None and timeout_ms < 1):
        raise ValueError(f"slice and timeout are 1 ms or more, got {slice!r} and {timeout!r}")
    return slice_ms, timeout_ms
