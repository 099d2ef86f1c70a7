"""The context: what a processing function gets with the record or window in hand, and where it emits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from holon.errors import JobError
from holon.program.access import Emitter, PartitionAccess
from holon.program.handles import LocalHandle, WindowedHandle
from holon.program.states import Local, Windowed
from wcrdt.windows.assigners import Window

E = TypeVar("E")
V = TypeVar("V")
T = TypeVar("T")


class Context:
    """One for each partition; ``offset`` and ``timestamp_ms`` (event time) describe the record in hand.

    ``topic`` is where the partition's records come from, in a job of several sources too. ``partition`` is the job's
    number, which counts over all of its topics.

    In an ``on_window`` handler ``offset`` is -1 and ``timestamp_ms`` the last one inside of the window: its end - 1, as
    in Flink. For the global window it is the last time that can be inserted. So an insert with it goes to the same
    window of a later stage. In a batch function both are -1: rows have offsets and times of their own.
    """

    __slots__ = ("_handles", "_outbox", "_scope", "offset", "partition", "partitions", "timestamp_ms", "topic")

    def __init__(
        self, scope: PartitionAccess, outbox: Emitter, handles: dict[Any, Any], partitions: int, topic: str
    ) -> None:
        self._scope = scope
        self._outbox = outbox
        self._handles = handles
        self.partition = scope.partition
        self.partitions = partitions
        self.topic = topic
        self.offset = -1
        self.timestamp_ms = 0

    @property
    def watermark_ms(self) -> int:
        """The partition's own watermark before the record in hand; in an ``on_window`` handler, the window's end.

        Raises ``TrackError`` in a batch function, where each row has its own.
        """
        return self._scope.known_watermark()

    @property
    def on_error(self) -> Literal["fail", "dead-letter"]:
        """The policy of the job, or that of its run."""
        return self._outbox.on_error

    @overload
    def __getitem__(self, state: Windowed[E, V]) -> WindowedHandle[E, V]: ...
    @overload
    def __getitem__(self, state: Local[T]) -> LocalHandle[T]: ...
    def __getitem__(self, state: Any) -> Any:
        """The handle of a state in the function form of a job: ``ctx[total].insert(1, ts)``."""
        try:
            return self._handles[state]
        except (KeyError, TypeError):
            raise JobError(f"ctx[{state!r:.100}]: no state of this job; list it in Job(states=...)") from None

    def emit(self, value: Any, *, output: str = "main", key: bytes | None = None, row: int | None = None) -> None:
        """Emit one result. In a batch function ``row`` names the batch row that it comes from.

        ``key`` routes it where the output is declared with ``route_by_key``.
        """
        self._scope.refuse_if_tainted("emit")
        self._outbox.emit(output, value, key, row)

    def emit_many(
        self,
        values: Sequence[Any],
        rows: NDArray[np.intp] | None = None,
        *,
        output: str = "main",
        keys: Sequence[bytes | None] | None = None,
    ) -> None:
        """Emit a column of results, each from the batch row in ``rows`` (default: one a row, in order)."""
        self._scope.refuse_if_tainted("emit_many")
        self._outbox.emit_many(output, values, rows, keys)

    def count_filtered(self, rows: int) -> None:
        """In a batch function: so many rows of the batch are of no use to it, and count as filtered, not as accepted.

        Raises ``JobError`` where that is more than the batch has.
        """
        self._outbox.count_filtered(rows)

    def count_late(self, rows: int) -> None:
        """In a batch function of a job with ``late_records="process"``: so many rows are late, and not accepted.

        Raises ``JobError`` where that is more than the batch has.
        """
        self._outbox.count_late(rows)

    def emit_dead(self, value: Any, *, reason: str, step: str = "", key: Any = None) -> None:
        """In an ``on_window`` handler: a dead letter about the window in hand, of a row that could not be used.

        Raises ``JobError`` elsewhere: there a record is dead whose function raises.
        """
        self._scope.refuse_if_tainted("emit_dead")
        self._outbox.emit_dead(value, self._scope.now[0], step, key, reason)

    def emit_nondeterministic(self, value: Any) -> None:
        """Emit what may depend on timing: it goes to the unstable topic, may repeat and may differ in a replay."""
        self._outbox.emit_nondeterministic(value)

    def is_responsible_for(self, window: Window) -> bool:
        """True on the one partition that emits the global results of this window."""
        return responsible_partition(window, self.partitions) == self.partition


def responsible_partition(window: Window, partitions: int) -> int:
    """Spread windows over partitions; multiplicative hash of the end, so that aligned ends do not share one."""
    mixed = (window.end_ms * 0x9E3779B97F4A7C15 + window.start_ms) & (2**64 - 1)
    return (mixed >> 32) % partitions
