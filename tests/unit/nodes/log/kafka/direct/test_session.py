"""Sessions of fetch requests: a broker that keeps one by the rules of KIP-227 gives every record once, in order."""

from __future__ import annotations

from typing import cast

import pytest

from nodes.compiled.loading import Compiled
from nodes.log.kafka.direct.connection import Lost, Wire
from nodes.log.kafka.direct.fetch_requests import Fetcher, Passed, Refused
from nodes.log.kafka.direct.fetched.positions import FetchPosition
from nodes.log.kafka.direct.fetched.session import FORGOTTEN, OTHER_EPOCH
from tests.unit.kafka_sessions import ALL, SessionBroker, Where


class Reading:
    """A fetcher of all partitions, and which records it gave."""

    def __init__(self, loops: Compiled, broker: SessionBroker) -> None:
        self.fetcher = Fetcher(cast("Wire", broker), loops, {}, None, 20)
        self.values: dict[Where, list[bytes]] = {where: [] for where in ALL}
        for where in ALL:
            self.add(where)

    def add(self, where: Where) -> None:
        """Go on there behind the last record."""
        self.fetcher.add(FetchPosition(where, len(self.values[where]), epoch=0))

    def take(self) -> list[Refused]:
        """Take the records that have arrived; the refused partitions."""
        found = self.fetcher.take()
        assert not isinstance(found, Lost)
        for one in found:
            if not isinstance(one, Refused | Passed):
                self.values[one[0], one[1]] += list(one[2].values)
        return [one for one in found if isinstance(one, Refused)]

    def is_all(self, broker: SessionBroker) -> bool:
        """Whether all records were given, each once, in their order."""
        return all(self.values[where] == [f"{where} {n}".encode() for n in range(broker.ends[where])] for where in ALL)


def test_within_a_session_requests_and_answers_have_the_partitions_with_news(loops: Compiled) -> None:
    broker = SessionBroker()
    reading = Reading(loops, broker)
    for _ in range(3):
        reading.take()
    broker.append(("events", 2), 3)
    for _ in range(3):
        reading.take()
    assert reading.is_all(broker)
    assert broker.named == [(0, 12, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 1, 0), (5, 0, 0)]
    assert broker.given == [12, 0, 0, 1, 0, 0]


def test_a_broker_without_room_for_sessions_gets_all_partitions_each_time(loops: Compiled) -> None:
    broker = SessionBroker()
    broker.keeps = False
    reading = Reading(loops, broker)
    for round_ in range(4):
        broker.append(("control", round_), 2)
        reading.take()
    reading.take()
    assert reading.is_all(broker) and broker.named == [(0, 12, 0)] * 5


@pytest.mark.parametrize("error", [FORGOTTEN, OTHER_EPOCH])
def test_after_an_error_of_the_session_another_one_begins(loops: Compiled, error: int) -> None:
    broker = SessionBroker()
    reading = Reading(loops, broker)
    for where in ALL:
        broker.append(where, 2)
    reading.take()
    broker.refuses = error
    for _ in range(4):
        reading.take()
    assert reading.is_all(broker)
    assert [epoch for epoch, *_ in broker.named] == [0, 1, 0, 1, 2] and broker.named[2][1] == 12


def test_a_partition_that_is_no_longer_read_is_forgotten_and_one_that_returns_is_named_again(loops: Compiled) -> None:
    broker = SessionBroker()
    reading = Reading(loops, broker)
    reading.take(), reading.take()
    reading.fetcher.remove(("deltas", 0))
    broker.append(("deltas", 0), 2)
    reading.take(), reading.take()
    assert broker.named[-1] == (3, 0, 0) and broker.named[-2] == (2, 0, 1) and not reading.values["deltas", 0]
    reading.add(("deltas", 0))
    reading.take(), reading.take()
    assert broker.named[-2] == (4, 1, 0) and reading.is_all(broker)


def test_of_a_paused_partition_records_on_their_way_are_given_and_no_more_are_requested(loops: Compiled) -> None:
    broker = SessionBroker()
    reading = Reading(loops, broker)
    reading.take(), reading.take()
    where = ("events", 3)
    broker.append(where, 2)
    reading.take()  # this request will bring them
    reading.fetcher.pause(where)
    reading.take(), broker.append(where, 2), reading.take(), reading.take()
    assert len(reading.values[where]) == 2 and broker.named[3:] == [(3, 0, 1), (4, 0, 0), (5, 0, 0)]
    assert not reading.fetcher.resume(where, offset=0), "reading would go on elsewhere"
    assert reading.fetcher.resume(where, offset=2)
    reading.take(), reading.take()
    assert reading.is_all(broker) and broker.named[6] == (6, 1, 0)


def test_where_all_partitions_are_paused_nothing_is_requested(loops: Compiled) -> None:
    broker = SessionBroker()
    reading = Reading(loops, broker)
    reading.take()
    for where in ALL:
        reading.fetcher.pause(where)
    reading.take(), reading.take()
    assert len(broker.named) == 1
    reading.fetcher.remove(ALL[0])
    reading.add(ALL[0])
    reading.take()
    assert broker.named[1:] == [(1, 1, 11)]


def test_a_partition_without_a_leader_is_refused_and_no_longer_part_of_the_session(loops: Compiled) -> None:
    broker = SessionBroker()
    reading = Reading(loops, broker)
    reading.take(), reading.take()
    broker.leaves.add(("events", 1))
    reading.take()
    (refused,) = reading.take()
    assert refused.place.where == ("events", 1) and refused.moved
    assert broker.named[-1] == (3, 0, 1)


@pytest.mark.parametrize("forgets", [0, FORGOTTEN])
def test_a_partition_that_is_paused_before_anything_has_arrived_of_its_last_request_is_read_again(
    loops: Compiled, forgets: int
) -> None:
    broker = SessionBroker()
    reading = Reading(loops, broker)
    where = ("events", 0)
    reading.take()  # the request that names its position
    reading.take()  # an answer without records of it
    reading.fetcher.pause(where)
    for _ in range(3):
        reading.take()  # the broker forgets it
    broker.refuses = forgets  # or all of the session
    for _ in range(3):
        reading.take()
    broker.append(where, 3)
    assert reading.fetcher.resume(where, 0)
    for _ in range(4):
        reading.take()
    assert reading.is_all(broker)
