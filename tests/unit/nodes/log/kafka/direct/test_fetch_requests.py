"""Fetch requests of the direct reader: as much as fits the brokers' batches, so that little is sent in vain."""

from __future__ import annotations

import struct
from typing import Any, cast

import pytest

from nodes.compiled.loading import Compiled
from nodes.log.kafka.direct.connection import Answer, Lost, Wire, text
from nodes.log.kafka.direct.fetch_requests import SILENT_S, SLOW_S, Fetcher, Passed, Refused
from nodes.log.kafka.direct.fetched import positions
from nodes.log.kafka.direct.fetched.positions import ANSWER_BYTES, PARTITION_BYTES, FetchPosition
from tests.unit.kafka_batches import Row, batch

TOPIC = "events"
_HEAD = struct.Struct(">qi")


class Broker(Wire):
    """Gives from each partition as many bytes as it is asked for, as brokers do, batch or not."""

    def __init__(self, logs: list[bytes], ends: list[int] | None = None) -> None:
        self.logs, self.at, self.limits = logs, [0] * len(logs), list[int]()
        self.ends = ends or [1 << 40] * len(logs)
        self.limits_of: dict[int, int] = {}
        self._body = b""

    def flush(self) -> None:
        return None

    def send(self, api: int, version: int, *parts: Any) -> int:
        request = b"".join(parts)
        behind = struct.calcsize(">iiiibiii") + len(text(TOPIC)) + 4
        found = [struct.unpack_from(">iiqqi", request, behind + 28 * k) for k in range(len(self.logs))]
        self.limits = [limits for *_, limits in found]
        self.limits_of = {partition: limits for partition, *_, limits in found}
        parts = [struct.pack(">ihii", 0, 0, 0, 1), text(TOPIC), struct.pack(">i", len(found))]
        for partition, _, _, _, limits in found:
            data = self.logs[partition][self.at[partition] :][:limits]
            parts += [struct.pack(">ihqqqiii", partition, 0, 0, self.ends[partition], 0, 0, -1, len(data)), data]
            self.at[partition] += len(data) - len(cut_off(data))
        self._body = b"".join(parts)
        return 1

    def receive(self, room: Any) -> Answer:
        into = room(len(self._body))[: len(self._body)]
        into[:] = self._body
        return Answer(1, into)


def cut_off(data: bytes) -> bytes:
    """The bytes behind the last whole batch."""
    while len(data) >= _HEAD.size and len(data) >= (size := _HEAD.unpack_from(data)[1] + _HEAD.size):
        data = data[size:]
    return data


@pytest.mark.parametrize("partitions", [1, 2])
def test_once_the_size_of_batches_is_known_little_is_sent_in_vain(
    loops: Compiled, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    monkeypatch.setattr(positions, "PARTITION_BYTES", 56_000)
    batches = [batch([Row(n, 0, b"x" * (19_000 + 97 * (n % 5)))], base=n, last=n) for n in range(30)]
    log = b"".join(batches)
    broker = Broker([log] * partitions)
    fetcher = Fetcher(cast("Wire", broker), loops, {}, None, 20)
    for partition in range(partitions):
        fetcher.add(FetchPosition((TOPIC, partition), 0, epoch=0))
    offsets: list[int] = []
    given = []
    while broker.at[0] < len(log):
        before = broker.at[0]
        found = fetcher.take()
        assert isinstance(found, list)
        for one in found:
            assert not isinstance(one, Passed | Refused)
            if one[1] == 0:
                offsets += one[2].offsets.tolist()
        given.append((broker.limits[0], broker.at[0] - before))
    offsets += [n for one in cast("list[Any]", fetcher.take()) if one[1] == 0 for n in one[2].offsets.tolist()]
    assert offsets == list(range(30))
    assert given[0] == (56_000, sum(map(len, batches[:2])))  # 17,000 bytes of the third are sent for nothing
    for limits, used in given[1:-1]:
        assert 0.9 * limits < used <= limits <= 56_000


def test_partitions_read_to_their_end_leave_their_share_of_an_answer_to_the_others(loops: Compiled) -> None:
    several = 8
    log = batch([Row(0, 0, b"x")], base=0, last=0)
    broker = Broker([log] * several, ends=[5, *[1] * (several - 1)])
    fetcher = Fetcher(cast("Wire", broker), loops, {}, None, 20)
    for partition in range(several):
        fetcher.add(FetchPosition((TOPIC, partition), 0, epoch=0))
    fetcher.take()
    assert broker.limits == [ANSWER_BYTES // several] * several  # nothing is known of them yet
    fetcher.take()
    assert broker.limits_of[0] == PARTITION_BYTES


def answered(place: FetchPosition, size: int, partitions: int) -> tuple[int, int]:
    """How much is asked for next, and how many batches of that size fit, once an answer broke off in one."""
    place.cut_off(memoryview(_HEAD.pack(7, size - _HEAD.size)))
    return place.fetch_bytes(partitions), place.fetch_bytes(partitions) // size


@pytest.mark.parametrize("partitions", [1, 2, 4, 30])
@pytest.mark.parametrize("size", [70, 16_000, 1_370_000, 5_000_000, 6_200_000, 15_000_000])
def test_what_is_asked_for_has_room_for_whole_batches_and_is_no_more_than_a_share(size: int, partitions: int) -> None:
    limits, fit = answered(FetchPosition((TOPIC, 0), 0, 0), size, partitions)
    assert fit >= 1
    assert limits - fit * size <= max(limits // 30, size // 30 + 1)
    assert limits <= max(PARTITION_BYTES, size + size // 30)
    assert partitions * limits <= ANSWER_BYTES or limits <= max(2 << 20, size + size // 30)


@pytest.mark.parametrize("length", [-(1 << 31), -12, -1, 0, (1 << 31) - 1])
def test_a_length_that_is_none_leads_to_no_strange_request(length: int) -> None:
    place = FetchPosition((TOPIC, 0), 0, 0)
    place.cut_off(memoryview(_HEAD.pack(0, length)))
    assert 1 << 20 < place.fetch_bytes(2) <= ANSWER_BYTES
    place.cut_off(memoryview(b"short"))
    assert 1 << 20 < place.fetch_bytes(2) <= ANSWER_BYTES


class Silent(Broker):
    """Answers once, that it slows the client down for a while, and then nothing."""

    def __init__(self, throttle_ms: int) -> None:
        super().__init__([b""])
        self._throttle, self._answers = struct.pack(">i", throttle_ms), 1

    def receive(self, room: Any) -> Answer | None:  # type: ignore[override]
        self._answers -= 1
        if self._answers < 0:
            return None
        self._body = self._throttle + self._body[4:]
        return super().receive(room)


@pytest.mark.parametrize("throttle_ms", [0, 4_000])
def test_a_broker_that_says_nothing_is_lost_after_a_while_and_after_what_it_has_announced(
    loops: Compiled, monkeypatch: pytest.MonkeyPatch, throttle_ms: int
) -> None:
    now = [100.0]
    monkeypatch.setattr("nodes.log.kafka.direct.fetch_requests.time.monotonic", lambda: now[0])
    fetcher = Fetcher(cast("Wire", Silent(throttle_ms)), loops, {}, None, 20)
    fetcher.add(FetchPosition((TOPIC, 0), 0, epoch=0))
    assert fetcher.take() == [] == fetcher.take()
    now[0] += SILENT_S + throttle_ms / 1000 - 0.1
    assert fetcher.take() == []
    now[0] += 0.2
    assert isinstance(fetcher.take(), Lost)


class SlowLine(Broker):
    """An answer arrives byte by byte, one each time that it is looked for."""

    def receive(self, room: Any) -> Answer | None:  # type: ignore[override]
        self.arrived += 1
        if self.arrived < len(self._body):
            return None
        self.arrived = 0
        return super().receive(room)


def on_a_slow_line(
    records: bytes, loops: Compiled, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[float], SlowLine, Fetcher]:
    """The clock, which stands still, the line, and who fetches over it."""
    now = [100.0]
    monkeypatch.setattr("nodes.log.kafka.direct.fetch_requests.time.monotonic", lambda: now[0])
    line = SlowLine([records])
    fetcher = Fetcher(cast("Wire", line), loops, {}, None, 20)
    fetcher.add(FetchPosition((TOPIC, 0), 0, epoch=0))
    return now, line, fetcher


def test_an_answer_that_takes_its_time_on_a_slow_line_is_awaited(
    loops: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, _, fetcher = on_a_slow_line(batch([Row(0, 0, b"x")], base=0, last=0), loops, monkeypatch)
    found = fetcher.take() or fetcher.take()
    while not found:
        now[0] += 0.9 * SILENT_S
        found = fetcher.take()
        assert found or fetcher.held_s == now[0], "silence is no sign meanwhile"
    assert not isinstance(found, Lost) and len(cast("Any", found[0])[2]) == 1
    assert now[0] > 100 + 50 * SILENT_S


def test_an_answer_that_comes_in_pieces_at_once_holds_nothing_back(
    loops: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers send the head of an answer and its records one after the other."""
    now, line, fetcher = on_a_slow_line(batch([Row(0, 0, b"x")], base=0, last=0), loops, monkeypatch)
    while not fetcher.take():
        now[0] += SLOW_S / 1000
    assert line.arrived == 0 and fetcher.held_s == float("-inf")


def test_an_answer_that_breaks_off_without_an_end_is_lost_after_a_while(
    loops: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, line, fetcher = on_a_slow_line(b"x" * 90, loops, monkeypatch)
    for _ in range(5):
        assert fetcher.take() == []
        now[0] += 0.9 * SILENT_S
    line.receive = lambda room: None  # type: ignore[method-assign]
    assert fetcher.take() == []
    now[0] += 0.2 * SILENT_S
    assert isinstance(fetcher.take(), Lost)


@pytest.mark.parametrize(("error", "moved"), [(6, True), (74, True), (75, True), (1, False), (3, False)])
def test_a_leader_that_has_moved_is_told_from_what_another_reader_has_to_judge(
    loops: Compiled, error: int, moved: bool
) -> None:
    class Refusing(Broker):
        def receive(self, room: Any) -> Answer:
            at = self._body.index(text(TOPIC)) + len(text(TOPIC)) + 4
            head = struct.pack(">ih", 0, 0) + self._body[6:at]
            self._body = head + struct.pack(">ih", 0, error) + self._body[at + 6 :]
            return super().receive(room)

    fetcher = Fetcher(cast("Wire", Refusing([b""])), loops, {}, None, 20)
    fetcher.add(FetchPosition((TOPIC, 0), 7, epoch=0, read_epoch=2))
    assert fetcher.take() == []
    (refused,) = cast("list[Any]", fetcher.take())
    assert (refused.place.offset, refused.place.read_epoch, refused.moved) == (7, 2, moved)
