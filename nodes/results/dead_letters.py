"""The dead letters of a job: what could not be decoded or processed, as it was, with its place in the input and why."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from holon.columnar.record_parts import RecordParts
from holon.errors import DeserializationError
from holon.formats.formats import AtomFormat, Format, headers_requested_by
from holon.input_layout import InputPlace
from holon.job import DEAD, Job
from holon.outputs.letters import Diverted, payload_digest
from holon.source import Source
from nodes.errors import RunFailed, UnknownName
from nodes.log.contract import Log, OffsetOutOfRange, Record
from nodes.results.reader import OutputReader

_log = logging.getLogger("holon.results")
_PLACE = re.compile(r"(?:(?P<topic>[^:]+):)?(?P<partition>\d+):(?:(?P<offset>\d+)|@(?P<end>-?\d+)\.(?P<number>\d+))")


class LetterPlace(NamedTuple):
    """Partition and offset of a record (``number`` -1); of a row behind a window its end and the row's number.

    ``topic``: where the job reads several topics.
    """

    partition: int
    at: int
    number: int = -1
    topic: str = ""


def dead_letters(log: Log, job: Job) -> Iterator[Diverted]:
    """Each once, those of the newest incarnation; none where the job has never run."""
    topic = job.outputs[DEAD].topic
    if topic not in log.topics():
        return
    reader = OutputReader(log, topic, decode=lambda data: msgspec.json.decode(data, type=Diverted))
    yield from (output.value for output in reader.read_available())


def place_of(text: str) -> LetterPlace:
    """``PARTITION:OFFSET``, or of a row ``PARTITION:@END.NUMBER``, behind ``TOPIC:`` where the job reads several.

    Raises ``UnknownName`` on anything else.
    """
    found = _PLACE.fullmatch(text)
    if found is None:
        raise UnknownName("place such as 0:1234 (PARTITION:OFFSET), or of a row 0:@5000.0", text)
    partition, topic = int(found["partition"]), found["topic"] or ""
    if found["offset"] is not None:
        return LetterPlace(partition, int(found["offset"]), topic=topic)
    return LetterPlace(partition, int(found["end"]), int(found["number"]), topic)


def letter_place(job: Job, letter: Diverted) -> LetterPlace:
    """The place that names a letter."""
    topic = letter.topic if len(job.sources) > 1 else ""
    if letter.window is None:
        return LetterPlace(letter.partition, letter.offset, topic=topic)
    return LetterPlace(letter.partition, letter.window[1], letter.number, topic)


def place_text(place: LetterPlace) -> str:
    """As ``place_of`` reads it."""
    before = f"{place.topic}:{place.partition}" if place.topic else str(place.partition)
    return f"{before}:{place.at}" if place.number < 0 else f"{before}:@{place.at}.{place.number}"


def found(log: Log, job: Job, places: list[LetterPlace]) -> list[Diverted]:
    """The letters of these places, in their order; raises ``UnknownName`` for one that has none."""
    known = {letter_place(job, letter): letter for letter in dead_letters(log, job)}
    if len(job.sources) == 1:
        places = [place._replace(topic="") if place.topic == job.topics[0] else place for place in places]
    elif (bare := next((place for place in places if not place.topic), None)) is not None:
        raise UnknownName(f"place with its topic (TOPIC:PARTITION:OFFSET; {', '.join(job.topics)})", place_text(bare))
    for place in places:
        if place not in known:
            raise UnknownName("dead letter", place_text(place), map(place_text, known))
    return [known[place] for place in places]


def whole_payload(log: Log, job: Job, letter: Diverted) -> bytes:
    """The raw bytes of a letter: a long payload is read from the input. Raises ``RunFailed`` if it is gone there."""
    return letter.payload if letter.size is None or letter.is_row else _in_input(log, job, letter)[1]


def whole_record(log: Log, job: Job, letter: Diverted) -> Record:
    """The record of a letter as it was: value (null, where it has none), key, and the headers that the job reads.

    If the job's events hold parts of records, the letter has them; otherwise the input has. Where the input does not
    hold the record any more, the value goes back alone, with a warning. Raises ``RunFailed`` if the letter has not all
    of that.
    """
    headers = headers_requested_by(_source(job, letter).format)
    if headers is not None and not letter.bare and letter.size is None:
        return Record(None if letter.null else letter.payload, letter.key, letter.headers)
    log.use_record_parts(letter.topic, headers or ())
    try:
        parts, payload = _in_input(log, job, letter)
    except RunFailed as error:
        if letter.bare or letter.size is not None:
            raise
        _log.warning("%s, so its value is appended without the key that it may have had", error)
        return Record(letter.payload)
    return Record(None if parts.is_null(0) else payload, parts.key(0), parts.headers_of(0))


def _in_input(log: Log, job: Job, letter: Diverted) -> tuple[RecordParts, bytes]:
    """The parts and the payload of a letter's record; of an event of an Arrow record batch, the payload of it alone."""
    where = f"dead letter of {letter.topic}[{letter.partition}] offset {letter.offset}"
    try:
        chunk = log.read(letter.topic, letter.partition, letter.offset, max_records=1)
    except OffsetOutOfRange as error:
        raise RunFailed(f"{where}: the input does not hold its record any more") from error
    if list(chunk.offsets[:1]) == [letter.offset]:
        payload = _of_event(_source(job, letter).format, letter.place, chunk.values[0])
        if payload is not None and payload_digest(payload) == (letter.digest or payload_digest(letter.payload)):
            return chunk.parts or RecordParts(), payload
    raise RunFailed(f"{where}: the input holds another record there now")


def _source(job: Job, letter: Diverted) -> Source[Any]:
    """The one that the letter's record came by. Raises ``RunFailed`` where the job has no such source any more."""
    if len(job.sources) == 1:
        return job.sources[0]
    for source in job.sources:
        if source.topic == letter.topic:
            return source
    raise RunFailed(
        f"{place_text(letter_place(job, letter))} is of topic {letter.topic}, and job {job.name!r} reads "
        f"{', '.join(job.topics)}"
    )


def _of_event(reads: Format[Any], place: int | None, payload: bytes) -> bytes | None:
    """The payload of the event at a place of a record; None if the record has no such event."""
    if place is None:
        return payload
    if not isinstance(reads, AtomFormat) or place >= reads.events_in(payload):
        return None
    try:
        return reads.single(payload, place)
    except DeserializationError:
        return None


def replay(log: Log, job: Job, letters: list[Diverted]) -> dict[InputPlace, int]:
    """Append the raw records to the input again, each to its topic and partition; gives how many went where.

    With keys and null values; of headers, those that the job's events hold.

    Raises ``RunFailed``, before anything is appended, for a row behind a window: it is no record.

    They are new records there, at new offsets: whatever makes them dead again makes new letters.
    """
    counts: dict[InputPlace, int] = {}
    for letter in letters:
        if letter.is_row:
            raise RunFailed(
                f"{place_text(letter_place(job, letter))} is a row of window {letter.window}, no record of "
                f"{letter.topic}, so nothing was appended: its window is answered, and records for it would be late. "
                f"Mend the flow, and run it again from the beginning (holon run --reset)"
            )
    places = [InputPlace(_source(job, letter).topic, letter.partition) for letter in letters]
    for place in sorted(set(places)):
        topic, partition = place
        rows = [whole_record(log, job, one) for one, of in zip(letters, places, strict=True) if of == place]
        if partition >= log.partitions(topic):
            raise RunFailed(f"input {topic} has no partition {partition} any more; nothing more was appended")
        if all(record.value is not None and record.key is None and not record.headers for record in rows):
            log.append(topic, partition, [record.value or b"" for record in rows])
        else:
            log.append_records(topic, partition, rows)
        counts[place] = len(rows)
    return counts
