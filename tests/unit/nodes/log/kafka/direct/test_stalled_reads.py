"""A broker that forgets a partition of a session, as once by a mistake of the reader's: it is read on, by any means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition as KafkaPartition

from nodes.compiled.loading import Compiled
from nodes.log.contract import TopicPartition
from nodes.log.kafka.confluent_reader import Where
from nodes.log.kafka.consumer import Follower
from nodes.log.kafka.direct import consumer as direct_consumer
from nodes.log.kafka.direct.connection import Address, Cluster, Leader, Wire
from nodes.log.kafka.direct.consumer import DirectReader
from nodes.log.kafka.direct.leaders import Found, Wanted
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.stalled_partitions import StallWatch
from tests.unit.kafka_sessions import ALL, OUT_OF_RANGE, SessionBroker
from tests.unit.nodes.log.kafka.test_stalled_partitions import TIMEOUT_S, TURN_S, Broker

ADDRESS: Address = ("b", 1)
STUCK = ("events", 0)


class Library:
    """The place of confluent-kafka, to which nothing comes; ``assigned``: places and offsets that it was to read."""

    def __init__(self) -> None:
        self.assigned: list[tuple[Where, int]] = []
        self.restarted: list[tuple[Where, int]] = []

    def list_topics(self, name: str, timeout: float) -> object:
        return {}

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        self.assigned += [((one.topic, one.partition), one.offset) for one in partitions]

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        pass

    def restart(self, partition: KafkaPartition) -> None:
        self.restarted.append(((partition.topic, partition.partition), partition.offset))

    def held_s(self, where: Where) -> float:
        return float("-inf")

    def take(self, timeout_s: float) -> list[Any]:
        return []

    def close(self) -> None:
        pass


class Finder:
    """Finds one leader of all, at once; ``connected``: how often it has connected to it."""

    broker: SessionBroker
    connected: int
    busy = False

    def __init__(self, *_: object) -> None:
        self._found: Found | None = None

    def start(self, brokers: Sequence[Address], wanted: Wanted) -> None:
        leaders = {where: Leader(0, *ADDRESS, 3) for where in ALL}
        wires: dict[Address, Wire] = {}
        if ADDRESS not in wanted.have:
            wires[ADDRESS] = self.broker
            type(self).connected += 1
        self._found = Found(Cluster(leaders, {}, (ADDRESS,)), wires, {}, wanted)

    def result(self) -> Found | None:
        found, self._found = self._found, None
        return found

    def close(self) -> None:
        pass


class Stage:
    """A node that polls all partitions over direct connections. ``clock`` has the time, and the requested ends."""

    def __init__(self, clock: Broker, broker: SessionBroker, loops: Compiled) -> None:
        self.clock, self.broker, self.library = clock, broker, Library()
        self.reader = DirectReader(cast("Any", self.library), loops, {"bootstrap.servers": "b:1"}, {}, None)
        self.watch = StallWatch(clock.request_ends, TIMEOUT_S)
        self.follower = Follower(self.reader, cast("Any", clock), Connection("b:1"), "", 5.0, self.watch)
        self.at = dict.fromkeys((TopicPartition(*where) for where in ALL), 0)
        self.values: dict[TopicPartition, list[bytes]] = {where: [] for where in self.at}

    def append(self, where: Where, count: int) -> None:
        self.broker.append(where, count)

    def turns(self, seconds: float) -> None:
        for _ in range(round(seconds / TURN_S)):
            self.clock.stable = {where: self.broker.ends[where] for where in self.at}
            for where, offset in self.at.items():
                chunk = self.follower.poll(where, offset, 1000, 1 << 20)
                self.values[where] += list(chunk.values)
                self.at[where] = chunk.next_offset
            self.follower.wait(self.at, 0.0)
            self.clock.now_s += TURN_S

    def is_all(self, *, but: Sequence[Where] = ()) -> bool:
        return all(
            self.values[where] == [f"{tuple(where)} {n}".encode() for n in range(self.broker.ends[where])]
            for where in self.at
            if where not in but
        )


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, loops: Compiled) -> Iterator[Stage]:
    clock, broker = Broker(), SessionBroker()
    for module in ("consumer", "columns", "direct.consumer", "direct.fetch_requests"):
        monkeypatch.setattr(f"nodes.log.kafka.{module}.time", clock)
    monkeypatch.setattr(direct_consumer, "Finder", Finder)
    monkeypatch.setattr(Finder, "broker", broker, raising=False)
    monkeypatch.setattr(Finder, "connected", 0, raising=False)
    found = Stage(clock, broker, loops)
    yield found
    found.follower.close()


def test_a_partition_that_the_broker_has_forgotten_is_read_on_over_another_connection(stage: Stage) -> None:
    for where in ALL:
        stage.append(where, 3)
    stage.turns(2)
    assert stage.is_all() and Finder.connected == 1
    stage.broker.forget(STUCK)
    for where in ALL:
        stage.append(where, 2)
    stage.turns(TIMEOUT_S)
    assert stage.is_all(but=[STUCK]) and not stage.is_all(), "nothing else notices it"
    stage.turns(1.5 * TIMEOUT_S)
    assert stage.is_all(), "each record once, in its order"
    assert (stage.watch.count, Finder.connected, stage.library.assigned) == (1, 2, [])
    for where in ALL:
        stage.append(where, 2)
    stage.turns(1)
    assert stage.is_all()


def test_where_another_connection_does_not_help_confluent_kafka_reads_on(stage: Stage) -> None:
    stage.append(STUCK, 3)
    stage.turns(2)
    stage.broker.withholds.add(STUCK)
    stage.append(STUCK, 2)
    stage.turns(7 * TIMEOUT_S)
    assert stage.watch.count == 2 and Finder.connected == 2
    assert stage.library.assigned[0] == (STUCK, 3), "at the position where it stood"
    assert stage.is_all(but=[STUCK]) and len(stage.values[TopicPartition(*STUCK)]) == 3


def test_what_confluent_kafka_reads_is_begun_anew_there(stage: Stage) -> None:
    stage.append(STUCK, 3)
    stage.turns(1)
    stage.broker.error = OUT_OF_RANGE
    stage.broker.leaves.add(STUCK)
    stage.append(STUCK, 2)
    stage.turns(3 * TIMEOUT_S)
    assert (stage.watch.count, stage.library.restarted, Finder.connected) == (1, [(STUCK, 3)], 1)


def test_a_partition_whose_leader_is_not_found_in_time_is_left_to_confluent_kafka(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Finder, "busy", True)  # a search that never ends
    monkeypatch.setattr(direct_consumer, "LEADER_SEARCH_S", 1e9)
    stage.append(STUCK, 3)
    stage.turns(3 * TIMEOUT_S)
    assert stage.watch.count == 1 and stage.library.assigned == [(STUCK, 0)]
