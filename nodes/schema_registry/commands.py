"""Schemas for commands that run a job's functions beside its nodes: they wait for the registry, or fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holon.formats.formats import Format
from holon.formats.registry import FoundSchema, schemas_of
from nodes.settings.schema_registry import RegistrySettings

SchemasOfRegistries = dict[str, dict[int, FoundSchema]]
"""By the address of the registry and by id."""


def fetch_missing(format: Format[Any], payloads: Sequence[bytes], settings: RegistrySettings) -> None:
    """Let a format know the schemas of its records. Raises ``Unreachable``."""
    known = schemas_of(format)
    missing = None if known is None else known.missing(payloads)
    if known is not None and missing is not None:
        from nodes.schema_registry.client import RegistryClient

        client = RegistryClient(known.url, settings)
        for id in missing[1]:
            known.learn(id, client.fetch(id))


def known_schemas(formats: Iterable[Format[Any]]) -> SchemasOfRegistries:
    """All that formats know, to be told to those of another process."""
    found: SchemasOfRegistries = {}
    for known in map(schemas_of, formats):
        if known is not None:
            found.setdefault(known.url, {}).update(known.found)
    return found


def learn_all(formats: Iterable[Format[Any]], schemas: SchemasOfRegistries) -> None:
    """Let formats know what those of another process knew."""
    for known in map(schemas_of, formats):
        for id, schema in ({} if known is None else schemas.get(known.url, {})).items():
            assert known is not None
            known.learn(id, schema)
