"""Rows as JSON: objects, their names, and rows that do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from nodes.errors import SettingsError

VALUE = "value"
"""The column of rows that are no objects of JSON."""


class Misfit(Exception):
    """A row does not fit its file; ``place`` is that of the payload among those given."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def objects_of(payloads: Sequence[bytes]) -> list[Mapping[str, Any]]:
    """Rows as objects. Raises ``Misfit``."""
    rows = []
    for place, payload in enumerate(payloads):
        try:
            row = msgspec.json.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Misfit(place, f"it is no JSON ({error})") from error
        rows.append(row if isinstance(row, dict) else {VALUE: row})
    return rows


def names_in(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of all fields, in the order in which they come first."""
    return list(dict.fromkeys(name for row in rows for name in row))


def surplus(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Why a row with other fields is refused."""
    more = ", ".join(name for name in row if name not in names)
    return f"it has the fields {more}, and the files' columns are {', '.join(names)}; declare them: Files(row=STRUCT)"


def columns_of(row: Any) -> list[str] | None:
    """The columns of a type of rows; None if it is not known."""
    if row is None:
        return None
    info = struct_info(row)
    return [VALUE] if info is None else [*([info.tag_field] if info.tag_field else []), *field_names(info)]


def struct_info(row: Any) -> inspect.StructType | None:
    """The fields of a Struct; None for other types of rows."""
    info = inspect.type_info(row)
    if not isinstance(info, inspect.StructType):
        return None
    if info.array_like:
        raise SettingsError(f"rows of type {row.__name__} are array_like, so that their fields have no names in JSON")
    return info


def field_names(info: inspect.StructType) -> list[str]:
    """The names of the fields in JSON."""
    return [field.encode_name for field in info.fields]
