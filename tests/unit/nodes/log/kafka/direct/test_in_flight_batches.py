"""Batches that are sent again, and when (direct/in_flight_batches.py), against a broker that knows sequence numbers."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from nodes.log.kafka.direct.in_flight_batches import FORGOTTEN_S, MAX_BATCHES, OUT_OF_ORDER, Track
from nodes.log.kafka.direct.record_batch import Batch, UnsentRecords
from nodes.log.kafka.record_columns import RecordColumns

NOT_LEADER, TOO_LATE, TOO_LARGE = 6, 7, 10


class Broker:
    """Takes each batch once, in order, and remembers the last five (KIP-98); of an unknown producer any (KIP-360)."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self._next: int | None = None
        self._known: deque[tuple[int, int]] = deque(maxlen=5)

    def take(self, data: bytes) -> tuple[int, int]:
        """Error and first offset; the data are a sequence number and a byte for each record."""
        sequence, records = data[0], data[1:]
        for known, offset in self._known:
            if known == sequence:
                return 0, offset
        if self._next not in (None, sequence):
            return OUT_OF_ORDER, -1
        self._known.append((sequence, len(self.log)))
        self._next = sequence + len(records)
        self.log += [bytes([one]) for one in records]
        return 0, self._known[-1][1]


def write(pieces: deque[UnsentRecords], sequence: int) -> Batch:
    """One piece a batch."""
    piece = pieces.popleft()
    data: bytes = piece.records.data  # type: ignore[attr-defined]
    return Batch(bytes([sequence]) + data, len(data), 0, piece.since_s, [(piece.done, len(data))])


def some(track: Track, data: bytes, since_s: float = 0.0) -> None:
    records = RecordColumns([bytes([one]) for one in data], None, None)
    records.data = data  # type: ignore[attr-defined]
    track.pieces.append(UnsentRecords(records, lambda end: None, since_s))


def known(broker: Broker) -> Track:
    """Of a producer of which the broker has taken a record."""
    track = Track("t", 0)
    some(track, b"\x00")
    first = track.next_batch(write)
    assert first is not None
    assert track.answered(first, *broker.take(first.data)) == [first]
    return track


FATES = ("taken", "taken", "taken", "lost before", "lost after", "not leader", "late but taken")


@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=12), fates=st.lists(st.sampled_from(FATES), max_size=40))
def test_each_record_arrives_once_and_in_order_whatever_becomes_of_requests(sizes: list[int], fates: list[str]) -> None:
    track, broker, in_flight, numbers = Track("t", 0), Broker(), deque[Batch](), iter(range(200))
    handed, callbacks, unlucky = b"", 0, iter(fates)
    for size in sizes:
        data = bytes(next(numbers) for _ in range(size))
        handed += data
        some(track, data)
    while callbacks < len(handed):
        if track.resumable():
            track.resume()
        while (batch := track.next_batch(write)) is not None:
            in_flight.append(batch)
        assert len(track.batches) <= MAX_BATCHES
        batch, fate = in_flight.popleft(), next(unlucky, "taken")
        error, offset = (NOT_LEADER, -1) if fate in ("not leader", "lost before") else broker.take(batch.data)
        if fate.startswith("lost"):
            if fate == "lost after":
                for one in in_flight:
                    broker.take(one.data)
            track.lost([batch, *in_flight])
            in_flight.clear()
            continue
        arrived = track.answered(batch, TOO_LATE if fate == "late but taken" and not error else error, offset)
        assert arrived is not None
        for one in arrived:
            assert one.first_offset == callbacks
            callbacks += one.count
    assert b"".join(broker.log) == handed
    assert track.oldest_s() is None


def test_an_error_that_stays_is_told_and_what_follows_it_is_refused_by_the_broker() -> None:
    broker = Broker()
    track = known(broker)
    for data in (b"\x01", b"\x02"):
        some(track, data)
    first, second = track.next_batch(write), track.next_batch(write)
    assert first is not None and second is not None
    assert track.answered(first, TOO_LARGE, -1) is None
    assert broker.take(second.data) == (OUT_OF_ORDER, -1)


def test_nothing_is_sent_again_while_answers_are_missing() -> None:
    track = known(Broker())
    for data in (b"\x01", b"\x02", b"\x03"):
        some(track, data)
    first, second = track.next_batch(write), track.next_batch(write)
    assert first is not None and second is not None
    assert track.answered(first, NOT_LEADER, -1) == []
    assert track.next_batch(write) is None and not track.resumable()
    assert track.answered(second, OUT_OF_ORDER, -1) == []
    assert track.resumable()
    track.resume()
    assert [track.next_batch(write) for _ in range(2)] == [first, second]


def test_a_lost_connection_leaves_the_batches_of_another_one_in_flight() -> None:
    track = known(Broker())
    for data in (b"\x01", b"\x02"):
        some(track, data)
    at_former, at_new = track.next_batch(write), track.next_batch(write)
    assert at_former is not None and at_new is not None
    track.lost([at_new])
    assert not track.resumable(), "the former leader has not answered yet"
    assert track.answered(at_former, NOT_LEADER, -1) == []
    assert track.resumable()
    track.resume()
    assert [track.next_batch(write) for _ in range(3)] == [at_former, at_new, None]
    assert track.answered(at_former, 0, 0) == [at_former]
    track.lost()
    assert not track.resumable(), "one batch is still out"
    assert track.answered(at_new, 0, 1) == [at_new]
    assert track.resumable()


def test_a_new_leader_gets_nothing_before_the_former_one_has_answered() -> None:
    track = Track("t", 0)
    for data in (b"\x01", b"\x02"):
        some(track, data)
    first = track.next_batch(write)
    assert first is not None
    track.moved()
    assert track.next_batch(write) is None
    assert track.answered(first, NOT_LEADER, -1) == []
    assert track.resumable()
    idle = Track("t", 1)
    idle.moved()
    assert not idle.again, "nothing of it is out"


def test_a_number_out_of_order_without_a_reason_is_an_error() -> None:
    track = Track("t", 0)
    some(track, b"\x01")
    batch = track.next_batch(write)
    assert batch is not None
    assert track.answered(batch, OUT_OF_ORDER, -1) is None


def test_a_producer_that_the_broker_may_not_know_has_one_batch_on_its_way() -> None:
    """Found in a run of the tests: a new topic's leader refused the first batch and took the second, before it led."""
    track, broker = Track("t", 0), Broker()
    for data in (b"\x01", b"\x02", b"\x03"):
        some(track, data)
    first = track.next_batch(write)
    assert first is not None and track.next_batch(write) is None
    assert track.answered(first, NOT_LEADER, -1) == []
    track.resume()
    assert [track.next_batch(write) for _ in range(2)] == [first, None]
    assert track.answered(first, *broker.take(first.data)) == [first]
    second, third = track.next_batch(write), track.next_batch(write)
    assert second is not None and third is not None
    for batch in (second, third):
        assert track.answered(batch, *broker.take(batch.data)) == [batch]
    assert b"".join(broker.log) == b"\x01\x02\x03"


def test_after_a_long_silence_the_broker_may_have_forgotten_the_producer() -> None:
    track = known(Broker())
    for data in (b"\x01", b"\x02"):
        some(track, data, since_s=FORGOTTEN_S + 1)
    first = track.next_batch(write)
    assert first is not None and track.next_batch(write) is None
    assert track.answered(first, 0, 1) == [first]
    assert track.next_batch(write) is not None
