"""Dead letters about rows of complete windows, which are no records of the input."""

from __future__ import annotations

from typing import Any

import msgspec

from holon.errors import USER_ERRORS
from holon.job import encode_json
from wcrdt.windows.assigners import Window

MOST_BYTES = 1 << 16
"""Of the row, and of the reason."""


class RowLetter(msgspec.Struct, omit_defaults=True):
    """The contents of the dead-letter output for a row behind a window, read as ``Diverted``.

    ``number`` counts the letters of one partition about one window end. ``payload``: the row as JSON, cut at
    ``MOST_BYTES`` (then ``size`` is that of the whole), or its text where JSON cannot hold it. ``offset`` is -1.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: str
    payload: bytes
    window: tuple[int, int]
    number: int
    step: str
    row_key: Any
    size: int | None = None


def row_letter(
    topic: str, partition: int, window: Window, number: int, value: Any, step: str, key: Any, reason: str
) -> bytes:
    """A letter as the log takes it."""
    try:
        payload = encode_json(value)
    except USER_ERRORS:
        payload = f"{type(value).__name__} that JSON cannot hold".encode()
    letter = RowLetter(
        topic,
        partition,
        -1,
        window.end_ms - 1,
        reason if len(reason) <= MOST_BYTES else f"{reason[:MOST_BYTES]} [...]",
        payload[:MOST_BYTES],
        (window.start_ms, window.end_ms),
        number,
        step,
        key,
        None if len(payload) <= MOST_BYTES else len(payload),
    )
    return encode_json(letter)
