"""Values that name their schema: the wire format of a schema registry, and the schemas that a format knows.

The registry itself is reached by the runtime, before it hands records to a format. An id means the same schema for
ever, so what is known of it is a part of the record's meaning and no state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Protocol, runtime_checkable

import msgspec

from holon.errors import JobError

MAGIC = 0
OWN_ID = 0
"""The id of values that a test writes: no registry gives it to a schema."""
HEADER_BYTES = 5
"""The magic byte and the id, big-endian (Confluent's wire format)."""
_URL = re.compile(r"https?://[^/@?#\s]+(/[^?#\s]*)?")


class RegisteredSchema(msgspec.Struct, frozen=True, tag_field="found", tag="schema"):
    """A schema as the registry has it. ``references``: by their names, what it refers to, in the order given."""

    text: str
    type: str = "AVRO"
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


class UnknownSchema(msgspec.Struct, frozen=True, tag_field="found", tag="unknown"):
    """The registry has answered that it has no such schema."""


FoundSchema = RegisteredSchema | UnknownSchema


class KnownSchemas:
    """Schemas of one registry that are known, by id. ``url`` is no part of a job's fingerprint: it may move."""

    def __init__(self, url: str, given: Mapping[int, FoundSchema] | None = None) -> None:
        self.url = checked_url(url)
        self._found: dict[int, FoundSchema] = dict(given or {})
        self.given = frozenset(self._found)
        """Ids whose schemas are part of the job's code."""
        self._heads = {head_of(id) for id in self._found}

    def learn(self, id: int, found: FoundSchema) -> None:
        """Take an answer of the registry. The first answer stays: an id is never given to another schema."""
        if self._found.setdefault(id, found) is found:
            self._heads.add(head_of(id))

    def get(self, id: int) -> FoundSchema:
        """Raises ``JobError`` for one that was not requested."""
        try:
            return self._found[id]
        except KeyError:
            raise JobError(
                f"schema {id} of {self.url} is not known here: only a node requests schemas; in a test give it as "
                f"schemas={{{id}: ...}}, or feed objects instead of bytes"
            ) from None

    @property
    def found(self) -> Mapping[int, FoundSchema]:
        """All that is known, by id."""
        return self._found

    def missing(self, payloads: Sequence[bytes]) -> tuple[int, list[int]] | None:
        """The first payload whose schema is not known, and the ids of all such; None: all can be decoded."""
        requested = other_heads(payloads, self._heads)
        if not requested:
            return None
        first = next(row for row, payload in enumerate(payloads) if payload[:HEADER_BYTES] in requested)
        return first, sorted(map(id_of, requested))

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint: neither the address nor what is known."""
        return "schemas of a registry"


@runtime_checkable
class RegistryFormat(Protocol):
    """The member of a format beside ``Format`` whose records name schemas of a registry; None: they name none."""

    schemas: KnownSchemas | None


def schemas_of(format: object) -> KnownSchemas | None:
    """The schemas that a format needs to know before it decodes; None where it needs none."""
    return format.schemas if isinstance(format, RegistryFormat) else None


def other_heads(payloads: Sequence[bytes], heads: Set[bytes]) -> Set[bytes]:
    """The headers of values that name a schema, without these."""
    found = {payload[:HEADER_BYTES] for payload in payloads} - heads
    return {head for head in found if len(head) == HEADER_BYTES and head[0] == MAGIC}


def id_of(head: bytes) -> int:
    """The id in a header."""
    return int.from_bytes(head[1:HEADER_BYTES], "big")


def head_of(id: int) -> bytes:
    """The header of an id."""
    return bytes([MAGIC]) + id.to_bytes(4, "big")


def head_refusal(payload: bytes) -> str | None:
    """Why a value names no schema; None: it does."""
    if len(payload) < HEADER_BYTES:
        return f"the value has {len(payload)} bytes, less than the header of a schema registry"
    if payload[0] != MAGIC:
        return f"the value begins with {payload[:1].hex()}, not with the 00 of a schema registry"
    return None


def unknown(id: int) -> str:
    """The reason of records that name a schema which the registry does not know."""
    return f"the registry has no schema {id}"


def checked_url(url: str) -> str:
    """The address of a registry; raises ``JobError`` if it is none, or holds credentials."""
    if not isinstance(url, str) or not _URL.fullmatch(url):
        raise JobError(
            "registry= is the address of a schema registry, http(s)://HOST[:PORT][/PATH]; it is part of the job's "
            "code, so it holds no credentials and no query: set schema_registry.username and schema_registry.password"
        )
    return url.rstrip("/")
