"""An exception of the user's code as text: where in the user's own code, at which record.

Two rules for this file: a text can always be encoded, whatever the exception holds; it stays short, however deep the
recursion and however large the record.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from holon.fingerprint.module_owners import Room, room_at

RECORD_BYTES = 200
MOST_FRAMES = 20
MOST_LINKED = 4
"""Of exceptions that were raised while others were handled."""
MOST_CHARACTERS = 2_000
"""Of one exception's own text."""
MOST_TRACEBACK = 100_000

_TRACEBACK: Any = vars(BaseException)["__traceback__"]
"""Not what a class of the user's own may have made of it."""
_NOBODY: frozenset[str] = frozenset()
_CAUSE = "\nThe exception above was the direct cause of the following one:\n\n"
_CONTEXT = "\nDuring the handling of the exception above, another one was raised:\n\n"


def own_frames(error: BaseException) -> str:
    """The traceback without the frames of Holon, and without those of libraries where a frame of the user's is left."""
    found = traceback.TracebackException(type(error), error, error.__traceback__)
    return encodable("".join(_lines(found, error)).rstrip())


def all_frames(error: BaseException) -> str:
    """The whole traceback, for who wants to see Holon's frames too."""
    return encodable("".join(traceback.format_exception(error)))[-MOST_TRACEBACK:]


def frames_alone(error: BaseException) -> tuple[str, str]:
    """The user's own frames, and all of them. Nothing of the exception's own class is called."""
    walked = list(traceback.walk_tb(_TRACEBACK.__get__(error)))
    rooms = [_room(*each) for each in walked]
    found = list(traceback.StackSummary.extract(iter(walked)))
    return _frames(_outside(rooms, found)), _frames(found)


def shown_record(payload: bytes) -> str:
    """The first ``RECORD_BYTES`` bytes as text on one line; what is no text, and control characters, are escaped."""
    text = payload[:RECORD_BYTES].decode("utf-8", "backslashreplace")
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return shown if len(payload) <= RECORD_BYTES else f"{shown}... ({len(payload):,} bytes in all)"


def shortened(text: str) -> str:
    """A text of at most ``MOST_CHARACTERS``."""
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}... ({len(text):,} characters in all)"


def encodable(text: str) -> str:
    """Lone surrogates escaped: no message can hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


def _lines(found: traceback.TracebackException, error: BaseException) -> Iterator[str]:
    """An exception behind those that led to it, the newest ``MOST_LINKED``."""
    linked, link = [_one(found, error)], _before(found, error)
    while link is not None and len(linked) < MOST_LINKED:
        joined, found, error = link
        linked.append(f"{_one(found, error)}{joined}")
        link = _before(found, error)
    return reversed(linked)


def _before(
    found: traceback.TracebackException, error: BaseException
) -> tuple[str, traceback.TracebackException, BaseException] | None:
    cause, context = error.__cause__, error.__context__
    if found.__cause__ is not None and cause is not None:
        return _CAUSE, found.__cause__, cause
    if found.__context__ is not None and context is not None and not found.__suppress_context__:
        return _CONTEXT, found.__context__, context
    return None


def _one(found: traceback.TracebackException, error: BaseException) -> str:
    rooms = [_room(*each) for each in traceback.walk_tb(error.__traceback__)]
    text = _frames(_outside(rooms, found.stack))
    return f"{text}{shortened(''.join(found.format_exception_only()).rstrip())}\n"


def _frames(frames: Sequence[traceback.FrameSummary]) -> str:
    """The innermost ``MOST_FRAMES``; empty if there are none."""
    if not frames:
        return ""
    left_out = len(frames) - MOST_FRAMES
    more = f"  ({left_out:,} more frames)\n" if left_out > 0 else ""
    shown = "".join(traceback.StackSummary.from_list(list(frames[-MOST_FRAMES:])).format())
    return encodable(f"Traceback (most recent call last):\n{more}{shown}")


def _outside(rooms: Sequence[Room], frames: Sequence[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """The user's frames; where there are none, all that are not Holon's."""
    outside = [(room, frame) for room, frame in zip(rooms, frames, strict=False) if room is not Room.HOLON]
    return [frame for room, frame in outside if room is Room.USER] or [frame for _, frame in outside]


def _room(frame: object, line: int) -> Room:
    names, code = getattr(frame, "f_globals", {}), getattr(frame, "f_code", None)
    file = getattr(code, "co_filename", "")
    if file.startswith("<frozen "):  # Python's own import system
        return Room.PYTHON
    name = names.get("__name__")
    return room_at(name if isinstance(name, str) else "", file, _NOBODY)
