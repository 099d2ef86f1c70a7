"""The dead letters of a job: what could not be decoded or processed, as it was, with its place in the input and why."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from holon.columnar.record_parts import RecordParts
from holon.job import DEAD, Job
from holon.tracks.admission import Diverted, payload_digest
from nodes.errors import RunFailed, UnknownName
from nodes.log.contract import FetchedRecords, Log, OffsetOutOfRange, Record
from nodes.results.reader import OutputReader
from nodes.streams.io.inputs import use_parts

LetterPlace = tuple[int, int]
"""(input partition, offset)."""


def dead_letters(log: Log, job: Job) -> Iterator[Diverted]:
    """Each once, those of the newest incarnation; none where the job has never run."""
    topic = job.outputs[DEAD].topic
    if topic not in log.topics():
        return
    reader = OutputReader(log, topic, decode=lambda data: msgspec.json.decode(data, type=Diverted))
    yield from (output.value for output in reader.read_available())


def place_of(text: str) -> LetterPlace:
    """``PARTITION:OFFSET``; raises ``UnknownName`` on anything else."""
    partition, _, offset = text.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise UnknownName("place such as 0:1234 (PARTITION:OFFSET)", text)
    return int(partition), int(offset)


def found(log: Log, job: Job, places: list[LetterPlace]) -> list[Diverted]:
    """The letters of these places, in their order; raises ``UnknownName`` for one that has none."""
    known = {(letter.partition, letter.offset): letter for letter in dead_letters(log, job)}
    for partition, offset in places:
        if (partition, offset) not in known:
            raise UnknownName("dead letter", f"{partition}:{offset}", (f"{p}:{o}" for p, o in known))
    return [known[place] for place in places]


def whole_payload(log: Log, letter: Diverted) -> bytes:
    """The raw bytes of a letter: a long payload is read from the input. Raises ``RunFailed`` if it is gone there."""
    return letter.payload if letter.size is None else _in_input(log, letter).values[0]


def whole_record(log: Log, job: Job, letter: Diverted) -> Record:
    """The record of a letter as it was: value, key and headers, where the job asks for these. Raises ``RunFailed``."""
    value = None if letter.null else whole_payload(log, letter)
    if not letter.bare:
        return Record(value, letter.key, letter.headers)
    use_parts(log, job)
    parts = _in_input(log, letter).parts or RecordParts()
    return Record(value, parts.key(0), parts.headers_of(0))


def _in_input(log: Log, letter: Diverted) -> FetchedRecords:
    """The record of a letter, alone."""
    where = f"{letter.topic}[{letter.partition}] offset {letter.offset}"
    try:
        chunk = log.read(letter.topic, letter.partition, letter.offset, max_records=1)
    except OffsetOutOfRange as error:
        raise RunFailed(f"dead letter of {where}: the input does not hold its record any more") from error
    digest = letter.digest or payload_digest(letter.payload)
    if list(chunk.offsets[:1]) != [letter.offset] or payload_digest(chunk.values[0]) != digest:
        raise RunFailed(f"dead letter of {where}: the input holds another record there now")
    return chunk


def replay(log: Log, job: Job, letters: list[Diverted]) -> dict[int, int]:
    """Append the raw records to the input again, each to its partition; gives how many went where.

    With keys and headers where the job's events ask for these; of headers, those that they ask for.

    They are new records there, at new offsets: whatever makes them dead again makes new letters.
    """
    counts: dict[int, int] = {}
    topic = job.source.topic
    for partition in sorted({letter.partition for letter in letters}):
        rows = [whole_record(log, job, letter) for letter in letters if letter.partition == partition]
        if partition >= log.partitions(topic):
            raise RunFailed(f"input {topic} has no partition {partition} any more; nothing more was appended")
        if all(record.value is not None and record.key is None and not record.headers for record in rows):
            log.append(topic, partition, [record.value or b"" for record in rows])
        else:
            log.append_records(topic, partition, rows)
        counts[partition] = len(rows)
    return counts
