"""Rows that fit no file, under ``on_error="dead-letter"``: which ones, why, and the file that holds them.

Which rows are dead follows from a batch and the folder's columns alone. So whoever repeats the batch finds the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from nodes.file_sinks.formats import RowFormat
from nodes.file_sinks.rows import Misfit

DEAD_FOLDER = "_dead"
"""Readers of folders of files pass over names that begin with an underscore."""


class DeadRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a file of dead rows. ``row``: as on the topic; ``base64`` holds it where it is no UTF-8."""

    topic: str
    partition: int
    offset: int
    reason: str
    row: str | None = None
    base64: bytes | None = None


def dead_row(topic: str, partition: int, offset: int, reason: str, payload: bytes) -> DeadRow:
    """The line of this row."""
    try:
        return DeadRow(topic, partition, offset, reason, row=payload.decode())
    except UnicodeDecodeError:
        return DeadRow(topic, partition, offset, reason, base64=payload)


def lines_of(rows: Sequence[DeadRow]) -> bytes:
    """The file of these rows."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def encoded(made: RowFormat, payloads: Sequence[bytes]) -> tuple[bytes | None, dict[int, str]]:
    """The file of those rows that fit, None if no row does; the places of the others, and why each does not fit."""
    dead: dict[int, str] = {}
    fit = list(range(len(payloads)))
    while fit:
        try:
            return made.encode([payloads[place] for place in fit]), dead
        except Misfit as misfit:
            found = _alone(made, payloads, fit) or {fit[misfit.place]: str(misfit)}
        dead |= found
        fit = [place for place in fit if place not in found]
    return None, dead


def _alone(made: RowFormat, payloads: Sequence[bytes], places: Sequence[int]) -> dict[int, str]:
    """Of rows that do not fit together, those that do not fit alone: by halves, as most halves of a batch fit."""
    found: dict[int, str] = {}
    open_halves = _halves(places)
    while open_halves:
        half = open_halves.pop()
        try:
            made.encode([payloads[place] for place in half])
        except Misfit as misfit:
            if len(half) == 1:
                found[half[0]] = str(misfit)
            else:
                open_halves += _halves(half)
    return found


def _halves(places: Sequence[int]) -> list[Sequence[int]]:
    """Of one place itself."""
    middle = len(places) // 2
    return [places[:middle], places[middle:]] if middle else [places]


def inferred(made: RowFormat, payloads: Sequence[bytes]) -> bytes | None:
    """The columns of the rows that have some alone, up to the first one that agrees with none; None if no row has."""
    with suppress(Misfit):
        return made.inferred(payloads)
    rows = [payload for payload in payloads if why_no_columns(made, payload) is None]
    columns, fit, unfit = None, 0, len(rows) + 1
    while unfit - fit > 1:
        count = (fit + unfit) // 2
        try:
            columns, fit = made.inferred(rows[:count]), count
        except Misfit:
            unfit = count
    return columns


def why_no_columns(made: RowFormat, payload: bytes) -> str | None:
    """Why a row alone has no columns; None: it has."""
    try:
        made.inferred([payload])
    except Misfit as misfit:
        return str(misfit)
    return None
