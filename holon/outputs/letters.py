"""The contents of the late and dead-letter outputs: letters about records, and about rows of complete windows."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from holon.errors import USER_ERRORS
from holon.job import encode_json
from wcrdt.windows.assigners import Window

WHOLE_LETTER_BYTES = 1 << 19
"""A larger payload is not whole in its letter: with base64 it could exceed the limit of a record on the log."""
LETTER_HEAD_BYTES = 1 << 16


class Letter(msgspec.Struct, omit_defaults=True):
    """The fields of all letters: where the record or the row came from, why it is there, and its bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: str
    payload: bytes


class Diverted(Letter):
    """The letter of a record, and the form in which any letter is read. The payload is raw (base64 in JSON).

    Of an atom that can be read, only the event: ``place`` is its place there, and the payload an atom of it alone.
    Of a payload above ``WHOLE_LETTER_BYTES``, the first ``LETTER_HEAD_BYTES``: ``size`` and ``digest`` (BLAKE2b, 16
    bytes, hexadecimal) are those of the whole, which is in the input. ``key``, ``headers`` and ``null`` (it has no
    value) are there where the job's events declare parts of records, and of headers the declared ones.
    ``state``: of a record that is late for this state alone, while the function has seen it.
    ``window``, ``number``, ``step``, ``row_key``: of a row behind a window, as ``RowLetter``; its ``offset`` is -1.
    ``bare``: key and headers were longer than ``LETTER_HEAD_BYTES``, and are in the input alone.
    """

    place: int | None = None
    size: int | None = None
    digest: str | None = None
    key: bytes | None = None
    headers: dict[str, bytes] = {}
    null: bool = False
    bare: bool = False
    state: str | None = None
    window: tuple[int, int] | None = None
    number: int = 0
    step: str = ""
    row_key: Any = None

    @property
    def is_row(self) -> bool:
        """Whether the letter is about a row behind a window, which is no record."""
        return self.window is not None

    @property
    def whole_bytes(self) -> int:
        """The size of the payload as it was."""
        return len(self.payload) if self.size is None else self.size

    def shortened(self) -> Diverted:
        """The letter that the log takes, whatever the size of the record and of the reason."""
        beside = sum(len(name) + len(value) for name, value in self.headers.items())
        if len(self.key or b"") + beside > LETTER_HEAD_BYTES:
            return msgspec.structs.replace(self, key=None, headers={}, bare=True).shortened()
        reason = _short(self.reason)
        if len(self.payload) <= WHOLE_LETTER_BYTES:
            return self if reason is self.reason else msgspec.structs.replace(self, reason=reason)
        return msgspec.structs.replace(
            self,
            reason=reason,
            payload=self.payload[:LETTER_HEAD_BYTES],
            size=len(self.payload),
            digest=payload_digest(self.payload),
        )


def payload_digest(payload: bytes) -> str:
    """Names a payload in its letter."""
    return blake2b(payload, digest_size=16).hexdigest()


class RowLetter(Letter):
    """The contents of the dead-letter output for a row behind a window, read as ``Diverted``.

    ``number`` counts the letters of one partition about one window end. ``payload``: the row as JSON, cut at
    ``LETTER_HEAD_BYTES`` (then ``size`` is that of the whole), or its text where JSON cannot hold it. ``offset`` is -1.
    """

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
        _short(reason),
        payload[:LETTER_HEAD_BYTES],
        (window.start_ms, window.end_ms),
        number,
        step,
        key,
        None if len(payload) <= LETTER_HEAD_BYTES else len(payload),
    )
    return encode_json(letter)


def _short(reason: str) -> str:
    return reason if len(reason) <= LETTER_HEAD_BYTES else f"{reason[:LETTER_HEAD_BYTES]} [...]"
