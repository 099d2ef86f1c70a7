"""Three real brokers under load: leaders move, brokers die or stop, partitions go elsewhere, quotas slow both sides.

Both implementations of reading and writing are at it at once, each on a topic of its own, so that one fault tests both.
Demanded of each: nothing that was acknowledged is lost, nothing comes twice behind the reader, order is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from nodes.log import LogTruncated
from nodes.log.kafka.direct import producer as direct_producer
from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_load import CONFLUENT, IMPLEMENTATIONS, PATIENCE_S, Load, open_columns
from tests.integration.kafka_quorum import Quorum, holon_kafka
from tests.integration.processes import until

REPLICAS = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
"""Each broker leads a partition of each topic."""
STOPPED_S = 6.0
THROTTLED_S = 5.0
QUOTA_BYTES_PER_S = 300.0
"""Of each broker, as bytes on the wire, where records are compressed."""
_TOPICS = itertools.count()

Loads = dict[str, Load]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    folder = tmp_path_factory.mktemp("quorum")
    try:
        yield Quorum(folder)
    finally:
        holon_kafka(folder, "down", "--delete")


@pytest.fixture
def under_load(quorum: Quorum) -> Iterator[Callable[..., Loads]]:
    """Begins a writer and a reader of each implementation, which are at work when it returns."""
    with ExitStack() as stack:

        def begun(**properties: str) -> Loads:
            loads = {}
            for seed, (name, its) in enumerate(IMPLEMENTATIONS.items()):
                topic = f"{name}-{next(_TOPICS)}"
                quorum.create(topic, REPLICAS)
                load = Load(quorum.bootstrap, topic, len(REPLICAS), {**its, **properties}, seed)
                loads[name] = stack.enter_context(load.running())
            for load in loads.values():
                load.goes_on()
            return loads

        yield begun


@pytest.fixture
def pausing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few records are so many that a partition is paused until they were read."""
    monkeypatch.setattr("nodes.log.kafka.columns.BUFFER_RECORDS", 3)


@contextmanager
def unharmed(loads: Loads) -> Iterator[None]:
    """The fault within costs no record: work goes on behind it, and in the end all is there once."""
    yield
    for load in loads.values():
        load.goes_on()
    for load in loads.values():
        load.check()


@pytest.mark.long
def test_three_brokers_are_started_once_and_known_as_one_cluster(quorum: Quorum) -> None:
    said: dict[str, Any] = {}

    def all_answer() -> bool:
        code, answered = holon_kafka(quorum.folder, "status")
        said.update(answered)
        return (code, answered["answers"]) == (0, True)

    until(all_answer, "all brokers answer")
    assert said["bootstrap"] == quorum.bootstrap
    assert [one["id"] for one in said["brokers"]] == [1, 2, 3]
    assert len({one["pid"] for one in said["brokers"]}) == 3
    code, again = holon_kafka(quorum.folder, "up")
    assert (code, again["fresh"], again["brokers"]) == (0, False, said["brokers"])
    code, refused = holon_kafka(quorum.folder, "up", "--brokers", "1")
    assert code == 1 and "holds the records of 3 brokers, not of 1" in refused["error"]["message"]
    quorum.kill(3)
    code, said = holon_kafka(quorum.folder, "status")
    assert (code, said["running"], said["answers"], said["brokers"][2]["pid"]) == (4, True, False, None)
    quorum.up()


@pytest.mark.long
@pytest.mark.usefixtures("pausing")
def test_leaders_are_moved_under_load(quorum: Quorum, under_load: Callable[..., Loads]) -> None:
    """A clean election, twice: to other brokers and back."""
    loads = under_load()
    with unharmed(loads):
        for turned in ((1, 2, 0), (0, 1, 2)):
            for load in loads.values():
                replicas = {number: REPLICAS[turned[number]] for number in range(len(REPLICAS))}
                quorum.reassign(load.topic, replicas)
                quorum.elect_preferred(load.topic, replicas)
                load.goes_on()


def test_partitions_go_to_other_brokers_under_load(quorum: Quorum, under_load: Callable[..., Loads]) -> None:
    loads = under_load()
    with unharmed(loads):
        for load in loads.values():
            elsewhere = {0: (2, 3), 1: (3, 1), 2: (1, 2)}
            quorum.reassign(load.topic, elsewhere)
            load.goes_on()
            quorum.elect_preferred(load.topic, elsewhere)
            quorum.reassign(load.topic, dict(enumerate(REPLICAS)))


@pytest.mark.long
@pytest.mark.usefixtures("pausing")
def test_a_broker_is_killed_under_load_and_comes_back(quorum: Quorum, under_load: Callable[..., Loads]) -> None:
    loads = under_load()
    with unharmed(loads):
        quorum.kill(1)
        for load in loads.values():
            load.goes_on()
        quorum.up()
        for load in loads.values():
            replicas = dict(enumerate(REPLICAS))
            quorum.await_all_in_sync(load.topic, replicas)
            quorum.elect_preferred(load.topic, replicas)


@pytest.mark.long
def test_a_broker_stands_still_under_load_and_goes_on(
    quorum: Quorum, under_load: Callable[..., Loads], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections stay open: only silence says that it is not there. It wakes as a leader that was replaced.

    Work goes on while it stands still: nothing waits for its answer, for which a direct connection has all the time.
    """
    monkeypatch.setattr(direct_producer, "ANSWER_S", 2 * PATIENCE_S)
    loads = under_load()
    with unharmed(loads):
        with quorum.stopped(2):
            quorum.lasts(STOPPED_S)
            for load in loads.values():
                quorum.await_led_without(load.topic, 2)
            loads["direct"].goes_on()
        for load in loads.values():
            quorum.await_all_in_sync(load.topic)


@pytest.mark.long
def test_quotas_slow_reading_and_writing_and_lose_nothing(quorum: Quorum, under_load: Callable[..., Loads]) -> None:
    loads = under_load(**{"client.id": "throttled"})

    def written() -> dict[str, int]:
        before = {name: load.acknowledged_bytes for name, load in loads.items()}
        quorum.lasts(THROTTLED_S)
        return {name: load.acknowledged_bytes - before[name] for name, load in loads.items()}

    with unharmed(loads):
        free: dict[str, int] = {}

        def flows() -> bool:
            """A machine that stood still for that time says nothing about how much is written."""
            free.update(written())
            return min(free.values()) > 10 * QUOTA_BYTES_PER_S * THROTTLED_S

        until(flows, "both write more than they will be allowed to")
        quorum.throttle("throttled", QUOTA_BYTES_PER_S)
        until(lambda: all(its < free[name] / 2 for name, its in written().items()), f"less than half of {free}")
        quorum.throttle("throttled", None)


def test_what_an_unclean_election_loses_is_named_by_each_reader(quorum: Quorum) -> None:
    """A replica that lacks acknowledged records leads, and its log grows beyond where the readers are. By the offsets
    alone nothing is missing; only the epochs of the leaders show it.
    """
    with ExitStack() as stack:
        logs = {}
        for name, properties in IMPLEMENTATIONS.items():
            topic = f"unclean-{name}"
            quorum.create(topic, [(1, 2)], unclean_leader_election_enable="true", min_insync_replicas="1")
            logs[topic] = stack.enter_context(open_columns(quorum.bootstrap, properties))
        writer = stack.enter_context(patient(quorum))
        for topic, log in logs.items():
            writer.append(topic, 0, [b"kept"] * 100)
            assert read_on(log, topic, 0, 100) == [b"kept"] * 100
            quorum.await_all_in_sync(topic, {0: (1, 2)})
            quorum.elect_preferred(topic, {0: (1, 2)})
        with quorum.stopped(2):
            for topic, log in logs.items():
                until(lambda topic=topic: quorum.in_sync(topic) == {0: [1]}, "only the leader is in sync")
                writer.append(topic, 0, [b"lost"] * 50)
                assert read_on(log, topic, 100, 150) == [b"lost"] * 50
            quorum.kill(1)
        for topic in logs:
            until(lambda topic=topic: quorum.leaders(topic) == {0: 2}, "the replica that lacks records leads")
        with patient(quorum) as another:
            for topic in logs:
                assert another.append(topic, 0, [b"other"] * 100).first_offset == 100
        for topic, log in logs.items():
            with pytest.raises(LogTruncated, match=rf"{topic}.* partition 0 .*--reset"):
                read_on(log, topic, 150, 200)
        quorum.up()


def patient(quorum: Quorum) -> KafkaLog:
    return KafkaLog(quorum.bootstrap, CONFLUENT, timeout_s=PATIENCE_S, connect_timeout_s=PATIENCE_S)


def read_on(log: KafkaLog, topic: str, offset: int, end: int) -> list[bytes]:
    """The values from one offset to another, as a node polls them."""
    values: list[bytes] = []

    def arrived() -> bool:
        chunk = log.poll(topic, 0, offset + len(values))
        values.extend(chunk.values)
        return offset + len(values) >= end

    until(arrived, f"{topic} is read to {end}")
    return values
