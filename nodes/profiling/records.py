"""The records that a job is profiled on: lines of a file, or the beginning of a topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from holon.columnar.payloads import BinaryColumn
from holon.formats.formats import Format, PackingFormat, WritableFormat
from holon.formats.input_run import Input
from nodes.errors import RunFailed
from nodes.log.contract import Log
from nodes.streams.io.inputs import input_of
from nodes.streams.judged_schemas import JudgedSchemas

Run = tuple[int, Input]
"""A partition, and records of it."""


class ProfiledRecords(Protocol):
    """Of each topic its ``partitions``, whose runs come in the order in which a node would take them."""

    partitions: tuple[int, ...]

    def runs(self, batch: int) -> Iterator[Run]:
        """All records, at most ``batch`` at a time; may be called again."""
        ...


def lines_of(path: Path, limit: int) -> list[bytes]:
    """The first lines of the file of ``--data``, without their ends. Raises ``RunFailed``."""
    try:
        with path.open("rb") as file:
            lines = [line.rstrip(b"\r\n") for line in islice(file, limit)]
    except OSError as error:
        raise RunFailed(f"--data {path}: {error.strerror}") from None
    if not lines:
        raise RunFailed(f"--data {path}: there are no lines")
    return lines


def values_of(format: Format[Any] | None, lines: Sequence[bytes]) -> list[bytes]:
    """The records of lines: as they are, or written as the format has them, where that is no JSON.

    A line that is no JSON of an event stays as it is, and becomes a dead letter.
    """
    return [format.from_json(line) for line in lines] if isinstance(format, WritableFormat) else list(lines)


def packed_values_of(format: Format[Any] | None, lines: Sequence[bytes]) -> list[bytes]:
    """As ``values_of``, with many events in a record where the format has such: one in each would be no usual topic."""
    return format.atoms_of(lines) if isinstance(format, PackingFormat) else values_of(format, lines)


class FileRecords:
    """The lines of a file as records; one partition. The log's times of all records are the beginning of time."""

    partitions: tuple[int, ...] = (1,)

    def __init__(self, path: Path, limit: int, format: Format[Any] | None = None) -> None:
        self._values = BinaryColumn.of(packed_values_of(format, lines_of(path, limit)))

    def runs(self, batch: int) -> Iterator[Run]:
        for start in range(0, len(self._values), batch):
            values = self._values[start : start + batch]
            offsets = np.arange(start, start + len(values))
            yield 0, Input(offsets, np.zeros(len(values), np.int64), values, start + len(values))


class TopicRecords:
    """The first retained records of some topics, equally many of each partition."""

    def __init__(self, log: Log, topics: Sequence[str], limit: int) -> None:
        self._log = log
        self.partitions = tuple(log.partitions(topic) for topic in topics)
        counted = zip(topics, self.partitions, strict=True)
        self._places = [(topic, partition) for topic, count in counted for partition in range(count)]
        self._each = -(-limit // len(self._places))
        starts = [log.start_offset(*place) for place in self._places]
        ends = [log.end_offset(*place) for place in self._places]
        if starts == ends:
            several = "s" * (len(topics) > 1)
            raise RunFailed(f"topic{several} {', '.join(map(repr, topics))} ha{'ve' if several else 's'} no records")
        self._starts, self._ends = starts, ends

    def runs(self, batch: int) -> Iterator[Run]:
        at, taken = list(self._starts), [0] * len(self._places)
        while True:
            moved = False
            for partition, place in enumerate(self._places):
                room = min(batch, self._each - taken[partition])
                if at[partition] >= self._ends[partition] or room <= 0:
                    continue
                found = self._log.read(*place, at[partition], max_records=room)
                moved |= found.next_offset > at[partition]
                at[partition] = found.next_offset
                taken[partition] += len(found.values)
                yield partition, input_of(found)
            if not moved:
                return


class RefusedRecords:
    """Records of which some are dead whatever their values are. ``refused``: by partition their offsets, and why."""

    def __init__(self, records: ProfiledRecords, refused: Sequence[Mapping[int, str]]) -> None:
        self.partitions = records.partitions
        self._records, self._refused = records, refused

    def runs(self, batch: int) -> Iterator[Run]:
        for partition, run in self._records.runs(batch):
            yield partition, msgspec.structs.replace(run, refused=self._refused[partition] or None)


def without_refused(records: ProfiledRecords, schemas: JudgedSchemas, batch: int) -> ProfiledRecords:
    """The records, of which those are dead that nodes have set aside; formats know the schemas of all others."""
    if not schemas.are_named:
        return records
    refused = [dict[int, str]() for _ in range(sum(records.partitions))]
    for partition, run in records.runs(batch):
        refused[partition].update(schemas.judge(partition, zip(run.offsets.tolist(), run.payloads, strict=True)))
    return RefusedRecords(records, refused)
