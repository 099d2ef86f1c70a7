"""Fields of events that come from the record around the value: its key, its headers, the log's time, a null value.

A field is marked in the type of the event: ``user: Annotated[str, RecordKey]``. JSON never fills such a field.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.record_parts import RecordParts
from holon.errors import JobError
from holon.formats.batch import Column

E = TypeVar("E")
Reasons = dict[int, str]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OWN_HEADER = "holon"
"""Carries identities of outputs; no event declares it."""


class RecordKey:
    """Marks a field with the record's key: ``Annotated[str, RecordKey]``, or bytes, either also ``| None``."""


class LogTime:
    """Marks a field with the log's time of the record: an int (ms since 1970, UTC), or a datetime (UTC)."""


class Tombstone:
    """Marks a bool: whether the record has no value (null); all fields from the value need defaults then."""


@dataclasses.dataclass(frozen=True, slots=True)
class Header:
    """Marks a field with the last header of a name: ``Annotated[str | None, Header("trace")]``, or bytes."""

    name: str

    def __post_init__(self) -> None:
        if self.name == OWN_HEADER:
            raise JobError(f"Header({self.name!r}): it carries identities of outputs, and is no part of events")


Mark = type[RecordKey] | type[LogTime] | type[Tombstone] | Header
_TYPES: dict[Any, tuple[Any, ...]] = {RecordKey: (str, bytes), LogTime: (int, datetime), Tombstone: (bool,)}


@dataclasses.dataclass(frozen=True, slots=True)
class RecordField:
    """A marked field. ``of``: str, bytes, int, datetime or bool; ``absent``: its value where a record has no such part.

    ``required``: a record without such a part is a bad one.
    """

    name: str
    mark: Mark
    of: type
    required: bool
    absent: Callable[[], Any]

    @property
    def is_plain(self) -> bool:
        """Whether all values of its column are of one type."""
        return self.required or isinstance(self.absent(), self.of)

    def values(self, timestamps_ms: NDArray[np.int64], parts: RecordParts) -> tuple[list[Any], Reasons]:
        """Its value in each record, and the records that cannot give one, with the reason; they have some value."""
        count = len(timestamps_ms)
        if self.mark is Tombstone:
            return ([False] * count if parts.nulls is None else parts.nulls.tolist()), {}
        if self.mark is LogTime:
            return self._times(timestamps_ms)
        raw = parts.headers.get(self.mark.name) if isinstance(self.mark, Header) else parts.keys
        return self._texts([None] * count if raw is None else raw)

    def _times(self, timestamps_ms: NDArray[np.int64]) -> tuple[list[Any], Reasons]:
        found: list[Any] = timestamps_ms.tolist()
        absent = np.flatnonzero(timestamps_ms < 0).tolist()
        bad = dict.fromkeys(absent, "the log has no time of this record") if self.required else {}
        if self.of is datetime:
            for row, ms in enumerate(found):
                try:
                    found[row] = _EPOCH + timedelta(milliseconds=ms)
                except OverflowError:  # producers set what they like
                    bad[row] = f"the log's time, {ms} ms, is beyond what a datetime holds"
        for row in absent:
            found[row] = self.absent()
        return found, bad

    def _texts(self, raw: Sequence[bytes | None]) -> tuple[list[Any], Reasons]:
        bad: Reasons = {}
        found = list(raw)
        if self.of is str:
            try:
                return [value.decode() for value in found], bad  # type: ignore[union-attr]  # None is caught
            except (AttributeError, UnicodeDecodeError):
                pass
        for row, value in enumerate(found):
            try:
                found[row] = self._text(value)
            except UnicodeDecodeError as error:
                bad[row] = f"the record's {self.part} is not UTF-8: {error}"
            if value is None and self.required:
                bad[row] = f"the record has no {self.part}"
        return found, bad

    def _text(self, value: bytes | None) -> Any:
        if value is None:
            return self.absent()
        return value.decode() if self.of is str else value

    @property
    def part(self) -> str:
        """For reasons."""
        return f"header {self.mark.name!r}" if isinstance(self.mark, Header) else "key"

    def column(self, values: list[Any]) -> Column:
        """Its column: an array of int64 or bool, ``Texts``, or a list."""
        if not self.is_plain or self.of in (bytes, datetime):
            return values
        return Texts.of(values) if self.of is str else np.array(values, np.int64 if self.of is int else np.bool_)

    @property
    def kind(self) -> str:
        """The kind of that column, as ``column_kinds`` names it."""
        plain = {str: "text", int: "int", bool: "bool"}
        return plain.get(self.of, "list") if self.is_plain else "list"


class RecordFields(Generic[E]):
    """The marked fields of a Struct. ``payload_type``: a Struct of the others, which values are decoded to.

    ``blank``: the value that a record without one is decoded as.
    """

    def __init__(self, event: type[E], fields: Sequence[RecordField]) -> None:
        self.fields = tuple(fields)
        names = {field.name for field in fields}
        infos = msgspec.structs.fields(event)  # type: ignore[arg-type]
        self._names = [info.name for info in infos]
        self._inner = [(info.name, attrgetter(info.name)) for info in infos if info.name not in names]
        self._event = event
        self._by_place = tuple(self._names) == event.__match_args__  # type: ignore[attr-defined]
        self.payload_type = without_fields(event, names)
        self.reads_nulls = any(field.mark is Tombstone for field in fields)
        config = event.__struct_config__  # type: ignore[attr-defined]
        tag = [] if config.tag is None else [config.tag]
        self.blank = msgspec.json.encode(
            tag if config.array_like else dict.fromkeys([config.tag_field][: len(tag)], config.tag)
        )
        if self.reads_nulls:
            try:
                msgspec.json.decode(self.blank, type=self.payload_type)
            except msgspec.ValidationError as error:
                raise JobError(
                    f"{event.__name__} has a Tombstone, so each field from the value needs a default: {error}"
                ) from None

    @classmethod
    def of(cls, event: Any) -> RecordFields[Any] | None:
        """Those of a type; None if it has none. Raises ``JobError`` where a mark cannot be obeyed."""
        if not (isinstance(event, type) and issubclass(event, msgspec.Struct)):
            refuse_marks(event)
            return None
        return cls._of_struct(event)

    @classmethod
    @lru_cache(256)
    def _of_struct(cls, event: Any) -> RecordFields[Any] | None:
        hints = typing.get_type_hints(event, include_extras=True)
        infos = {info.name: info for info in msgspec.structs.fields(event)}
        fields = [found for name in infos if (found := _field(infos[name], hints[name])) is not None]
        marked = {field.name for field in fields}
        for name in infos:
            if name not in marked:
                refuse_marks(hints[name], {event})
        return RecordFields[Any](event, fields) if fields else None

    @property
    def header_names(self) -> tuple[str, ...]:
        """The declared headers, in order."""
        return tuple(sorted({field.mark.name for field in self.fields if isinstance(field.mark, Header)}))

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return ", ".join(f"{field.name} of {_text_of(field.mark)}" for field in self.fields)

    def filled(self, payloads: Sequence[bytes], parts: RecordParts) -> Sequence[bytes]:
        """The values to decode: nulls are ``blank`` where they are declared."""
        if not self.reads_nulls or parts.nulls is None or not parts.nulls.any():
            return payloads
        return [self.blank if null else value for value, null in zip(payloads, parts.nulls.tolist(), strict=True)]

    def columns(self, timestamps_ms: NDArray[np.int64], parts: RecordParts) -> tuple[dict[str, list[Any]], Reasons]:
        """The values of each field, and the records that have none; of several reasons the first field's."""
        columns: dict[str, list[Any]] = {}
        bad: Reasons = {}
        for field in self.fields:
            columns[field.name], its = field.values(timestamps_ms, parts)
            bad = {**its, **bad}
        return columns, bad

    def events(self, values: Sequence[Any], columns: dict[str, list[Any]]) -> tuple[list[E], Reasons]:
        """Events of decoded values and of the columns of the same records; those that check themselves may be bad."""
        known = {**{name: list(map(value_of, values)) for name, value_of in self._inner}, **columns}
        rows = list(zip(*(known[name] for name in self._names), strict=True))
        made: list[E] = []
        bad: Reasons = {}
        for row, arguments in enumerate(rows):
            try:
                made.append(self._made(arguments))
            except (ValueError, TypeError) as error:  # of __post_init__, as msgspec takes it
                bad[row] = str(error) or type(error).__name__
        return made, bad

    def _made(self, arguments: tuple[Any, ...]) -> E:
        if self._by_place:
            return self._event(*arguments)
        return self._event(**dict(zip(self._names, arguments, strict=True)))


def _field(info: msgspec.structs.FieldInfo, hint: Any) -> RecordField | None:
    marks = _marks(hint)
    if not marks:
        return None
    what = f"field {info.name!r}"
    if len(marks) > 1:
        raise JobError(f"{what} has {len(marks)} marks; one part of a record is one field")
    mark = marks[0]
    bare = get_args(hint)[0]
    kinds = _TYPES.get(mark, (str, bytes))
    options = get_args(bare) if get_origin(bare) in (Union, UnionType) else (bare,)
    nullable = type(None) in options and mark is not Tombstone
    plain = [one for one in options if one is not type(None) or mark is Tombstone]
    if len(plain) != 1 or plain[0] not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise JobError(f"{what} of {_text_of(mark)} must be {names}, got {bare!r}")
    if info.default_factory is not msgspec.NODEFAULT:
        return RecordField(info.name, mark, plain[0], False, info.default_factory)
    if info.default is not msgspec.NODEFAULT:
        default = info.default
        return RecordField(info.name, mark, plain[0], False, lambda: default)
    return RecordField(info.name, mark, plain[0], not nullable, lambda: None)


def _marks(hint: Any) -> list[Mark]:
    """Those of a hint itself."""
    if get_origin(hint) is not Annotated:
        return []
    return [one for one in hint.__metadata__ if isinstance(one, Header) or one in (RecordKey, LogTime, Tombstone)]


def _text_of(mark: Mark) -> str:
    return repr(mark) if isinstance(mark, Header) else mark.__name__


def refuse_marks(hint: Any, seen: set[Any] | None = None) -> None:
    """Raise ``JobError`` if something inside of a type is marked: only fields of the event's own Struct can be."""
    seen = set() if seen is None else seen
    if _marks(hint):
        raise JobError(
            f"{hint!r}: parts of a record are fields of the event's own msgspec.Struct, not of types inside of it"
        )
    for inner in get_args(hint):
        refuse_marks(inner, seen)
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or kind in seen:
        return
    seen.add(kind)
    if issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        try:
            hints = typing.get_type_hints(kind, include_extras=True)
        except (NameError, TypeError):  # msgspec names what is wrong with them
            return
        for inner in hints.values():
            refuse_marks(inner, seen)


def without_fields(event: Any, names: set[str]) -> type[msgspec.Struct]:
    """A Struct of the fields that values hold, with the options of the event's."""
    config = event.__struct_config__
    fields: list[tuple[str, Any, Any]] = []
    for info in msgspec.structs.fields(event):
        if info.name not in names:
            default = {"default": info.default} if info.default is not msgspec.NODEFAULT else {}
            if info.default_factory is not msgspec.NODEFAULT:
                default = {"default_factory": info.default_factory}
            fields.append((info.name, info.type, msgspec.field(name=info.encode_name, **default)))
    options = {} if config.tag is None else {"tag": config.tag, "tag_field": config.tag_field}
    return msgspec.defstruct(
        event.__name__,
        fields,
        kw_only=True,
        array_like=config.array_like,
        forbid_unknown_fields=config.forbid_unknown_fields,
        **options,
    )
