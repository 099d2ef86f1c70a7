"""The peer's queries: files of statements, with source and sink filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

CHANGELOGS = ("q4",)
"""Queries whose rows are updated later; the key of each is its first column."""

_PRODUCER = {"linger.ms": "10", "batch.size": "262144", "buffer.memory": "67108864", "compression.type": "lz4"}


@dataclass(frozen=True, slots=True)
class TableTopics:
    """Where events come from and results go to; without ``results`` they go nowhere."""

    bootstrap: str
    events: str
    results: str | None = None
    bounded: bool = True


def queries(peer: Path) -> list[str]:
    """Names of the queries that there are."""
    return sorted(path.stem for path in (peer / "queries").glob("*.sql"))


def statements(peer: Path, query: str, place: TableTopics) -> list[str]:
    """The query's statements, the last of which starts its job."""
    text = (peer / "queries" / f"{query}.sql").read_text(encoding="utf-8")
    key = ", PRIMARY KEY (category) NOT ENFORCED" if query in CHANGELOGS and place.results else ""
    filled = Template(text).substitute(SOURCE=_options(source(place)), SINK=_options(sink(query, place)), KEY=key)
    return _split(filled)


def filled_statements(text: str, place: TableTopics) -> list[str]:
    """Statements of any job, the last of which starts it.

    ``${SOURCE}`` and ``${SINK}`` are filled in; ``${SOURCE_ISO}`` is the source with times as ISO 8601.
    """
    iso = source(place) | {"json.timestamp-format.standard": "ISO-8601"}
    values = {"SOURCE": source(place), "SOURCE_ISO": iso, "SINK": sink("", place)}
    return _split(Template(text).substitute({name: _options(found) for name, found in values.items()}))


def latency_statements(peer: Path, query: str, place: TableTopics, window_ms: int) -> list[str]:
    """As ``statements``, for the query with windows of ``window_ms`` whose results leave at once."""
    text = (peer / "latency" / f"{query}.sql").read_text(encoding="utf-8")
    at_once = sink(query, place) | {"properties.linger.ms": "0"}
    window = f"{window_ms // 1000}.{window_ms % 1000:03d}"
    return _split(Template(text).substitute(SOURCE=_options(source(place)), SINK=_options(at_once), WINDOW_S=window))


def source(place: TableTopics) -> dict[str, str]:
    """Options of the source's table."""
    options = {
        "connector": "kafka",
        "topic": place.events,
        "properties.bootstrap.servers": place.bootstrap,
        "properties.fetch.max.bytes": "52428800",
        "properties.max.partition.fetch.bytes": "8388608",
        "scan.startup.mode": "earliest-offset",
        "format": "json",
        "json.timestamp-format.standard": "SQL",
    }
    return options | ({"scan.bounded.mode": "latest-offset"} if place.bounded else {})


def sink(query: str, place: TableTopics) -> dict[str, str]:
    """Options of the sink's table."""
    if place.results is None:
        return {"connector": "blackhole"}
    options = {"topic": place.results, "properties.bootstrap.servers": place.bootstrap}
    options |= {f"properties.{name}": value for name, value in _PRODUCER.items()}
    if query in CHANGELOGS:
        return {"connector": "upsert-kafka", "key.format": "json", "value.format": "json", **options}
    return {"connector": "kafka", "format": "json", "json.timestamp-format.standard": "SQL", **options}


def _split(text: str) -> list[str]:
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [part.strip() for part in lines.split(";") if part.strip()]


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
