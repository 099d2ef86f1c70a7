"""Spark beside transactions: it makes the same requests, and sees what is wrong with state and replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nodes.log import LogAddress, open_log
from nodes.spark.session import java_problem, spark_session
from nodes.transactions.bench.prepared import Prepared, prepare, prepare_with_spark
from nodes.transactions.bench.spark_oracle import judge
from nodes.transactions.topics import create_topics
from tests.integration.txn_replay import records
from transactional import Aborted, Serial
from transactional.epochs.messages import Replies, Reply, to_bytes
from transactional.requests.requests import WireRequest, partition_of, request_record
from transactional.state.values import decode, encode
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import WorkloadShape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

SEQUENCERS = 2
SHAPES = {"ycsb-t": WorkloadShape(20, 0.9, seed=3), "tpcc-full": WorkloadShape(1, 0.0, seed=3, scale=0.002)}


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[SparkSession]:
    assert java_problem() is None
    with spark_session() as session:
        yield session


class Ran:
    """A workload that ran in the plain loop, on a log and as checkpointed state: what the oracle gets."""

    def __init__(self, folder: Path, name: str, count: int) -> None:
        self.folder = folder
        self.workload = WORKLOADS[name]
        self.address = LogAddress(f"embedded:{folder / 'log'}")
        self.serial = Serial(self.workload.program)
        shape = SHAPES[name]
        with open_log(self.address) as log:
            topics = create_topics(log, self.workload.program, SEQUENCERS)
            asked = [*self.workload.load(shape), *self.workload.requests(shape, 0, count)]
            for number, request in enumerate(asked):
                sequencer = partition_of(request.id, SEQUENCERS)
                together = [request, request] if number == 3 else request  # an id that comes twice runs once
                at = log.append(topics.requests, sequencer, [request_record(together)]).first_offset
                reply = self._reply(request, sequencer, at, number)
                given = [reply, Reply(reply.id, sequencer, at, 1, -1, reply.result, reply.failure)]
                record = to_bytes(Replies(2 + number, 0, given if number == 3 else given[:1]))
                log.append(topics.replies, 0, [record] * (1 + number % 2))  # two owners have written some
        self.state = [
            {"operator": operator, "key": key, "value": json.dumps(decode(value))}
            for (operator, key), value in sorted(self.serial.state.items())
        ]

    def _reply(self, request: WireRequest, sequencer: int, at: int, number: int) -> Reply:
        outcome = self.serial.call(request.operator, request.key, request.function, request.args, now_ms=number)
        failure = outcome if isinstance(outcome, Aborted) else None
        return Reply(request.id, sequencer, at, 0, number, None if failure else encode(outcome), failure)

    def judged(self, change: Callable[[list[dict[str, Any]]], object] = lambda rows: None) -> list[str]:
        """The oracle's verdict on the state after a change."""
        rows = [dict(row) for row in self.state]
        change(rows)
        path = self.folder / "state.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        found = judge(self.workload.name, self.workload.program.name, self.address, path)
        assert (found.differences == 0) == (found.first == [])
        return found.first


def changed(operator: str, place: int, by: int) -> Callable[[list[dict[str, Any]]], None]:
    """Of the first row of an operator."""

    def change(rows: list[dict[str, Any]]) -> None:
        row = next(row for row in rows if row["operator"] == operator)
        value = json.loads(row["value"])
        value[place] += by
        row["value"] = json.dumps(value)

    return change


def test_spark_writes_the_requests_that_python_writes(tmp_path: Path) -> None:
    address = LogAddress(f"embedded:{tmp_path / 'log'}")
    for name in ("ycsb-t", "tpcc-full"):
        by_spark, plain = (Prepared(name, SHAPES[name], 301, f"{name}-{who}", 3) for who in ("spark", "plain"))
        assert prepare_with_spark(address, by_spark) == 301
        with open_log(address) as log:
            prepare(log, plain)
            for partition in range(3):
                assert records(log, by_spark.topic, partition) == records(log, plain.topic, partition)
            assert log.end_offset(by_spark.topic, 1) == 100


def test_spark_computes_every_balance(tmp_path: Path) -> None:
    ran = Ran(tmp_path, "ycsb-t", 200)
    with open_log(ran.address) as log:
        unanswered = request_record(WireRequest("more", "account", "a0", "transfer", ["a1", 1]))
        log.append("ycsb-t-txn-requests", 0, [unanswered])
    said = ran.judged(lambda rows: (rows[0].update(value="5"), rows.pop(1)))
    unasked, wrong, lost = sorted(said)
    assert unasked == "request more has 0 replies"
    assert wrong.startswith("the balance of a0 is 5, and ") and lost.startswith("the balance of a1 is not there, and ")


@pytest.mark.long
def test_spark_finds_what_breaks_the_conditions_of_tpcc(tmp_path: Path) -> None:
    ran = Ran(tmp_path, "tpcc-full", 60)
    assert {row["operator"] for row in ran.state} >= {"order", "new_order", "payment_history", "stock"}
    said = ran.judged(
        lambda rows: [
            changed("warehouse", 1, 1)(rows),
            changed("customer", 4, 1)(rows),
            changed("stock", 1, 1)(rows),
            rows.remove(next(row for row in rows if row["operator"] == "new_order")),
        ]
    )
    prefixes = ["condition 10", "condition 12", "condition 1:", "condition 5", "condition 8", "quantity, orders"]
    assert [each[: len(prefix)] for each, prefix in zip(sorted(said), prefixes, strict=True)] == prefixes, said
