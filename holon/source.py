"""Where a job's records come from and what time they have: topic, format, timestamps, watermarks, guards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from holon.errors import JobError
from holon.formats.formats import ColumnFormat, Format
from holon.time.units import UNITS, TimeUnit
from wcrdt.windows.assigners import BEFORE_TIME_MS

E = TypeVar("E")

LIVE_MAX_FUTURE_SKEW_MS = 86_400_000
"""A day: clocks and zones are wrong by hours, the event times that close all windows by years."""


class WatermarkStrategy(Protocol):
    """How far event time has certainly come after each record.

    A watermark w means: every later record of this partition has an event time of w or more, or is late.
    """

    def candidates(self, ts_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row the watermark that it alone justifies; the runtime takes the running maximum."""
        ...

    def describe(self) -> str: ...


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrderness:
    """Records come at most ``delay_ms`` of event time behind the newest one (Flink's strategy of that name).

    Deviation from Flink: its watermark is one ms lower because there a watermark t closes windows ending at t + 1.
    """

    delay_ms: int = 0

    def __post_init__(self) -> None:
        if self.delay_ms < 0:
            raise JobError(f"BoundedOutOfOrderness: delay_ms must be 0 or more, got {self.delay_ms}")

    def candidates(self, ts_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        return ts_ms - self.delay_ms

    def describe(self) -> str:
        return f"bounded {self.delay_ms}"


@dataclass(frozen=True, slots=True)
class ManualWatermarks:
    """Only ``increment_watermark`` moves the watermark (Holon, Table 1)."""

    def candidates(self, ts_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.full(len(ts_ms), BEFORE_TIME_MS, dtype=np.int64)

    def describe(self) -> str:
        return "manual"


@dataclass(frozen=True, slots=True)
class Source(Generic[E]):
    """One input topic of a job.

    Args:
        topic: name on the log.
        format: payload bytes to events or columns, e.g. ``Json(Bid)``.
        timestamp: event time: a function of the event, or for columnar formats a column's name or a function of the
            columns. None: the log's own timestamp.
        timestamp_unit: what ``timestamp`` gives. None: integers, ms since 1970 UTC. ``"s"``, ``"ms"``, ``"us"``,
            ``"ns"``: integers or floats since 1970 UTC. ``"datetime"``: datetimes, UTC where they have no zone.
            ``"iso"``: texts that ``datetime.fromisoformat`` takes, UTC where they have no zone.
        filter: keeps only what the job is about; the rest counts as filtered but still moves the watermark.
            A function of the event giving bool, or of the columns giving a mask.
        watermarks: how far event time has come.
        start: ``"earliest"`` or ``"latest"`` (the end of the topic when the job's incarnation starts).
        max_future_skew_ms: an event time further than this ahead of the record's log timestamp goes to the dead-letter
            output. ``"live"`` (default): a day where the job follows its topic, none where its incarnation was started
            on a bounded input. None for replayed or synthetic time.
        idle_timeout_ms: a partition without records for so long is advanced by punctuation. None: it holds windows
            open until it gets a record.
    """

    topic: str
    format: Format[E]
    timestamp: Callable[[Any], Any] | str | None = None
    filter: Callable[[Any], Any] | None = None
    watermarks: WatermarkStrategy = BoundedOutOfOrderness(0)
    start: Literal["earliest", "latest"] = "earliest"
    max_future_skew_ms: int | Literal["live"] | None = "live"
    idle_timeout_ms: int | None = None
    timestamp_unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.topic, str) or not self.topic:
            raise JobError(
                f"Source reads one topic, named by its text, got {self.topic!r:.200}: for several topics give the "
                f"job a list of sources, one for each"
            )
        if isinstance(self.format, type):
            name = self.format.__name__
            raise JobError(f"source of {self.topic!r}: give a format of {name}, as Json({name}), not the type alone")
        guard = self.max_future_skew_ms
        if guard not in (None, "live") and (not isinstance(guard, int) or guard < 0):
            raise JobError(f'max_future_skew_ms must be 0 or more, "live" or None, got {guard!r:.100}')
        if self.idle_timeout_ms is not None and self.idle_timeout_ms <= 0:
            raise JobError(f"idle_timeout_ms must be more than 0, got {self.idle_timeout_ms}")
        if self.timestamp_unit is not None and self.timestamp_unit not in UNITS:
            raise JobError(f"timestamp_unit must be one of {', '.join(UNITS)}, got {self.timestamp_unit!r}")
        if self.timestamp_unit is not None and self.timestamp is None:
            raise JobError("timestamp_unit is of what timestamp= gives; the log's own timestamps are in ms")
        if self.start not in ("earliest", "latest"):
            raise JobError(f'start must be "earliest" or "latest", got {self.start!r}')
        if isinstance(self.timestamp, str) and isinstance(self.format, ColumnFormat):
            self.format.check_column(self.timestamp)

    def guard_ms(self, live_guard_ms: int | None) -> int | None:
        """The skew guard that holds in an incarnation; ``live_guard_ms`` is what its start has recorded for "live"."""
        return live_guard_ms if self.max_future_skew_ms == "live" else self.max_future_skew_ms

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        unit = "" if self.timestamp_unit is None else f" unit {self.timestamp_unit}"
        return (
            f"source {self.topic} {self.format.describe()} {self.watermarks.describe()} start {self.start} "
            f"skew {self.max_future_skew_ms} idle {self.idle_timeout_ms is not None}{unit}"
        )
