"""A client of transactions that knows Kafka and the page about them, and nothing of Holon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.kafka_broker import session_bootstrap, session_prefix
from tests.integration.processes import PLENTY_S, until
from tests.integration.txn_processes import nodes


class PlainClient:
    """Speaks the record format of docs/transactions.md, Clients."""

    def __init__(self, bootstrap: str, requests: str, replies: str) -> None:
        self.requests = requests
        # The client places a record by the murmur2 of its key, as all of Kafka's do.
        self.producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2"})
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": "plain", "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )  # fmt: skip
        found = self.consumer.list_topics(replies, PLENTY_S).topics[replies].partitions
        self.consumer.assign([TopicPartition(replies, partition, 0) for partition in found])
        self.last: dict[int, tuple[int, int]] = dict.fromkeys(found, (0, 0))
        self.answers: dict[str, list[Any]] = {}

    def send(self, *calls: dict[str, Any]) -> None:
        """One as it is, several as a list; a list goes by the id of its first."""
        body = json.dumps(calls[0] if len(calls) == 1 else calls)
        self.producer.produce(self.requests, key=calls[0]["id"], value=body)
        assert self.producer.flush(PLENTY_S) == 0

    def answer(self, name: str, count: int = 1) -> list[Any]:
        """Reads on until this request has so many replies."""
        until(lambda: self._read() and len(self.answers.get(name, [])) >= count, f"reply {count} to {name}")
        return self.answers[name]

    def _read(self) -> bool:
        message = self.consumer.poll(1)
        if message is not None and message.error() is None:
            self._take(message)
        return True

    def _take(self, message: Message) -> None:
        value, partition = message.value(), message.partition()
        assert value is not None and partition is not None
        kind, epoch, first, replies = msgspec.msgpack.decode(value)
        assert kind == "replies"
        for n, (name, _sequencer, _offset, _index, tid, result, failure) in enumerate(replies, first):
            if (epoch, n) <= self.last[partition]:
                continue  # a repeat
            self.last[partition] = epoch, n
            outcome = failure if result is None else msgspec.msgpack.decode(result)
            self.answers.setdefault(name, []).append((tid, outcome))


def call(name: str, key: str, function: str, args: Any) -> dict[str, Any]:
    return {"id": name, "operator": "account", "key": key, "function": function, "args": args}


def test_who_knows_only_kafka_and_the_record_format_can_ask(tmp_path: Path) -> None:
    bootstrap, prefix = session_bootstrap(), session_prefix(tmp_path)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    requests, replies = f"{prefix}bank-txn-requests", f"{prefix}bank-txn-replies"
    options = ("--bootstrap", bootstrap, "-D", f"log.prefix={prefix}", "-D", f"checkpoints.url={tmp_path / 'saved'}")
    try:
        with nodes(1, "examples.bank:program", *options):
            until(lambda: {requests, replies} <= admin.list_topics(timeout=PLENTY_S).topics.keys(), "the job's topics")
            client = PlainClient(bootstrap, requests, replies)
            try:
                speak(client)
            finally:
                client.consumer.close()
    finally:
        mine = [name for name in admin.list_topics(timeout=PLENTY_S).topics if name.startswith(prefix)]
        for done in admin.delete_topics(mine).values():
            done.result(PLENTY_S)


def speak(client: PlainClient) -> None:
    deposit = call("first", "alice", "deposit", [100])
    client.send(deposit)
    ((tid, result),) = client.answer("first")
    assert (tid >= 0, result) == (True, 100)
    client.send(deposit)
    assert client.answer("first", 2) == [(tid, 100)] * 2, "it ran once, and is answered alike"
    client.send(call("pay", "alice", "transfer", {"to": "bob", "amount": 5}))
    assert client.answer("pay")[0][1] == 95
    client.send(call("too much", "alice", "transfer", {"to": "bob", "amount": 500}))
    assert client.answer("too much")[0][1] == ["InsufficientFunds", ["alice", 95]]
    client.send({**deposit, "args": [7]})
    assert client.answer("first", 3)[2] == (-1, ["RequestIdReused", ["first"]])
    client.send({**deposit, "since": 10**9})
    assert client.answer("first", 4)[3][1][0] == "MalformedRequest", "no such offset"
    client.send(call("7", "dora", "deposit", [1]), call("6", "dora", "deposit", [1]))
    assert client.answer("6")[0] == (-1, ["WrongPartition", ["6", 1, 0]]), "a list, of ids of two partitions"
    assert client.answer("7")[0][1] == 1
    client.send({**call("packed", "dora", "deposit", None), "packed": "kQE="})  # [1]
    assert client.answer("packed")[0][1] == 2
    client.send(call("0", "carol", "deposit", [1]), call("2", "carol", "deposit", [1]))
    assert sorted(client.answer(name)[0][1] for name in ("0", "2")) == [1, 2], "a list, of ids of one partition"
