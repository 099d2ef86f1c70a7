"""Appending to Kafka: a batch of the contract is one batch of Kafka, which the broker takes or refuses as a whole."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from numpy.typing import NDArray

from nodes.log.contract import Appended, LogError, LogUnavailable, Record
from nodes.log.kafka.errors import Connection, reason

HEADER = "holon"
"""The one Kafka header that carries a record's headers of the contract."""
RECORD_OVERHEAD_BYTES = 80
BATCH_OVERHEAD_BYTES = 128
_SLICE_S = 0.5
_Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None]


class Leaders:
    """The partitions of a producer's topics, requested up front: librdkafka itself requests their leaders late."""

    def __init__(self, producer: Producer, connection: Connection, timeout_s: float) -> None:
        self._producer = producer
        self._connection = connection
        self._timeout_s = timeout_s
        self._partitions: dict[str, int] = {}

    def learn(self, name: str, partition: int) -> None:
        """To be called before the first record."""
        if partition >= self._partitions.get(name, 0):
            try:
                known = self._producer.list_topics(name, timeout=self._timeout_s).topics
            except KafkaException as error:
                raise self._connection.translated(reason(error), f"requesting topic {name!r}") from error
            self._partitions[name] = len(known[name].partitions)


class AcknowledgedEnds:
    """Ends of partitions, by one producer's acknowledgements in their order.

    A batch that is sent again although the broker has it may be acknowledged without an offset. It lies behind all that
    was acknowledged before, which gives an end that is not too high: tails are then scanned from further back.
    """

    def __init__(self) -> None:
        self._ends: dict[tuple[str, int], int] = {}

    def after(self, name: str, partition: int, offset: int | None, count: int) -> int:
        """The end behind ``count`` more records, the last of them at ``offset`` if that is known."""
        known = self._ends.get((name, partition), 0)
        end = known + count if offset is None else offset + 1
        self._ends[name, partition] = max(known, end)
        return end


class Appender:
    """An idempotent producer that stops at its first failure: what came after would leave a gap.

    Safe to use from several threads; their batches do not mix. One that ``renews`` is for topics where gaps do no harm:
    after a failure it goes on with a new producer.
    """

    def __init__(
        self, config: Mapping[str, Any], connection: Connection, timeout_s: float, renews: bool = False
    ) -> None:
        self._config = dict(config)
        self._renews = renews
        self._connection = connection
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._ends = AcknowledgedEnds()
        self._stopped: str | None = None
        self._new_producer()

    def append(
        self,
        name: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
        sizes: NDArray[Any],
        limit_bytes: int,
    ) -> Appended:
        """Append records that each fit into ``limit_bytes`` to topic ``name`` (in the broker's words).

        Records that do not fit into one batch go out in several, one after the other: see docs/design/kafka-log.md.
        """

        def rows(begin: int, end: int) -> Iterable[_Row]:
            named = () if headers is None else [[(HEADER, one)] if one else None for one in headers[begin:end]]
            its_keys = itertools.repeat(None) if keys is None else keys[begin:end]
            return zip(values[begin:end], its_keys, named or itertools.repeat(None), strict=False)

        return self._append(name, partition, rows, sizes, limit_bytes)

    def append_records(
        self, name: str, partition: int, records: Sequence[Record], sizes: NDArray[Any], limit_bytes: int
    ) -> Appended:
        """The same with headers by name, and tombstones."""

        def rows(begin: int, end: int) -> Iterable[_Row]:
            return [(value, key, list(headers.items()) or None) for value, key, headers in records[begin:end]]

        return self._append(name, partition, rows, sizes, limit_bytes)

    def _append(
        self,
        name: str,
        partition: int,
        rows_of: Callable[[int, int], Iterable[_Row]],
        sizes: NDArray[Any],
        limit_bytes: int,
    ) -> Appended:
        where = f"topic {name!r} partition {partition}"
        with self._lock:
            if self._stopped is not None:
                raise LogUnavailable(self._stopped)
            if self._failed:
                self._new_producer()
            self._leaders.learn(name, partition)
            first = timestamp_ms = -1
            for begin, end in _batches(sizes, limit_bytes):
                rows = list(rows_of(begin, end))
                ends = self._send(name, partition, rows, f"{where}: record {begin} of {len(sizes)} and those after it")
                offset, more = ends[0].offset(), len(rows) - 1
                begun = self._ends.after(name, partition, offset, 1) - 1
                self._ends.after(name, partition, None if offset is None else offset + more, more)
                first = begun if first < 0 else first
                timestamp_ms = max(timestamp_ms, ends[-1].timestamp()[1])
            return Appended(first, len(sizes), timestamp_ms)

    def _new_producer(self) -> None:
        self._failed = False
        self._producer = Producer(self._config)
        self._leaders = Leaders(self._producer, self._connection, self._timeout_s)

    def close(self) -> None:
        """Nothing is waiting here: every append has been acknowledged or has failed."""
        with self._lock:
            self._stopped = "the log is closed"
            self._producer.purge()
            self._producer.flush(1.0)

    def _send(self, name: str, partition: int, rows: list[_Row], where: str) -> list[Message]:
        """Send one batch; gives its first and last record as the broker has acknowledged them."""
        reports: list[Message] = []
        problems: list[KafkaError] = []

        def reported(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                problems.append(error)
            reports.append(message)

        last = len(rows) - 1
        try:
            for number, (value, key, named) in enumerate(rows):
                # One report for each end is enough: a batch is taken as a whole.
                report = {"on_delivery": reported} if number in (0, last) else {}
                self._producer.produce(name, value, key, partition=partition, headers=named, **report)  # type: ignore[arg-type]
            deadline = time.monotonic() + self._timeout_s + 1.0
            while self._producer.flush(_SLICE_S) and time.monotonic() < deadline:
                pass  # in slices, so that signals get their turn
        except (KafkaException, BufferError, SystemError) as error:
            code = KafkaError._FATAL if isinstance(error, SystemError) else KafkaError._QUEUE_FULL
            problem = reason(error) if isinstance(error, KafkaException) else KafkaError(code, str(error))
            raise self._stop(problem, where) from error
        if problems or len(reports) < min(len(rows), 2):
            raise self._stop(problems[0] if problems else KafkaError(KafkaError._MSG_TIMED_OUT), where)
        return reports

    def _stop(self, problem: KafkaError, where: str) -> LogError:
        error = self._connection.translated(
            problem, f"{where} were not acknowledged, so that nobody knows whether they are on the log"
        )
        self._failed = True
        if not self._renews:
            self._stopped = (
                f"this log appends nothing any more, since an append has failed and a later one would leave a gap; "
                f"open it again. The failure was: {error}"
            )
        self._producer.purge()
        return error


def _batches(sizes: NDArray[Any], limit_bytes: int) -> Iterator[tuple[int, int]]:
    """Runs of records that fit into a batch each."""
    room = limit_bytes - BATCH_OVERHEAD_BYTES
    total = sizes + RECORD_OVERHEAD_BYTES
    if int(total.sum()) <= room:
        yield 0, len(sizes)
        return
    begin, filled = 0, 0
    for number, size in enumerate(total.tolist()):
        if filled + size > room and number > begin:
            yield begin, number
            begin, filled = number, 0
        filled += size
    yield begin, len(sizes)
