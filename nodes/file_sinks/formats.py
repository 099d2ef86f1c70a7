"""Formats of files: the bytes of a file are a function of its rows and of the columns that were fixed before."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from holon.files import FileFormat
from nodes.errors import SettingsError
from nodes.file_sinks.folders import text_of
from nodes.file_sinks.rows import Misfit, columns_of, names_in, objects_of, surplus


class RowFormat(Protocol):
    """Makes files of payloads, each a row as JSON. Files have columns where ``has_columns``."""

    suffix: str
    has_columns: bool

    def declared(self) -> bytes | None:
        """The columns that the type of rows has; None: it is not known."""
        ...

    def inferred(self, payloads: Sequence[bytes]) -> bytes:
        """The columns that these rows have. Raises ``Misfit``."""
        ...

    def use(self, columns: bytes) -> None:
        """Give files these columns from now on. Raises ``SettingsError`` if the type of rows has others."""
        ...

    def encode(self, payloads: Sequence[bytes]) -> bytes:
        """The file of these rows, at least one. Raises ``Misfit``."""
        ...


def format_of(name: FileFormat, row: Any) -> RowFormat:
    """The format of this name; ``row``: the type of rows, None if it is not known."""
    if name == "jsonl":
        return JsonLines()
    if name == "csv":
        return Csv(row)
    from nodes.file_sinks.parquet import Parquet

    return Parquet(row)


class JsonLines:
    """A row a line, byte for byte as the job wrote it, but for line feeds between its parts."""

    suffix = "jsonl"
    has_columns = False

    def declared(self) -> bytes | None:
        """As ``RowFormat.declared``."""
        return None

    def inferred(self, payloads: Sequence[bytes]) -> bytes:
        """As ``RowFormat.inferred``."""
        raise AssertionError("JSON lines have no columns")

    def use(self, columns: bytes) -> None:
        """As ``RowFormat.use``."""

    def encode(self, payloads: Sequence[bytes]) -> bytes:
        """As ``RowFormat.encode``."""
        lines = []
        for place, payload in enumerate(payloads):
            try:
                msgspec.json.decode(payload)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise Misfit(place, f"it is no JSON ({error})") from error
            lines.append(msgspec.json.format(payload, indent=-1) if b"\n" in payload or b"\r" in payload else payload)
        lines.append(b"")
        return b"\n".join(lines)


class Csv:
    """A header and a row a line. Nested values are JSON, and null is an empty field."""

    suffix = "csv"
    has_columns = True

    def __init__(self, row: Any) -> None:
        self._declared = columns_of(row)
        self._names: list[str] = []

    def declared(self) -> bytes | None:
        """As ``RowFormat.declared``."""
        return None if self._declared is None else msgspec.json.encode(self._declared)

    def inferred(self, payloads: Sequence[bytes]) -> bytes:
        """As ``RowFormat.inferred``."""
        return msgspec.json.encode(names_in(objects_of(payloads)))

    def use(self, columns: bytes) -> None:
        """As ``RowFormat.use``."""
        self._names = msgspec.json.decode(columns, type=list[str])
        if self._declared is not None and self._declared != self._names:
            raise SettingsError(f"files there have the columns {self._names}, and rows have {self._declared} now")

    def encode(self, payloads: Sequence[bytes]) -> bytes:
        """As ``RowFormat.encode``."""
        rows = objects_of(payloads)
        known = set(self._names)
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self._names)
        for place, row in enumerate(rows):
            if not row.keys() <= known:
                raise Misfit(place, surplus(row, self._names))
            writer.writerow([text_of(row.get(name)) for name in self._names])
        return text.getvalue().encode()
