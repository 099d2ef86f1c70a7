"""A sender that writes Kafka's batches itself and sends them to the leaders, on connections of its own.

It is as strict as confluent-kafka's: idempotent, in order, and nothing follows what failed.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError

from nodes.compiled.loading import Compiled
from nodes.log.contract import LogUnavailable
from nodes.log.kafka.direct import leaders
from nodes.log.kafka.direct.connection import Address, Lost, PartitionName, Wire
from nodes.log.kafka.direct.in_flight_batches import UNKNOWN_TOPIC, Track, shared_out
from nodes.log.kafka.direct.leaders import Finder, Found, Wanted, addresses, find
from nodes.log.kafka.direct.opening import Opened
from nodes.log.kafka.direct.produce_requests import WANTED, Taken, send_batches, taken
from nodes.log.kafka.direct.record_batch import Batch, BatchWriter, UnsentRecords
from nodes.log.kafka.direct.security import Dialer
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.producer import SLICE_S, Sender
from nodes.log.kafka.record_columns import RecordColumns

ANSWER_S = 30.0
"""After so long without an answer of a broker, requests are retried on a new connection."""
SILENT_S = 3.0
"""After so long without an answer of a broker, the others are queried for its partitions' leaders."""
_MOST_PAUSE_S, _LEAST_PAUSE_S = 1.0, 0.05
_POLL_INTERVAL_S, _MANY_REQUESTS = 0.005, 3
"""The interval of polls for answers, unless so many are out: more than five batches of a partition never are."""
MAX_RECORDS = 100_000
"""Handed over and not yet acknowledged, as librdkafka has it."""


class _Line:
    """A connection, and its requests that are not yet answered, in order."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.requests: deque[tuple[int, list[tuple[Track, Batch]]]] = deque()
        self.received_s = 0.0


class BatchSender(Sender):
    """As ``Sender``, as the producer that ``opened`` has found. Belongs to one thread."""

    def __init__(
        self,
        loops: Compiled,
        config: Mapping[str, Any],
        connection: Connection,
        timeout_s: float,
        dialer: Dialer,
        opened: Opened,
    ) -> None:
        super().__init__(config, connection, timeout_s)
        self._writer = BatchWriter(loops, config["batch.size"], str(config.get("compression.type")).lower() == "lz4")
        self._numbered = opened.producer
        self._dialer = dialer
        self._finder = Finder(dialer)
        self._patience_s = 0.0
        self._brokers = addresses(config["bootstrap.servers"])
        self._lines: dict[Address, _Line] = {}
        self._tracks: dict[PartitionName, Track] = {}
        self._led: dict[PartitionName, Address] = {}
        self._held_bytes = self._held_records = 0
        self._most_bytes = config["queue.buffering.max.kbytes"] << 10
        self._pause_s, self._pause_until_s = _LEAST_PAUSE_S, 0.0
        self._poll_s = 0.0
        self._gathered: dict[PartitionName, Track] | None = None  # what waits for ``release``
        if isinstance(opened.found, Found):
            self._adopt(opened.found)

    def send(
        self,
        name: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
        done: Callable[[int], None],
    ) -> None:
        """Hand records over; where too much is on its way, wait until some of it has arrived."""
        self._raise_failure()
        track = self._tracks.get((name, partition)) or self._new_track(name, partition)
        records = RecordColumns(values, headers, keys)
        track.pieces.append(UnsentRecords(records, done, time.monotonic()))
        self._held_bytes += records.size
        self._held_records += records.count
        if self._gathered is None:
            self._push([track])
        else:
            self._gathered[name, partition] = track
        self._await_room(name, partition)

    def gather(self) -> None:
        """Records handed over from now on leave at ``release``, in as few requests as can be."""
        if self._gathered is None:
            self._gathered = {}

    def release(self) -> None:
        """See ``gather``."""
        self._let_go()
        self._gathered = None

    @property
    def used(self) -> bool:
        """Always: it has a producer's number."""
        return True

    @property
    def stuck(self) -> bool:
        """Whether something waits for an answer, or for the socket, before it can leave."""
        return any(track.waiting() for track in self._tracks.values()) or any(
            line.wire.unsent for line in self._lines.values()
        )

    def poll_acks(self, wait: bool) -> None:
        """Call what waits for acknowledgements; raises if a record was not delivered."""
        if wait:
            self._let_go()
        if self._held_records and (wait or self._may_be_answered()):
            self._receive(0)
            deadline = time.monotonic() + self._timeout_s + 1.0
            while wait and self._held_records and self._failed is None and time.monotonic() < deadline:
                self._receive(SLICE_S)  # in slices, so that signals get their turn
        self._raise_failure()

    def _may_be_answered(self) -> bool:
        """Whether to poll for answers: a system call in each turn costs more than an earlier answer gains."""
        now_s = time.monotonic()
        busy = any(len(line.requests) >= _MANY_REQUESTS or line.wire.unsent for line in self._lines.values())
        if now_s < self._poll_s and not busy:
            return False
        self._poll_s = now_s + _POLL_INTERVAL_S
        return True

    def close(self) -> None:
        """Records still on their way may arrive, unheard of."""
        self._failed = LogUnavailable("the log is closed")
        self._hang_up()

    # --- connections -------------------------------------------------------------------------------------------------

    def _learn(self, name: str) -> None:
        found = find(self._brokers, Wanted([name], set(self._lines), WANTED), self._dialer)
        if isinstance(found, Found):
            self._adopt(found)

    def _adopt(self, found: Found) -> None:
        for place, address in found.led.items():
            track = self._tracks.get(place)
            if track is not None and self._led.get(place) != address:
                track.moved()
        self._led |= found.led
        self._brokers = list(dict.fromkeys([*addresses(self._config["bootstrap.servers"]), *found.cluster.brokers]))
        for address, wire in found.wires.items():
            if address in self._lines:
                wire.close()
            else:
                self._lines[address] = _Line(wire)

    def _new_track(self, name: str, partition: int) -> Track:
        track = self._tracks[name, partition] = Track(name, partition)
        if (name, partition) not in self._led:
            self._learn(name)
        track.again = self._led.get((name, partition)) not in self._lines
        return track

    def _hang_up(self) -> None:
        self._finder.close()
        for line in self._lines.values():
            line.wire.close()
        self._lines.clear()

    def _drop(self, address: Address, line: _Line) -> None:
        """The connection is gone: its open requests are sent again when there is another."""
        if self._lines.get(address) is not line:
            return
        self._lines.pop(address).wire.close()
        for _, batches in line.requests:
            for track, batch in batches:
                track.lost([batch])
        for place, track in self._tracks.items():
            if self._led.get(place) == address:
                track.lost()

    def _search(self, names: Collection[str]) -> None:
        """Search for leaders; each search begins at another broker, since one that hangs costs time."""
        patience_s = max(leaders.CONNECT_S, min(self._patience_s, self._timeout_s))
        self._finder.start(self._brokers, Wanted(sorted(names), set(self._lines), WANTED, patience_s=patience_s))
        self._brokers = [*self._brokers[1:], *self._brokers[:1]]

    def _doubt(self, now_s: float) -> None:
        """While a broker does not answer, check whether the partitions of its open requests have new leaders."""
        silent = [line for line in self._lines.values() if line.requests and now_s - line.received_s > SILENT_S]
        if silent and not self._finder.busy and now_s >= self._pause_until_s:
            self._pause_until_s = now_s + _MOST_PAUSE_S
            self._search({track.name for line in silent for _, batches in line.requests for track, _ in batches})

    def _drop_replaced(self) -> None:
        """Drop the connection to a silent broker that does not lead the partitions of its open requests any more."""
        for address, line in list(self._lines.items()):
            places = {(track.name, track.partition) for _, batches in line.requests for track, _ in batches}
            silent = time.monotonic() - line.received_s > SILENT_S
            if silent and any(self._led.get(place, address) != address for place in places):
                self._drop(address, line)

    def _find_again(self, now_s: float) -> None:
        """Search for the leaders of partitions that have lost theirs, and go on with those that are found."""
        stale = [track for track in self._tracks.values() if track.resumable() and track.oldest_s() is not None]
        found = self._finder.result()
        if isinstance(found, Lost):
            self._patience_s = 2 * max(self._patience_s, leaders.CONNECT_S)
        if isinstance(found, Found):
            self._patience_s = 0.0
            self._adopt(found)
            self._drop_replaced()
            led = found.led
            stale = [track for track in self._tracks.values() if track.resumable() and track.oldest_s() is not None]
            for track in stale:
                track.last_error = found.cluster.errors.get(track.name, track.last_error)
                place = track.name, track.partition
                if led.get(place) in self._lines:
                    track.resume()
                    self._push([track])
        elif stale and not self._finder.busy and now_s >= self._pause_until_s:
            self._pause_until_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, _MOST_PAUSE_S)
            self._search({track.name for track in stale})

    # --- batches -----------------------------------------------------------------------------------------------------

    def _let_go(self) -> None:
        """The gathered records leave now; more may be gathered."""
        if self._gathered:
            gathered, self._gathered = self._gathered, {}
            self._push(gathered.values())

    def _push(self, tracks: Iterable[Track]) -> None:
        """Send of these partitions what can be sent now: a batch of each in one request, and again if there is more."""
        waiting = list(tracks)
        while waiting and self._failed is None:
            by_leader: dict[Address, list[tuple[Track, Batch]]] = {}
            sent = []
            for track in waiting:
                batch = track.next_batch(self._write)
                if batch is not None:
                    by_leader.setdefault(self._led[track.name, track.partition], []).append((track, batch))
                    sent.append(track)
            for address, batches in by_leader.items():
                for together in shared_out(batches):
                    self._request(address, together)
            waiting = sent

    def _request(self, address: Address, batches: list[tuple[Track, Batch]]) -> None:
        line = self._lines.get(address)
        requests = [((track.name, track.partition), batch.data) for track, batch in batches]
        lost = Lost("with the request before")
        number = lost if line is None else send_batches(line.wire, requests, int(ANSWER_S * 1000))
        if line is None or isinstance(number, Lost):
            for track, batch in batches:
                track.lost([batch])
            if line is not None:
                self._drop(address, line)
            return
        if not line.requests:
            line.received_s = time.monotonic()
        line.requests.append((number, batches))

    def _write(self, pieces: deque[UnsentRecords], sequence: int) -> Batch:
        return self._writer.write(pieces, self._numbered, sequence, time.time_ns() // 1_000_000)

    def _await_room(self, name: str, partition: int) -> None:
        held, deadline = self._held_records, time.monotonic() + self._timeout_s + 1.0
        if self._held_bytes > self._most_bytes or self._held_records > MAX_RECORDS:
            self._let_go()
        while self._held_bytes > self._most_bytes or self._held_records > MAX_RECORDS:
            self._receive(SLICE_S)
            if self._held_records < held:
                held, deadline = self._held_records, time.monotonic() + self._timeout_s + 1.0
            elif time.monotonic() > deadline and self._failed is None:
                self._failed = self._failure(KafkaError(KafkaError._QUEUE_FULL), name, partition)
            self._raise_failure()

    def _receive(self, timeout_s: float) -> None:
        """Take answers, wait at most so long for the first, and send what has its turn then."""
        if timeout_s:
            poll = select.poll()
            for line in self._lines.values():
                if line.requests:
                    poll.register(line.wire, select.POLLIN | (select.POLLOUT if line.wire.unsent else 0))
            poll.poll(timeout_s * 1000)
        now_s = time.monotonic()
        for address, line in list(self._lines.items()):
            if line.requests and self._failed is None:
                lost = line.wire.flush() or self._answers(line, now_s)
                if lost is not None or (line.requests and now_s - line.received_s > ANSWER_S):
                    self._drop(address, line)
        self._check_connections(now_s)
        if self._failed is not None:
            self._hang_up()

    def _answers(self, line: _Line, now_s: float) -> Lost | None:
        while line.requests and self._failed is None:
            answer = line.wire.receive(lambda size: memoryview(bytearray(size)))
            if answer is None or isinstance(answer, Lost):
                return answer
            line.received_s = now_s
            number, batches = line.requests.popleft()
            found = taken(answer.data)
            if number != answer.number or isinstance(found, Lost) or not _answers_all(found, batches):
                line.requests.appendleft((number, batches))
                return Lost("an answer to something else")
            for track, batch in batches:
                response = found[track.name, track.partition]
                arrived = track.answered(batch, response.error, response.first_offset)
                if arrived is None:
                    self._fail(track, response.error)
                    return None
                self._acknowledge(arrived)
            self._push([track for track, _ in batches])
        return None

    def _acknowledge(self, arrived: list[Batch]) -> None:
        for batch in arrived:
            assert batch.first_offset is not None
            self._pause_s = _LEAST_PAUSE_S
            self._held_bytes -= batch.size
            self._held_records -= batch.count
            for done, count in batch.callbacks:
                done(batch.first_offset + count)

    def _check_connections(self, now_s: float) -> None:
        """See to what has waited too long, and to what has lost its leader."""
        if self._failed is None:
            for track in self._tracks.values():
                oldest_s = track.oldest_s()
                if oldest_s is not None and now_s - oldest_s > self._timeout_s:
                    gone = track.last_error == UNKNOWN_TOPIC
                    self._fail(track, UNKNOWN_TOPIC if gone else KafkaError._MSG_TIMED_OUT)
                    return
            self._doubt(now_s)
            self._find_again(now_s)

    def _fail(self, track: Track, error: int) -> None:
        self._failed = self._failed or self._failure(KafkaError(error), track.name, track.partition)


def _answers_all(found: Mapping[PartitionName, Taken], batches: list[tuple[Track, Batch]]) -> bool:
    return all((track.name, track.partition) in found for track, _ in batches)
