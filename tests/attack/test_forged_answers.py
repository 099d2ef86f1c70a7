"""Answers of external calls that somebody writes who may write requests: only those of nodes count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest

from nodes.machine import messages as m
from nodes.transactions.external_calls import ExternalCalls
from nodes.transactions.job_start import started
from nodes.transactions.topics import TransactionTopics
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.unit.txn_stage import Stage
from transactional import Context, Operator, Program
from transactional.epochs.messages import ReplyState, Request
from transactional.external import ExternalRequest, external_request_of
from transactional.requests.requests import continuation, partition_of, proof_of
from transactional.state.values import encode

SHOP = Operator("shop", partitions=2)
may_answer = threading.Event()


def charge(key: str, amount: int) -> str:
    may_answer.wait(PLENTY_S)
    return f"charged {amount}"


@SHOP.register
async def buy(ctx: Context, amount: int) -> str:
    receipt = await ctx.external(charge, [amount])
    ctx.put(receipt)
    return receipt


class Shop(Stage):
    """One node; whether it makes its external calls is up to the test."""

    def __init__(self) -> None:
        super().__init__(Program("shop", [SHOP], externals=[charge]), new_key=None)
        self.start("a")
        self.external = ExternalCalls(
            self.log, self.program, self.topics.requests, lambda: self.now_ms, self.config.answer_key
        )
        self.calls_out = False

    def turn(self, times: int = 1) -> None:
        super().turn(times)
        if self.calls_out:
            for driver, _ in self.nodes.values():
                self.external.turn(driver.node.partitions)

    def asks(self) -> tuple[ReplyState, Request, ExternalRequest]:
        """The call that the only transaction waits for."""
        for _ in range(1_000):
            self.turn()
            for driver, _ in self.nodes.values():
                for partition in driver.node.partitions.values():
                    for state in partition.replies.external_requests.values():
                        assert isinstance(state.call, Request) and state.failure is not None
                        return state, state.call, external_request_of(state.failure)
        raise AssertionError("no transaction asks")


@pytest.fixture
def shop() -> Iterator[Shop]:
    may_answer.clear()
    yield Shop()
    may_answer.set()


def without_proof(call: Request, requested: ExternalRequest, key: bytes) -> bytes:
    return continuation(call, requested, encode("forged"))


def with_another_key(call: Request, requested: ExternalRequest, key: bytes) -> bytes:
    return continuation(call, requested, encode("forged"), b"guessed")


def with_the_proof_of_another_request(call: Request, requested: ExternalRequest, key: bytes) -> bytes:
    record = msgspec.json.decode(continuation(call, requested, encode("forged"), b"-"))
    other = msgspec.json.decode(
        continuation(msgspec.structs.replace(call, id="other"), requested, encode("forged"), key)
    )
    return msgspec.json.encode(record | {"proof": other["proof"]})


def with_the_proof_of_another_answer(call: Request, requested: ExternalRequest, key: bytes) -> bytes:
    record = msgspec.json.decode(continuation(call, requested, encode("forged"), b"-"))
    other = msgspec.json.decode(continuation(call, requested, encode("right"), key))
    return msgspec.json.encode(record | {"proof": other["proof"]})


FORGERIES = (
    without_proof,
    with_another_key,
    with_the_proof_of_another_request,
    with_the_proof_of_another_answer,
)
Forgery = Callable[[Request, ExternalRequest, bytes], bytes]


@pytest.mark.parametrize("calls_first", [True, False], ids=["while it is called", "before it is called"])
@pytest.mark.parametrize("forge", FORGERIES)
def test_a_client_cannot_answer_for_the_outside(shop: Shop, forge: Forgery, calls_first: bool) -> None:
    name = shop.client.send("shop", "k", "buy", [7], request_id="mine")
    state, call, requested = shop.asks()
    if calls_first:
        shop.calls_out = True
        shop.turn()
        assert shop.external.made == 1
    place = partition_of(name, len(shop.nodes["a"][0].node.sequencers))
    assert state.sequencer == place
    shop.log.append(shop.topics.requests, place, [forge(call, requested, shop.config.answer_key)])
    shop.turn(50)
    assert name not in shop.client.answered
    shop.calls_out = True
    may_answer.set()
    # The shop's clock goes 5 ms at each look: the call has a minute of the machine's time until it is given up.
    until(lambda: shop.client.receive(0.01) > 0, "the reply")
    assert shop.client.take(name) == "charged 7"
    assert shop.external.made == 1


def test_only_nodes_know_the_key(shop: Shop) -> None:
    begun = started(shop.log, shop.topics)
    assert begun is not None and begun.format == m.NUMBERED_VERSION
    key = shop.config.answer_key
    assert len(key) == 32 and key != Shop().config.answer_key
    assert repr(key) not in repr(shop.config)
    readable = [shop.topics.requests, shop.topics.replies, shop.topics.heartbeats, shop.topics.epochs]
    for topic in readable:
        for partition in range(shop.log.partitions(topic)):
            for value in shop.log.read(topic, partition, 0).values:
                assert key not in value and key.hex().encode() not in value
    assert proof_of(key, "a", b"b") != proof_of(key, "ab", b"")


def test_the_table_of_rights_has_all_topics(shop: Shop) -> None:
    table = [line for line in (ROOT / "docs" / "kafka.md").read_text().splitlines() if line.startswith("| `")]
    named = {name for line in table for name in line.split("|")[1].replace("`", "").replace(",", " ").split()}
    topics = TransactionTopics("JOB")
    properties = {getattr(topics, name) for name, each in vars(TransactionTopics).items() if isinstance(each, property)}
    assert {name for name in properties if isinstance(name, str)} <= named
    assert {topic.replace("shop-", "JOB-") for topic in shop.log.topics()} <= named
