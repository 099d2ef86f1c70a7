"""The words in which reads and writes of windows are refused, and of watermarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from holon.errors import NondeterminismError, TrackError, WindowExpired, WindowNotAwaited, WindowReadDeadlock
from wcrdt.windows.assigners import Window

if TYPE_CHECKING:
    from holon.program.handles import SafeRead


def refuse_write(name: str, stage: int, at_stage: int | None) -> NoReturn:
    """Of a state of ``stage``; ``at_stage`` is that of the handler that runs, None: of ``process``."""
    runs = "process" if at_stage is None else f"an on_window handler of stage {at_stage}"
    writer = "process" if stage == 0 else f"an on_window handler of stage {stage - 1}"
    raise TrackError(
        f"{name!r} has stage {stage}, so {writer} writes it, not {runs}: declare it with the "
        f"stage that fits, or keep two states (what is written at one time must not be read as if at another)"
    )


def refuse_later_window(partition: int, now: tuple[Window, int], name: str, stage: int, window: Window) -> NoReturn:
    """Of a handler that would wait for itself."""
    raise WindowReadDeadlock(
        f"a handler of window {tuple(now[0])} (stage {now[1]}) on partition {partition} awaits window "
        f"{tuple(window)} of {name!r} (stage {stage}), which is answered later: handlers run "
        f"in the order of window ends, so it would wait for itself; put it in on_window of that state"
    )


def refuse_open(partition: int, watermark_ms: int, name: str, window: Window, closes_ms: int) -> NoReturn:
    """Of a window that the record in hand keeps open."""
    raise WindowReadDeadlock(
        f"partition {partition} awaits window {tuple(window)} of {name!r}, but its own watermark {watermark_ms} has "
        f"not passed {closes_ms} (the window's end plus allowed lateness), and it does not advance while it waits: "
        f"read an earlier window, call increment_watermark first, or use on_window"
    )


def refuse_record_track(name: str) -> NoReturn:
    """Of ``window_state``, which waits for nothing."""
    raise TrackError(f"window_state of {name!r} outside of an on_window handler; await window_value there")


def check_awaited(name: str, stage: int, sharded: bool) -> None:
    """Of ``process``, whose records do not wait for handlers, and which all partitions have to answer alike."""
    check_whole(name, sharded)
    if stage > 0:
        raise TrackError(
            f"process awaited {name!r}, which on_window handlers write (stage {stage}); "
            f"read it in an on_window handler of its own"
        )


def check_whole(name: str, sharded: bool) -> None:
    """Of ``process`` and ``peek``, which would read the keys of one partition as if they were all."""
    if sharded:
        raise TrackError(
            f"{name!r} is sharded, so a partition has its own keys alone: await window_value in an on_window handler, "
            f"or declare the state without sharded=True"
        )


def refuse_old(partition: int, at: str, name: str, window: Window, retention_ms: int) -> NoReturn:
    """Of a window that may be dropped."""
    raise WindowExpired(
        f"partition {partition} at {at} reads window {tuple(window)} of {name!r}, which is older than "
        f"window_retention_ms={retention_ms} and may be dropped: raise Job.window_retention_ms, or "
        f"keep the value in a Local"
    )


def refuse_forgotten_reads(partition: int, function: str, reads: dict[SafeRead[Any], None]) -> NoReturn:
    """A function has ended, and has not awaited some of its ``reads``, which are forgotten now."""
    read = next(iter(reads))
    reads.clear()
    raise WindowNotAwaited(
        f"{function} on partition {partition} has requested window {tuple(read.window)} of {read.state!r} "
        f"and not awaited it, so it has read nothing: write await ... .window_value(window), in an async function"
    )


def refuse_increment() -> NoReturn:
    """Of ``increment_watermark`` in a batch or handler."""
    raise TrackError(
        "increment_watermark belongs into a per-record process function; a batch or an on_window handler has "
        "no single record to which it could apply: use a watermark strategy"
    )


def refuse_watermark_of_batch() -> NoReturn:
    """Of ``Context.watermark_ms`` in a batch."""
    raise TrackError(
        "ctx.watermark_ms in a batch function would depend on where the batch was cut; every row has its own "
        "watermark, and insert_many already judges lateness by it"
    )


def refuse_tainted(what: str, taint: str, partition: int) -> NoReturn:
    """Of what follows the read of a value that depends on timing."""
    raise NondeterminismError(
        f"{what} after {taint} on partition {partition}: its value depends on timing, so a replay "
        f"could differ; await window_value instead, or send the result through ctx.emit_nondeterministic"
    )
