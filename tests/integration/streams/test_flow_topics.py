"""A flow over two topics on node processes of which one is killed: the results are those of plain Python, each once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.integration.fleet_support import Command, Stage
from tests.integration.jobs_mixed import OUTPUT
from tests.integration.jobs_topics import ORDERED, ORDERS, Order, expected, orders_of
from tests.integration.kafka_stage import STAGES
from tests.shares import share_of

FLOW = "tests.integration.jobs_topics:flow"
ORDER_PARTITIONS = 3


def put(stage: Stage, orders: dict[int, list[Order]]) -> None:
    for partition, some in orders.items():
        stage.log.append(ORDERS, partition, [msgspec.json.encode(order) for order in some])


@pytest.fixture(params=share_of(STAGES, 2, __name__))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = STAGES[request.param](tmp_path)
    made.log.create_topic(ORDERS, ORDER_PARTITIONS)
    yield made
    made.log.close()


def test_a_flow_over_two_topics_is_exact_though_a_node_is_killed(stage: Stage) -> None:
    stage.feed(2_000)
    orders = orders_of(1_200, ORDER_PARTITIONS)
    put(stage, {partition: some[:200] for partition, some in orders.items()})
    run = stage.open(FLOW)
    with stage.fleet(2, FLOW, crashpoints={0: "before-checkpoint:2"}) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: fleet.members[0].process.poll() is not None, "node 0 dies", fleet)
        assert fleet.members[0].process.returncode == -9
        stage.feed(1_000)
        put(stage, {partition: some[200:] for partition, some in orders.items()})
        done = stage.finish(run, fleet)
    assert (stage.results(OUTPUT), stage.results(ORDERED)) == expected(stage.events, orders)
    assert done.counts().accepted == stage.fed + 1_200


@pytest.mark.long
def test_a_bad_record_is_put_back_into_its_own_topic_by_the_command(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.feed(40)
    stage.log.create_topic(ORDERS, ORDER_PARTITIONS)
    put(stage, orders_of(30, ORDER_PARTITIONS))
    stage.log.append(ORDERS, 2, [b"{"])
    stage.log.close()
    places = "--log-dir", str(stage.path), "--json"
    with Command("run", FLOW, "--bounded", "--no-view", *places) as command:
        account = command.json()
    assert (account["partitions"], account["taken"], account["dead"]) == (stage.partitions + ORDER_PARTITIONS, 71, 1)
    assert account["first_dead"].startswith("orders[2] offset 10: ")
    with Command("dlq", "replay", FLOW, "2:10", *places) as command:
        assert "TOPIC:PARTITION:OFFSET; in, orders" in command.json(exit_code=2)["error"]["message"]
    with Command("dlq", "replay", FLOW, "orders:2:10", *places) as command:
        assert command.json() == {"job": "topics", "topic": None, "appended": {"orders:2": 1}, "rows_left": 0}
    with Command("run", FLOW, "--bounded", "--no-view", *places) as command:
        code, _, said = command.finish()
    assert code == 1 and "has read in, orders up to the end" in said and "1 in partition 6 (orders[2])" in said
    with Command("replay", FLOW, "--check", *places) as command:
        found = command.json()
    assert (found["deterministic"], found["records"], found["partitions"]) == (True, 72, 7)
