"""Bringing rows to one form without reading each as JSON: what engines are known to write in two ways, and only that.

A row is changed only where its whole beginning is understood, and then so that its meaning stays: rows that are the
same bytes afterwards are the same rows. A value in yet another form stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

ROWS = 20_000
"""As many are worked on at once."""
Form = Callable[[bytes], bytes]
"""Works on rows, one a line."""

_FLAT = rb'(?m:^)(\{(?:"\w++":(?:-?\d++|"[^"\\\n]*+"),)*?'
"""The beginning of an object whose values so far are whole numbers and texts without escapes."""
_PRICE = re.compile(_FLAT + rb'"price":)(?:"(\d+(?:\.\d{1,3})?)"|((?:0|[1-9]\d*)(?:\.\d{1,3})?))(?=[,}])')
_DAY = rb"[1-9]\d{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"  # on any other day it might be no time
_SECOND = rb"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_TIME = re.compile(
    _FLAT + rb'"(?:dateTime|window_end|starttime)":"' + _DAY + b" " + _SECOND + rb')(\.\d{1,2})?"(?=[,}])'
)


def forms(query: str) -> list[Form]:
    """The steps for rows of a query, one after the other: of q1 the price as text, times with all digits."""
    return [_prices, _times] if query == "q1" else [_times]


def changed(form: Form, rows: Sequence[bytes]) -> Iterator[bytes]:
    """The rows in this form, in order."""
    for start in range(0, len(rows), ROWS):
        some = rows[start : start + ROWS]
        lines = b"\n".join(some)
        if lines.count(b"\n") == len(some) - 1:
            yield from form(lines).split(b"\n")
        else:
            yield from some  # a row has lines of its own


def _prices(lines: bytes) -> bytes:
    return _PRICE.sub(_as_text, lines)


def _times(lines: bytes) -> bytes:
    return _TIME.sub(_with_millis, lines)


def _with_millis(found: re.Match[bytes]) -> bytes:
    begins, fraction = found.groups()
    return b'%b%b"' % (begins, (fraction or b".").ljust(4, b"0"))


def _as_text(found: re.Match[bytes]) -> bytes:
    begins, text, number = found.groups()
    whole, _, fraction = (text or number).partition(b".")
    return b'%b"%b.%b"' % (begins, whole, fraction.ljust(3, b"0"))
