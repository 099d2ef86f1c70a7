"""The types that settings are made of, and how a given value becomes one: msgspec alone, which nodes have anyway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints
from urllib.parse import urlsplit, urlunsplit

from msgspec import Meta, ValidationError, convert

Positive = Annotated[int, Meta(gt=0)]
NotNegative = Annotated[int, Meta(ge=0)]
Filled = Annotated[str, Meta(min_length=1)]

_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Secret:
    """A text that is shown as asterisks."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        """The text itself: never log it."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._value == self._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __str__(self) -> str:
        return "**********" if self._value else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class SecretUrl(Secret):
    """A URL that is shown without its password and its query."""

    __slots__ = ()

    def __str__(self) -> str:
        parts = urlsplit(self.get_secret_value())
        host = parts.netloc.rpartition("@")[2]
        netloc = f"***@{host}" if "@" in parts.netloc else host
        return urlunsplit((parts.scheme, netloc, parts.path, "***" if parts.query else "", ""))


@dataclass(frozen=True)
class Section:
    """A group of settings."""

    @classmethod
    def described(cls) -> dict[str, str]:
        """Every setting of the group with its description."""
        return {each.name: each.metadata["description"] for each in fields(cls)}

    def items(self) -> Iterator[tuple[str, Any]]:
        """Every setting with its value."""
        return ((each.name, getattr(self, each.name)) for each in fields(self))


def setting(default: Any, description: str) -> Any:
    """A field of a section."""
    metadata = {"description": description}
    if isinstance(default, Mapping):
        return field(
            default_factory=lambda: default, metadata=metadata
        )  # it is immutable, which dataclasses cannot know
    return field(default=default, metadata=metadata)


@cache
def shapes(section: type[Section]) -> dict[str, Any]:
    """The type of every setting, with its limits."""
    return get_type_hints(section, include_extras=True)


def is_secret(shape: Any) -> bool:
    """True if the value is never shown."""
    return _secret(shape) is not None


def converted(value: object, shape: Any, *, typed: bool) -> Any:
    """The value as a setting of this shape. Raises ``ValueError`` with the reason where it cannot be one.

    ``typed``: it has a type (in a file ``true`` is no number); else text is converted, and ``none`` is None.
    """
    if isinstance(value, str) and value.strip().lower() == "none" and type(None) in get_args(shape):
        return None
    if (secret := _secret(shape)) is not None:
        return secret(_checked(value, str, typed))
    if isinstance(value, str) and not typed and shape is bool:
        value = _BOOLEANS.get(value.strip().lower(), value)
    elif isinstance(value, str) and not typed and get_args(shape)[:1] == (int,):
        value = value.strip()
    return _checked(value, shape, typed)


def _secret(shape: Any) -> type[Secret] | None:
    return next((kind for kind in get_args(shape) if isinstance(kind, type) and issubclass(kind, Secret)), None)


def _checked(value: object, shape: Any, typed: bool) -> Any:
    try:
        return convert(value, shape, strict=typed)
    except ValidationError as error:
        raise ValueError(str(error)) from None
