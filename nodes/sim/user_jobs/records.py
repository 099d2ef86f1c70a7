"""The records of a user's job by topic: from one file, from a file a topic, or given as they are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holon.formats.formats import Format
from holon.job import Job
from holon.testing import payload_of
from nodes.errors import SettingsError, UnknownName
from nodes.profiling.records import lines_of, values_of

Lines = dict[str, list[bytes]]
"""The records of each topic of the job, in their order."""

OfTopic = str | Path | Sequence[Any]
"""A file with a record a line, or records: bytes as they are, anything else as the topic's format writes it."""


def lines_by_topic(job: Job[Any], data: OfTopic | Mapping[str, OfTopic]) -> Lines:
    """``data`` of the job's only topic, or by topic; a topic without any has no records.

    Raises ``SettingsError`` and ``UnknownName`` about topics, ``RunFailed`` about files.
    """
    if not isinstance(data, Mapping):
        _demand_one_topic(job, "give a mapping of each topic to its records")
        return {job.topics[0]: _records(data, job.sources[0].format)}
    _demand_known(job, data)
    return {source.topic: _records(data.get(source.topic, ()), source.format) for source in job.sources}


def files_by_topic(job: Job[Any], given: Sequence[str]) -> dict[str, Path]:
    """``FILE`` of the job's only topic, or ``TOPIC=FILE`` for topics of it.

    Raises ``SettingsError`` and ``UnknownName`` about topics.
    """
    if len(given) == 1 and len(job.topics) == 1 and not given[0].startswith(f"{job.topics[0]}="):
        return {job.topics[0]: Path(given[0])}
    found: dict[str, Path] = {}
    for each in given:
        topic, equals, file = each.partition("=")
        if not equals:
            _demand_one_topic(job, f"name the topic of {each}, as in --data {job.topics[0]}={each}")
            raise SettingsError(f"job {job.name!r} reads one topic, {job.topics[0]!r}: give one --data FILE")
        if topic in found:
            raise SettingsError(f"--data names topic {topic!r} twice")
        found[topic] = Path(file)
    _demand_known(job, found)
    return found


def read_files(job: Job[Any], files: Mapping[str, Path], limit: int) -> Lines:
    """The first ``limit`` lines of each file; topics without one have no records. Raises ``RunFailed``."""
    return {
        source.topic: values_of(source.format, lines_of(files[source.topic], limit)) if source.topic in files else []
        for source in job.sources
    }


def _demand_one_topic(job: Job[Any], fix: str) -> None:
    if len(job.topics) > 1:
        raise SettingsError(f"job {job.name!r} reads {', '.join(job.topics)}: {fix}")


def _demand_known(job: Job[Any], topics: Mapping[str, object]) -> None:
    for topic in topics:
        if topic not in job.topics:
            raise UnknownName(f"topic of job {job.name!r},", topic, job.topics)


def _records(data: OfTopic, format: Format[Any]) -> list[bytes]:
    if isinstance(data, str | Path):
        return values_of(format, lines_of(Path(data), sys.maxsize))
    return [payload_of(format, record) for record in data]
