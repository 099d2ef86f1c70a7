"""Streams that feed a job: each record once, in its partition's order, whoever feeds it and whatever fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nodes.log.memory import MemoryLog
from nodes.machine.claiming import Claiming
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions.checkpointing import TransactionCheckpoints
from nodes.transactions.client import TransactionClient
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.feeding import Feeding
from nodes.transactions.topics import FIRST_INCARNATION, begin, create_topics
from transactional import Aborted, Context, Operator, Program, UnknownFunction
from transactional.streams import CURSORS

SEQUENCERS = 2
INPUTS = 3


def make_program(batch: int) -> Program:
    """Each entity keeps the numbers that it was given; a negative one is refused."""
    diary = Operator("diary", partitions=2)

    @diary.register
    async def note(ctx: Context, number: int) -> None:
        if number < 0:
            raise ValueError(number)
        ctx.put([*ctx.get([]), number])

    @diary.register
    async def read(ctx: Context) -> list[int]:
        return ctx.get([])

    diary.bind("inputs", note, key=lambda r: r["who"], arguments=lambda r: [r["number"]], batch=batch)
    return Program("diaries", [diary])


class Stage:
    """Nodes that take turns while somebody waits."""

    def __init__(self, batch: int) -> None:
        self.now_ms = 0
        self.program = make_program(batch)
        self.log = MemoryLog(on_wait=lambda seconds: self.turn())
        self.log.create_topic("inputs", INPUTS)
        self.topics = create_topics(self.log, self.program, SEQUENCERS)
        begin(self.log, self.topics, self.program, SEQUENCERS)
        self.client = TransactionClient(self.log)
        self.nodes: dict[str, tuple[TransactionDriver, Feeding]] = {}

    def start(self, name: str) -> None:
        units = SEQUENCERS + self.program.partitions
        claiming = Claiming(name, -1, FIRST_INCARNATION, units, suspect_after_ms=300)
        checkpoints = TransactionCheckpoints(
            MemoryCheckpoints(), self.program.name, name, claiming.ownership, sequencers=SEQUENCERS, interval_ms=10_000
        )
        driver = TransactionDriver(
            self.program,
            self.topics,
            self.log,
            claiming,
            checkpoints,
            lambda: self.now_ms,
            lambda: 1_000_000 + self.now_ms,
            sequencers=SEQUENCERS,
        )
        self.nodes[name] = driver, Feeding(self.log, self.program, SEQUENCERS)

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += 5
            for _, (driver, feeding) in sorted(self.nodes.items()):
                driver.turn()
                feeding.turn(driver.node.sequencers)

    def write(self, partition: int, numbers: range | list[int], who: str | None = None) -> None:
        """One record for each number."""
        records = [{"who": who or f"d{partition}", "number": number} for number in numbers]
        self.log.append("inputs", partition, [json.dumps(each).encode() for each in records])

    def read(self, who: str) -> list[int]:
        return self.client.call("diary", who, "read", timeout_s=60)

    def cursor(self, partition: int) -> dict[str, Any]:
        key = self.program.bindings[0].cursor(partition)
        return self.client.call(CURSORS, key, "where", timeout_s=60)

    def until_fed(self, partition: int, end: int) -> None:
        for _ in range(200):
            state = self.cursor(partition)
            if state is not None and state["next"] == end:
                return
            self.turn(10)
        raise AssertionError(f"partition {partition} was fed to {self.cursor(partition)}, not to {end}")


@pytest.mark.parametrize("batch", [1, 7])
def test_each_record_runs_once_in_the_order_of_its_partition(batch: int) -> None:
    stage = Stage(batch)
    stage.start("one"), stage.start("other")
    for partition in range(INPUTS):
        stage.write(partition, range(40))
    for partition in range(INPUTS):
        stage.until_fed(partition, 40)
        assert stage.read(f"d{partition}") == list(range(40))


def test_a_feeder_that_dies_costs_no_record_and_repeats_none() -> None:
    stage = Stage(batch=3)
    stage.start("one"), stage.start("other")
    stage.write(0, range(60))
    stage.write(1, range(60))
    while (state := stage.cursor(0)) is None or state["next"] < 6:
        stage.turn()
    assert state["next"] < 60, "it dies in the middle"
    del stage.nodes["one" if 0 in stage.nodes["one"][0].node.sequencers else "other"]
    for partition in (0, 1):
        stage.until_fed(partition, 60)
        assert stage.read(f"d{partition}") == list(range(60))


def test_two_feeders_of_one_partition_do_no_harm() -> None:
    stage = Stage(batch=3)
    stage.start("one")
    stage.write(0, range(60))
    second = Feeding(stage.log, stage.program, SEQUENCERS)
    for _ in range(400):
        stage.turn()
        second.turn(range(SEQUENCERS))
    stage.until_fed(0, 60)
    assert stage.read("d0") == list(range(60))


def test_what_cannot_be_run_is_left_out_and_counted() -> None:
    stage = Stage(batch=10)
    stage.start("one")
    stage.write(0, [1, 2, -3, 4])
    stage.log.append("inputs", 0, [b"no json", b'{"who": 5, "number": 5}', b'{"number": 5}'])
    stage.write(0, [6])
    stage.until_fed(0, 8)
    assert stage.read("d0") == [1, 2, 4, 6]
    assert stage.cursor(0) == {"next": 8, "skipped": 4, "last": [6, "KeyError", ["who"]]}


def test_a_batch_is_one_transaction() -> None:
    stage = Stage(batch=10)
    stage.start("one")
    stage.write(0, range(10), who="a")
    stage.write(0, range(10), who="b")
    before = stage.log.end_offset(stage.topics.requests, 0) + stage.log.end_offset(stage.topics.requests, 1)
    stage.turn(300)
    after = stage.log.end_offset(stage.topics.requests, 0) + stage.log.end_offset(stage.topics.requests, 1)
    assert after - before == INPUTS + 2, "each partition asks where it is; then two batches"
    assert stage.read("a") == stage.read("b") == list(range(10))


def test_only_functions_that_there_are_can_be_bound() -> None:
    operator = Operator("it", partitions=1)
    with pytest.raises(UnknownFunction, match="'gone'"):
        operator.bind("inputs", "gone", key=str)


def test_feeding_by_hand_checks_the_cursor() -> None:
    stage = Stage(batch=1)
    stage.start("one")
    stage.turn(100)
    calls = [["x", [1]]]
    args = [0, 1, "diary", "note", calls]
    assert stage.client.call(CURSORS, "mine", "feed", args, timeout_s=60) is True
    assert stage.client.call(CURSORS, "mine", "feed", args, timeout_s=60) is False
    assert stage.read("x") == [1]
    aborted = stage.client.call(CURSORS, "mine", "feed", [1, 2, "diary", "note", [["x", [-1]]]], timeout_s=60)
    assert aborted == Aborted("ValueError", (-1,))
