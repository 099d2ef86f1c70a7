"""Values that are read in groups of one schema each, and events in the order of the records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from holon.formats.formats import Decoded


class SchemaReader(Protocol):
    """Reads values of one writer's schema."""

    def events(self, payloads: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
        """Events of values, without those that the second gives a reason for, by row."""
        ...


class BySchema(ABC):
    """Reads values of several schemas, each by its reader.

    ``head_bytes``: so many first bytes of a value name its schema, where ``readers`` has them. ``blank``: an object,
    and the event of it, that stand for a record without a value.
    """

    def __init__(self, head_bytes: int, blank: tuple[bytes, Callable[[], Any]] | None) -> None:
        self._head_bytes = head_bytes
        self._blank = blank
        self._readers: dict[bytes, SchemaReader | str] = {}

    def describe(self) -> str:
        """Nothing that the format does not say: schemas that it has met are no part of a job's fingerprint."""
        return "reader of schemas"

    @abstractmethod
    def _reader(self, payload: bytes) -> SchemaReader | str:
        """The reader of a value whose first bytes are new, or why there is none; the same object for each schema."""

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run; never raises for contents."""
        groups = self._groups(payloads)
        if len(groups) == 1 and not isinstance(reader := next(iter(groups)), str | None):
            events, bad = reader.events(payloads)
            rows = [row for row in range(len(payloads)) if row not in bad] if bad else []
        else:
            by_row, bad = self._mixed(payloads, groups)
            rows = sorted(by_row)
            events = [by_row[row] for row in rows]
        return Decoded(np.array(rows, np.intp) if bad else None, events=events, bad=sorted(bad.items()))

    def _mixed(
        self, payloads: Sequence[bytes], groups: Mapping[SchemaReader | str | None, list[int]]
    ) -> tuple[dict[int, Any], dict[int, str]]:
        """Events by row, and the other rows: each schema's records at once."""
        by_row: dict[int, Any] = {}
        bad: dict[int, str] = {}
        for reader, rows in groups.items():
            if isinstance(reader, str):
                bad |= dict.fromkeys(rows, reader)
            elif reader is None:
                assert self._blank is not None
                by_row |= {row: self._blank[1]() for row in rows}
            else:
                events, refused = reader.events([payloads[row] for row in rows])
                good = [row for at, row in enumerate(rows) if at not in refused] if refused else rows
                by_row |= dict(zip(good, events, strict=True))
                bad |= {rows[at]: reason for at, reason in refused.items()}
        return by_row, bad

    def _groups(self, payloads: Sequence[bytes]) -> dict[SchemaReader | str | None, list[int]]:
        """The rows by how they are read, or why they are not; None: they have no value."""
        readers, head_bytes = self._readers, self._head_bytes
        blank = None if self._blank is None else self._blank[0]
        groups: dict[SchemaReader | str | None, list[int]] = {}
        for row, payload in enumerate(payloads):
            reader = None if payload is blank else readers.get(payload[:head_bytes]) or self._reader(payload)
            found = groups.get(reader)
            if found is None:
                groups[reader] = [row]
            else:
                found.append(row)
        return groups
