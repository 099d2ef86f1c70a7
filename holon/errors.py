"""Errors of a user's program, in words that name what to change."""

from __future__ import annotations

from typing import NoReturn

from holon.tracebacks import all_frames, encodable, own_frames, shortened, shown_record

USER_ERRORS = BaseException
"""Exceptions of the user's own code: all. None ends the node; signals reach nodes by handlers, which raise nothing."""


class HolonError(Exception):
    """Base of the errors that a job's author can fix."""


class JobError(HolonError):
    """The declaration of a job contradicts itself."""


class TrackError(HolonError):
    """State of one track was touched from the other one (docs/design/architecture.md, two tracks)."""


class WindowReadDeadlock(HolonError):
    """A safe read waits for a window that this very partition keeps open."""


class WindowNotAwaited(HolonError):
    """A function has requested the value of a window and ended without awaiting it."""


class WindowExpired(HolonError):
    """A read of a window so old that its value may have been dropped; see ``Job.window_retention_ms``."""


class NondeterminismError(HolonError):
    """A value that depends on timing (``peek``, ``global_watermark``) would flow into state or results."""


class UnserializableState(HolonError):
    """A ``Local`` holds what no checkpoint can hold."""


class DeserializationError(HolonError):
    """A format refuses a record; the runtime sends the record to the dead-letter output with this reason."""


class UpstreamReset(HolonError):
    """The input holds results of a newer incarnation of an upstream job than those that are counted already."""


def described(error: BaseException) -> str:
    """Type and text of an exception, as text that can be encoded whatever its ``__str__`` does."""
    try:
        text = str(error)
    except USER_ERRORS:
        text = "(its __str__ raised)"
    return encodable(f"{type(error).__name__}: {text}")


def refuse_returned(outcome: object, name: str) -> NoReturn:
    """A value that a function of the job returns would be lost silently; so would a coroutine that is not awaited."""
    kind = type(outcome).__name__
    if hasattr(outcome, "send"):
        outcome.close()  # type: ignore[attr-defined]
        raise JobError(f"{name} returned a {kind}, which is never run: write it as async def and await")
    raise JobError(f"{name} returned a {kind}, which is discarded: results leave through ctx.emit")


class FailedStep(Exception):
    """A step of a flow failed at a row: ``what`` failed, with which ``cause``; ``offset``: of a record, -1 of none."""

    def __init__(self, what: str, cause: BaseException, offset: int = -1) -> None:
        super().__init__(f"{what} raised {described(cause)}")
        self.offset = offset
        self.what = what
        self.cause = cause


class UserFunctionError(HolonError):
    """The job's own code raised. The message is one line: what raised which exception, and where.

    Args: ``at`` is where: an offset, some offsets, or a window; ``what`` of the job's code it was. ``offset`` is the
    (first) input offset, None on the window track. ``topic`` and ``record``: the input, and the record at that offset.
    ``topic_partition``: that of the topic, where the job's number of it is another one.

    ``details``: the beginning of the record and the user's own frames; ``trace``: the traceback with Holon's frames.
    """

    def __init__(
        self,
        job: str,
        partition: int,
        at: str,
        cause: BaseException,
        what: str = "the processing function",
        offset: int | None = None,
        topic: str | None = None,
        record: bytes | None = None,
        topic_partition: int | None = None,
    ) -> None:
        shown = partition if topic_partition is None else topic_partition
        place = f"partition {shown} at {at}" + ("" if topic is None else f" of topic {topic!r}")
        super().__init__(f"job {job!r}: {what} raised {shortened(described(cause))} on {place}")
        self.partition = partition
        self.offset = offset
        self.at = at
        head = "" if record is None else f"record at offset {offset}: {shown_record(bytes(record))}\n"
        self.details = head + own_frames(cause)
        self.trace = all_frames(cause)
