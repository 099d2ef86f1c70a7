"""Whether what a ``Local`` holds can be checkpointed and restored: seen soon after it was used, not at a checkpoint.

Two rules for this file: nothing here changes a value, and only errors may depend on how often values are checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import msgspec

from holon.errors import UnserializableState, described
from wcrdt.codec import DecodeError

if TYPE_CHECKING:
    from holon.program.states import Local

BYTES_PER_CHECK = 32
"""A value of so many bytes is checked after every use; one of n times the size, after every n-th."""
_FAILS = (TypeError, ValueError, OverflowError, RecursionError, NotImplementedError, msgspec.MsgspecError)
_DEPTH = 16
_INT_64 = range(-(2**63), 2**63)


class OwnBytes(msgspec.Struct):
    """The value of a Local that a checkpoint holds as other bytes than those of its fields.

    The fields are the type that a job's version records. So bytes may change without one that refuses running jobs.
    """

    def to_bytes(self) -> bytes:
        """As a checkpoint holds it; changes nothing that others see."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Inverse of ``to_bytes``; takes the bytes of the fields, too. Raises as msgspec does."""
        return msgspec.msgpack.decode(data, type=cls)


def encoded(name: str, value: Any) -> bytes:
    """The value of a Local as a checkpoint holds it. Raises ``UnserializableState`` with the part that does not fit."""
    try:
        return value.to_bytes() if isinstance(value, OwnBytes) else msgspec.msgpack.encode(value)
    except _FAILS as error:
        place, part = _unfit(value, "value", _DEPTH)
        raise UnserializableState(
            f"Local {name!r} cannot be checkpointed: {place} is a {type(part).__name__} ({described(error)}); keep "
            f"plain values, Structs or dataclasses in it, and what cannot be stored in a module-level name"
        ) from error


def decoded(data: bytes, type_: Any) -> Any:
    """Inverse of ``encoded``. Raises as msgspec does."""
    if isinstance(type_, type) and issubclass(type_, OwnBytes):
        return type_.from_bytes(data)
    return msgspec.msgpack.decode(data, type=type_)


class CheckpointableLocals:
    """The Locals of one partition that were used since the last check."""

    def __init__(self, declared: Mapping[str, Local[Any]]) -> None:
        self._declared = declared
        self._types = {name: decl.type for name, decl in declared.items()}
        self.initials = {name: decl.initial for name, decl in declared.items()}
        self._pauses = dict.fromkeys(declared, 0)
        self._restored = dict.fromkeys(declared, 0)  # the size at which it was last decoded for a check
        self.used: dict[str, None] = {}
        self.kept: dict[str, bytes] | None = None
        """Since ``keep``: what was used, as it was before."""

    def keep(self) -> None:
        """From now on remember each value before its first use."""
        self.kept = {}

    def before_use(self, name: str, values: Mapping[str, Any]) -> None:
        """The value is about to be read, and perhaps changed. Raises ``UnserializableState``."""
        self.used[name] = None
        if self.kept is not None and name not in self.kept:
            self.kept[name] = encoded(name, values[name])

    def take_kept(self) -> dict[str, bytes]:
        """The values used since ``keep``, as they were then; nothing is remembered from here on."""
        kept, self.kept = self.kept, None
        return kept or {}

    def encode(self, values: Mapping[str, Any], track: str) -> dict[str, bytes]:
        """Those of one track as checkpoints hold them. Raises ``UnserializableState``."""
        chosen = (name for name, decl in self._declared.items() if decl.track == track)
        return {name: encoded(name, values[name]) for name in chosen}

    def decode(self, encoded: Mapping[str, bytes]) -> dict[str, Any]:
        """Values of encoded ones; a name that is not declared is an error of the caller. Raises ``DecodeError``."""
        found: dict[str, Any] = {}
        for name, value in encoded.items():
            try:
                found[name] = decoded(value, self._types[name])
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise DecodeError(f"Local {name!r}: {error}") from error
        return found

    def check(self, values: Mapping[str, Any]) -> None:
        """Of what was used, check what is due. Raises ``UnserializableState``."""
        for name in self.used:
            value, type_ = values[name], self._types[name]
            if type(value) is type_ and type_ in (bool, float):
                continue
            if type(value) is int and type_ is int and value in _INT_64:
                continue
            self._pauses[name] -= 1
            if self._pauses[name] <= 0:
                self._pauses[name] = self._check(name, value, type_) // BYTES_PER_CHECK
        self.used.clear()

    def _check(self, name: str, value: Any, type_: Any) -> int:
        """Its size in bytes."""
        data = encoded(name, value)
        if 0 < len(data) < 2 * self._restored[name]:
            return len(data)
        self._restored[name] = len(data)
        try:
            decoded(data, type_)
        except _FAILS as error:
            raise UnserializableState(
                f"Local {name!r} cannot be restored as {type_!r:.200}: it holds a {type(value).__name__} "
                f"({described(error)}); declare its type: Local[...](...)"
            ) from error
        return len(data)


def _unfit(value: Any, place: str, depth: int) -> tuple[str, Any]:
    """The innermost part that cannot be encoded, and where it is."""
    for step, part in _parts(value) if depth else ():
        try:
            msgspec.msgpack.encode(part)
        except _FAILS:
            return _unfit(part, f"{place}{step}", depth - 1)
    return place, value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f" (key {key!r:.100})", key) for key in value)
        yield from ((f"[{key!r:.100}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((" (an element)", part) for part in value)
    else:
        names = getattr(value, "__struct_fields__", ())
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
        yield from ((f".{name}", getattr(value, name, None)) for name in names)
