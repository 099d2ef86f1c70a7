"""Event times and lengths of time as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from wcrdt.windows.assigners import END_OF_TIME_MS


def has_ended(watermark_ms: int | None) -> bool:
    """True for the watermark of an input that has ended."""
    return watermark_ms is not None and watermark_ms >= END_OF_TIME_MS


def event_time(ms: int | None) -> str:
    """Event time in UTC; an integer where the calendar ends."""
    if ms is None:
        return "-"
    if has_ended(ms):
        return "end"
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def duration(ms: int | None) -> str:
    """A length of time, short."""
    if ms is None:
        return "-"
    if ms < 10_000:
        return f"{ms} ms"
    seconds = ms / 1000
    for limit, unit, size in ((600, "s", 1), (36_000, "min", 60), (864_000, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86_400:.1f} d"
