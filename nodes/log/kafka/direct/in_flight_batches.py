"""The batches on their way to one partition: numbered, so that the broker takes each once and in order.

A batch that may have arrived is sent again as it was; the broker knows it by its producer and its sequence number and
answers where it lies (idempotent producer, KIP-98). It remembers the last five, so no more are ever on their way.
Of a producer that it does not know the broker takes a batch with any sequence number first (KIP-360). So until one has
been acknowledged there is one on its way: if it is refused, the next one must not be taken in its place.
Pure: the sender reports each event to it, and takes from it the batches to send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from nodes.log.kafka.direct.record_batch import SEQUENCES, Batch, UnsentRecords
from nodes.log.kafka.retry_policy import SENT_AGAIN

MAX_BATCHES = 5
OUT_OF_ORDER = 45
FORGOTTEN_S = 600.0
"""After so long without a batch the broker may not know the producer any more (a day, by Kafka's defaults)."""
UNKNOWN_TOPIC = 3
MAX_REQUEST_BYTES = 16 << 20
"""Of a request with batches of several partitions; brokers take 100 MB by default."""
Writer = Callable[[deque[UnsentRecords], int], Batch]
"""Makes a batch of the first pieces, with that sequence number."""


class Track:
    """Of one partition. ``again``: some batches have to be sent once more, when all have been answered."""

    def __init__(self, name: str, partition: int) -> None:
        self.name = name
        self.partition = partition
        self.pieces: deque[UnsentRecords] = deque()
        self.batches: deque[Batch] = deque()
        self.again = False
        self.last_error = 0
        self._sequence = 0
        self._known_s: float | None = None
        """When the newest acknowledged batch was handed over; None: the broker may not know the producer."""

    @property
    def in_flight(self) -> bool:
        """Whether a batch awaits an answer."""
        return any(batch.in_flight for batch in self.batches)

    def oldest_s(self) -> float | None:
        """When the first of what has not arrived was handed over."""
        if self.batches:
            return self.batches[0].since_s
        return self.pieces[0].since_s if self.pieces else None

    def waiting(self) -> bool:
        """Whether something is to be sent as soon as an answer is here."""
        return bool(self.pieces) and not self.again

    def next_batch(self, write: Writer) -> Batch | None:
        """The batch to send now, in flight from then on; None if nothing is due, or an answer is awaited."""
        if self.again or (self._known_s is None and self.in_flight):
            return None
        found = next((one for one in self.batches if not one.in_flight and one.first_offset is None), None)
        if found is None:
            if not self.pieces or len(self.batches) >= MAX_BATCHES:
                return None
            found = write(self.pieces, self._sequence)
            self._sequence = (self._sequence + found.count) % SEQUENCES
            if self._known_s is not None and not self.batches and found.since_s - self._known_s > FORGOTTEN_S:
                self._known_s = None
            self.batches.append(found)
        found.in_flight = True
        return found

    def answered(self, batch: Batch, error: int, first_offset: int) -> list[Batch] | None:
        """Those that have arrived with all before them; None if the error is one that sending again does not mend."""
        batch.in_flight = False
        if error:
            if error not in SENT_AGAIN and not (error == OUT_OF_ORDER and self.again):
                return None
            self.again = True
            if error != OUT_OF_ORDER:
                self.last_error = error
            return []
        batch.first_offset = first_offset
        self._known_s = batch.since_s
        arrived = []
        while self.batches and self.batches[0].first_offset is not None:
            arrived.append(self.batches.popleft())
        return arrived

    def lost(self, batches: Iterable[Batch] = ()) -> None:
        """A connection is gone that had these batches: what of them has arrived is not known.

        Batches on another connection, that of the former leader, still await their answers.
        """
        for batch in batches:
            batch.in_flight = False
        self.again = True

    def moved(self) -> None:
        """Another broker leads: it gets nothing before the former leader has answered, or its connection is gone."""
        self.again |= self.in_flight

    def resumable(self) -> bool:
        """Whether it waits for its leader to be found again."""
        return self.again and not self.in_flight

    def resume(self) -> None:
        """The leader is found; what is left goes out in the order that it had."""
        self.again = False


def shared_out(batches: list[tuple[Track, Batch]]) -> Iterator[list[tuple[Track, Batch]]]:
    """Requests of a size that brokers take."""
    together: list[tuple[Track, Batch]] = []
    size = 0
    for one in batches:
        if together and size + len(one[1].data) > MAX_REQUEST_BYTES:
            yield together
            together, size = [], 0
        together.append(one)
        size += len(one[1].data)
    yield together
