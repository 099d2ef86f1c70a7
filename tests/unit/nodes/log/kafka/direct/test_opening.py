"""Which answers of brokers decide how a sender writes (direct/opening.py): a slow one never does."""

from __future__ import annotations

from typing import Any, cast

import pytest

from nodes.log.kafka import client_config
from nodes.log.kafka.direct import leaders, opening
from nodes.log.kafka.direct.connection import Address, Cluster, Lost, Unserved
from nodes.log.kafka.direct.leaders import Found
from nodes.log.kafka.direct.opening import Opened, open_once, unknown_property
from nodes.log.kafka.direct.record_batch import Producer
from nodes.log.kafka.direct.security import Dialer

REQUEST_TIMED_OUT, LOADING, NOT_AUTHORIZED = 7, 14, 31
A, B = ("a", 9092), ("b", 9092)
FOUND = Found(Cluster({}, {}, ()), {})


class Broker:
    """A connection to a broker that answers so to the question which requests it takes, and about a number."""

    def __init__(self, lacking: Lost | None, producer: Producer | int | Lost) -> None:
        self.lacking, self.producer = lacking, producer

    def lacks(self, wanted: Any) -> Lost | None:
        return self.lacking

    def close(self) -> None:
        pass


class Brokers:
    """A dialer to these."""

    def __init__(self, brokers: dict[Address, Broker | Lost]) -> None:
        self.brokers = brokers

    def connect(self, address: Address, timeout_s: float) -> Any:
        return self.brokers[address]


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "request_producer_id", lambda wire, patience_s: wire.producer)
    monkeypatch.setattr(leaders, "find", lambda ask, wanted, dialer: FOUND)


def opened(*brokers: Broker | Lost) -> Opened | Lost:
    addresses = [A, B][: len(brokers)]
    dialer = cast(Dialer, Brokers(dict(zip(addresses, brokers, strict=True))))
    return open_once(addresses, "t", dialer, 1.0)


GOOD = Broker(None, Producer(7, 0))
SLOW = [
    Lost("no answer"),
    Broker(Lost("no answer"), 0),
    Broker(None, Lost("no answer")),
    Broker(None, REQUEST_TIMED_OUT),
    Broker(None, LOADING),
]
OTHER = [Unserved("the log-in is refused"), Broker(Unserved("old"), 0), Broker(None, NOT_AUTHORIZED)]


def test_a_broker_that_gives_a_number_is_written_to() -> None:
    assert opened(GOOD) == Opened(Producer(7, 0), FOUND)


@pytest.mark.parametrize("slow", SLOW)
def test_a_slow_broker_decides_nothing(slow: Broker | Lost) -> None:
    found = opened(slow)
    assert isinstance(found, Lost) and not isinstance(found, Unserved)
    assert opened(slow, GOOD) == Opened(Producer(7, 0), FOUND), "another one does"


@pytest.mark.parametrize("other", OTHER)
def test_one_that_cannot_be_spoken_to_here_leaves_it_to_the_library(other: Broker | Lost) -> None:
    assert isinstance(opened(other), Unserved)
    for slow in SLOW:
        assert isinstance(opened(slow, other), Unserved), "the others are not waited for"
        assert isinstance(opened(other, slow), Unserved)
    assert opened(other, GOOD) == Opened(Producer(7, 0), FOUND)


def test_the_property_that_decides_is_named() -> None:
    config = client_config.sender(client_config.common("a:1", {}), lambda error: None, 1000, 1.0)
    assert unknown_property(config) is None
    assert unknown_property(config | {"compression.type": "zstd"}) == "compression.type"
    assert unknown_property(config | {"security.protocol": "sasl_ssl"}) == "sasl.mechanism=GSSAPI"
