"""Generated events into a log: event n goes to partition n mod P, so record k of partition p is event p + k * P.

Where the records are atoms, each holds the next so many events of its partition. So loading is restartable: it
goes on at the end of a partition. A repeated task appends nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nodes.log.contract import Log, LogError

BATCH_RECORDS = 4096


class TopicHoldsOther(LogError):
    """The topic already has records that are not those of this stream."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Which events are loaded where: the first ``events`` of a seed, over the partitions of a topic.

    ``atom_rows``: 0 for one event a record, in JSON; else each record is an atom of so many events, the last of less.
    """

    topic: str
    events: int
    partitions: int
    config: GeneratorConfig
    atom_rows: int = 0

    def events_in(self, partition: int) -> int:
        """How many of the events are in a partition."""
        return len(range(partition, self.events, self.partitions))

    def records_in(self, partition: int) -> int:
        """How many records these are."""
        return -(-self.events_in(partition) // (self.atom_rows or 1))

    def encode(self, partition: int, offset: int, stop: int) -> list[bytes]:
        """The records of a partition from one offset to below another."""
        if self.atom_rows:
            return [self._atom(partition, number) for number in range(offset, stop)]
        step = self.partitions
        return encode_json(generate_slice(self.config, partition + offset * step, partition + stop * step, step))

    def _atom(self, partition: int, number: int) -> bytes:
        from nexmark.generator.arrow_columns import encode_atom  # pyarrow comes with an extra

        step, rows = self.partitions, self.atom_rows
        first, stop = partition + number * rows * step, partition + (number + 1) * rows * step
        return encode_atom(generate_slice(self.config, first, min(stop, self.events), step))


def load_partition(log: Log, stream: Stream, partition: int, *, batch_records: int = BATCH_RECORDS) -> int:
    """Append what is missing of one partition, some ``batch_records`` events at a time; returns how many records.

    No other process may append to the partition meanwhile. Raises ``TopicHoldsOther`` if what is there is not this
    stream's.
    """
    wanted = stream.records_in(partition)
    start = log.end_offset(stream.topic, partition)
    _check_last(log, stream, partition, start, wanted)
    step = max(1, batch_records // (stream.atom_rows or 1))
    for offset in range(start, wanted, step):
        stop = min(offset + step, wanted)
        log.append(stream.topic, partition, stream.encode(partition, offset, stop))
    return max(wanted - start, 0)


def load(log: Log, stream: Stream, *, batch_records: int = BATCH_RECORDS) -> int:
    """Create the topic and load all partitions in this process; returns how many records were appended."""
    log.create_topic(stream.topic, stream.partitions)
    return sum(load_partition(log, stream, number, batch_records=batch_records) for number in range(stream.partitions))


def _check_last(log: Log, stream: Stream, partition: int, end: int, wanted: int) -> None:
    """Compare the last record that is there, so that two streams are never mixed in a topic."""
    where = f"topic {stream.topic!r}, partition {partition}"
    if end > wanted:
        raise TopicHoldsOther(f"{where} has {end} records, the stream only {wanted}; load into another topic")
    if end and log.read(stream.topic, partition, end - 1).values[:1] != stream.encode(partition, end - 1, end):
        number = partition + (end - 1) * (stream.atom_rows or 1) * stream.partitions
        raise TopicHoldsOther(
            f"{where}, offset {end - 1} is not event {number} of seed {stream.config.seed}; load into another topic"
        )
