"""Three jobs in a row, a node of each killed at work, the first one reset: Spark says what comes out at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodes.results.reader import OutputReader
from nodes.runtime.log_opening import log_address
from nodes.spark.session import java_problem, spark_session
from nodes.spark.source import needed_jars, read_topic
from tests.integration.fleet_support import Stage, run_command
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.shares import share_of

pytestmark = pytest.mark.timeout(1200)

PARTITIONS = 2
ORDERS = 3_000
"""Ten minutes of event time, so that what comes later begins a new minute."""
STAGES: dict[str, Callable[[Path], Stage]] = {
    "embedded": lambda folder: Stage(folder, partitions=PARTITIONS),
    "kafka": lambda folder: KafkaStage(folder, session_bootstrap(), partitions=PARTITIONS),
}
UP, MID, DOWN = (f"examples.chained:{name}" for name in ("up", "mid", "down"))
WANTED = """
    SELECT minute AS start_ms, count(*) AS partitions, sum(orders) AS orders, sum(cents) AS cents
    FROM (
        SELECT o.ts - o.ts % 60000 AS minute, partition, count(*) AS orders, sum(o.quantity * o.cents) AS cents
        FROM (
            SELECT partition,
                from_json(decode(value, 'UTF-8'), 'ts BIGINT, customer STRING, quantity BIGINT, cents BIGINT') AS o
            FROM orders
        )
        WHERE o.quantity > 0
        GROUP BY ALL
    )
    GROUP BY minute ORDER BY minute
"""


@pytest.fixture(params=share_of(STAGES, 2, __name__))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = STAGES[request.param](tmp_path)
    made.log.create_topic("orders", PARTITIONS)
    yield made
    made.log.close()


def order(stage: Stage, first: int, stop: int) -> None:
    """Of some the quantity is 0."""
    for partition in range(PARTITIONS):
        rows = [
            {"ts": 200 * n, "customer": f"c{n % 7}", "quantity": n * 7 % 5, "cents": 1 + n % 90}
            for n in range(first + partition, stop, PARTITIONS)
        ]
        stage.log.append("orders", partition, [msgspec.json.encode(row) for row in rows])


def expected(stage: Stage) -> list[dict[str, Any]]:
    """What Spark makes of the orders; no line of Holon has a part in it but the reading of its log."""
    assert java_problem() is None
    address = log_address(stage.settings)
    with spark_session(jars=needed_jars(address)) as spark:
        read_topic(spark, address, "orders").createOrReplaceTempView("orders")
        return [row.asDict() for row in spark.sql(WANTED).collect()]


def killed_at_work(stage: Stage, job: str, after: Callable[[], None] = lambda: None) -> None:
    """Two nodes, of which one dies at its first checkpoint, or when both have work; the other goes on to the end."""
    run = stage.open(job)
    with stage.fleet(2, job, crashpoints={0: "before-checkpoint:1"}) as fleet:
        first, monitor = fleet.members[0], stage.monitor(run)

        def at_work() -> bool:
            numbers = monitor.ownership.members
            owners = {numbers.get(owner) for owner in monitor.ownership.owners().values() if owner is not None}
            return first.process.poll() is not None or owners == {0, 1}

        stage.until(monitor, at_work, f"both nodes of {job} work", fleet)
        fleet.kill(0)
        assert first.process.returncode == -9
        after()
        stage.finish(run, fleet)


@pytest.mark.long
def test_chains_of_three_jobs_under_kills_are_exact(stage: Stage) -> None:
    order(stage, 0, ORDERS // 2)
    killed_at_work(stage, UP, lambda: order(stage, ORDERS // 2, ORDERS))
    with run_command(stage, "--bounded", "--reset", job=UP) as again:
        assert again.json()["conserved"]
    killed_at_work(stage, MID)
    killed_at_work(stage, DOWN)
    order(stage, ORDERS, ORDERS + 500)
    written = 0
    for job in (UP, MID, DOWN):
        with run_command(stage, "--bounded", "--continue", job=job) as command:
            account = command.json()
        assert account["conserved"] and account["late"] == 0, account
        assert account["incarnation"] == (2 if job == UP else 1)
        if job == MID:
            assert account["accepted"] == written and account["duplicates"] > 0, account
        written = account["outputs"]
    found = [msgspec.json.decode(o.value) for o in OutputReader(stage.log, "chained-by-minute").read_available()]
    assert sorted(found, key=lambda row: row["start_ms"]) == expected(stage)
