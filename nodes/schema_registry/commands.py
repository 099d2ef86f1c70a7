"""Schemas for commands that run a job's functions beside its nodes: they wait for the registry, or fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holon.formats.formats import Format
from holon.formats.registry import FoundSchema, schemas_of
from nodes.settings.schema_registry import RegistrySettings

SchemasOfRegistries = dict[str, dict[int, FoundSchema]]
"""By the address of the registry and by id."""


def fetching(settings: RegistrySettings) -> Callable[[str, int], FoundSchema]:
    """Requests a schema from the registry at a URL; raises ``Unreachable``."""

    def fetch(url: str, id: int) -> FoundSchema:
        from nodes.schema_registry.client import RegistryClient

        return RegistryClient(url, settings).fetch(id)

    return fetch


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
