"""The columns of the benchmark's records by the names of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holon import Decoded
from nexmark.queries.columns import TIMES, NexmarkColumns

TIME_MS = "time_ms"
"""A field of this name is the event's time in epoch ms; it is in no record."""


class RowColumns(NexmarkColumns):
    """The columns of ``NexmarkColumns`` by the names of a Struct of rows."""

    def __init__(self, structs: Mapping[str, type]) -> None:
        super().__init__(**{subject: _wire_fields(struct) for subject, struct in structs.items()})
        self.renamed = _renamed(structs)
        self.timed = _timed(structs)

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run of payloads."""
        return by_rows(super().decode(payloads), self.renamed, self.timed)


def _wire_fields(struct: type) -> dict[str, type]:
    """The fields on the wire that a Struct is made of, as ``NexmarkColumns`` takes them."""
    return {
        wire: str if wire in TIMES else kind
        for name, wire, kind in _fields(struct)
        if name != TIME_MS
    }  # fmt: skip


def _fields(struct: type) -> list[tuple[str, str, Any]]:
    """Name, name on the wire and type of each field."""
    return [(field.name, _camel(field.name), field.type) for field in msgspec.structs.fields(struct)]


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def _renamed(structs: Mapping[str, type]) -> dict[str, str]:
    """Columns whose name among rows is another one."""
    return {
        f"{subject}.{wire}": f"{subject}.{name}"
        for subject, struct in structs.items()
        for name, wire, _ in _fields(struct)
        if name != wire
    }


def _timed(structs: Mapping[str, type]) -> list[str]:
    """The columns that are the event's time."""
    names = {subject: [name for name, _, _ in _fields(struct)] for subject, struct in structs.items()}
    return [f"{subject}.{TIME_MS}" for subject in names if TIME_MS in names[subject]]


def by_rows(found: Decoded[Any], renamed: Mapping[str, str], timed: Sequence[str]) -> Decoded[Any]:
    """The same with the columns of rows."""
    columns = {renamed.get(name, name): column for name, column in found.columns.items()}
    found.columns = columns | dict.fromkeys(timed, columns[TIME_MS])
    return found
