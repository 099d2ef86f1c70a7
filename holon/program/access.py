"""The access of handles and the context to their partition; ``Scope`` and ``Outbox`` offer it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wcrdt.windows.assigners import Window


class DeclaredTrack(Protocol):
    """The user of a Local: its track, and the stage of it (None: all)."""

    @property
    def track(self) -> str: ...
    @property
    def stage(self) -> int | None: ...


class UsedLocals(Protocol):
    """The Locals that are to be checked soon."""

    used: dict[str, None]


class PartitionAccess(Protocol):
    """State of one partition by name, read and written under the rules of the track that runs.

    ``open_from_ms``: an insert for this time or a later one is late for no window, and is allowed here and now.
    ``touched``: the function in hand has left something to check when it ends.
    """

    touched: bool

    @property
    def open_from_ms(self) -> int: ...
    @property
    def partition(self) -> int: ...
    @property
    def reads(self) -> dict[Any, None]: ...
    @property
    def locals(self) -> dict[str, Any]: ...
    @property
    def checkpointable(self) -> UsedLocals: ...
    @property
    def track_name(self) -> str: ...
    @property
    def now(self) -> tuple[Any, ...]: ...

    def insert(self, name: str, element: Any, ts_ms: int) -> bool: ...
    def insert_many(self, name: str, elements: Any, ts_ms: NDArray[np.int64], rows: NDArray[np.intp] | None) -> int: ...
    def begin_await(self, name: str, window: Window) -> None: ...
    def is_final(self, name: str, window: Window) -> bool: ...
    def final_value(self, name: str, window: Window) -> Any: ...
    def peek(self, name: str, window: Window) -> Any: ...
    def increment_watermark(self, ts_ms: int) -> None: ...
    def known_watermark(self) -> int: ...
    def global_watermark(self) -> int: ...
    def refuse_if_tainted(self, what: str) -> None: ...


class Emitter(Protocol):
    """Takes results of one partition, in order."""

    def emit(self, output: str, value: Any, key: bytes | None, row: int | None) -> None: ...
    def emit_many(
        self,
        output: str,
        values: Sequence[Any],
        rows: NDArray[np.intp] | None,
        keys: Sequence[bytes | None] | None,
    ) -> None: ...
    def count_filtered(self, rows: int) -> None: ...
    def emit_nondeterministic(self, value: Any) -> None: ...
