"""Streams that feed a job: each record once, in its partition's order, whoever feeds it and whatever fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holon.outputs.identity import OutputId, Track
from nodes.transactions.bound_streams import Feeding
from tests.unit.txn_stage import SEQUENCERS, Stage
from transactional import Aborted, Context, Operator, Program, UnknownFunction
from transactional.streams import CURSORS

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


class FedStage(Stage):
    """Of the diaries."""

    def __init__(self, batch: int) -> None:
        super().__init__(make_program(batch), inputs=INPUTS)

    def write(self, partition: int, numbers: range | list[int], who: str | None = None) -> None:
        """One record for each number."""
        records = [{"who": who or f"d{partition}", "number": number} for number in numbers]
        self.log.append("inputs", partition, [json.dumps(each).encode() for each in records])

    def read(self, who: str) -> list[int]:
        return self.call("diary", who, "read")

    def cursor(self, partition: int) -> dict[str, Any]:
        key = self.program.bindings[0].cursor(partition)
        return self.call(CURSORS, key, "where")

    def until_fed(self, partition: int, end: int) -> None:
        for _ in range(200):
            state = self.cursor(partition)
            if state is not None and state["next"] == end:
                return
            self.turn(10)
        raise AssertionError(f"partition {partition} was fed to {self.cursor(partition)}, not to {end}")


@pytest.mark.parametrize("batch", [1, 7])
def test_each_record_runs_once_in_the_order_of_its_partition(batch: int) -> None:
    stage = FedStage(batch)
    stage.start("one"), stage.start("other")
    for partition in range(INPUTS):
        stage.write(partition, range(40))
    for partition in range(INPUTS):
        stage.until_fed(partition, 40)
        assert stage.read(f"d{partition}") == list(range(40))


def test_a_feeder_that_dies_costs_no_record_and_repeats_none() -> None:
    stage = FedStage(batch=3)
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


@pytest.mark.slow
def test_two_feeders_of_one_partition_do_no_harm() -> None:
    stage = FedStage(batch=3)
    stage.start("one")
    stage.write(0, range(60))
    second = Feeding(stage.log, stage.program, SEQUENCERS)
    for _ in range(400):
        stage.turn()
        second.turn(range(SEQUENCERS))
    stage.until_fed(0, 60)
    assert stage.read("d0") == list(range(60))


def test_what_cannot_be_run_is_left_out_and_counted() -> None:
    stage = FedStage(batch=10)
    stage.start("one")
    stage.write(0, [1, 2, -3, 4])
    stage.log.append("inputs", 0, [b"no json", b'{"who": 5, "number": 5}', b'{"number": 5}'])
    stage.write(0, [6])
    stage.until_fed(0, 8)
    assert stage.read("d0") == [1, 2, 4, 6]
    assert stage.cursor(0) == {"next": 8, "skipped": 4, "last": [6, "KeyError", ["who"]]}


def test_a_batch_is_one_transaction() -> None:
    stage = FedStage(batch=10)
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
    stage = FedStage(batch=1)
    stage.start("one")
    stage.turn(100)
    calls = [["x", [1]]]
    args = [0, 1, "diary", "note", calls]
    assert stage.client.call(CURSORS, "mine", "feed", args, timeout_s=60) is True
    assert stage.client.call(CURSORS, "mine", "feed", args, timeout_s=60) is False
    assert stage.read("x") == [1]
    aborted = stage.client.try_call(CURSORS, "mine", "feed", [1, 2, "diary", "note", [["x", [-1]]]], timeout_s=60)
    assert aborted == Aborted("ValueError", (-1,))


# --- records that another Holon job has written -------------------------------------------------------------------


def write_as(stage: FedStage, numbers: list[int], *, incarnation: int = 0, job: str = "up") -> None:
    """Each number is an output of a job's record track; what is written again has the same identity."""
    ids = [OutputId(job, incarnation, 0, Track.RECORD, abs(number), 0).to_bytes() for number in numbers]
    rows = [json.dumps({"who": "d0", "number": number}).encode() for number in numbers]
    stage.log.append("inputs", 0, rows, headers=ids)


@pytest.mark.parametrize("batch", [1, 4])
def test_what_a_job_has_written_again_is_fed_once(batch: int) -> None:
    stage = FedStage(batch)
    stage.start("one"), stage.start("other")
    write_as(stage, [0, 1, 2, 1, 2, 3, 0, 1, 2, 3, 4])
    stage.until_fed(0, 11)
    write_as(stage, [3, 4, 5])
    stage.write(0, [100])
    stage.until_fed(0, 15)
    assert stage.read("d0") == [0, 1, 2, 3, 4, 5, 100]
    assert (stage.cursor(0)["duplicates"], stage.cursor(0)["skipped"]) == (8, 0)


def test_another_feeder_knows_what_was_fed() -> None:
    stage = FedStage(batch=3)
    stage.start("one")
    write_as(stage, [0, 1, 2, 3])
    stage.until_fed(0, 4)
    second = Feeding(stage.log, stage.program, SEQUENCERS)
    write_as(stage, [2, 3, 4])
    for _ in range(400):
        stage.turn()
        second.turn(range(SEQUENCERS))
    assert stage.read("d0") == [0, 1, 2, 3, 4]


def test_only_the_newest_incarnation_of_a_job_is_fed() -> None:
    stage = FedStage(batch=10)
    write_as(stage, [0, 1, 2])
    write_as(stage, [0, 1, 2, 3], incarnation=1)
    write_as(stage, [3], incarnation=0)
    stage.start("one")
    stage.until_fed(0, 8)
    assert stage.read("d0") == [0, 1, 2, 3]


def test_a_record_that_is_left_out_beside_duplicates_is_named() -> None:
    stage = FedStage(batch=10)
    stage.start("one")
    write_as(stage, [0, 1, 0, -5, 1])
    stage.until_fed(0, 5)
    assert stage.read("d0") == [0, 1]
    assert {name: stage.cursor(0)[name] for name in ("skipped", "last", "duplicates")} == {
        "skipped": 1, "last": [3, "ValueError", [-5]], "duplicates": 2,
    }  # fmt: skip


def test_a_job_that_begins_again_after_it_was_fed_takes_effect_when_somebody_says_so() -> None:
    stage = FedStage(batch=10)
    stage.start("one")
    write_as(stage, [0, 1])
    stage.until_fed(0, 2)
    write_as(stage, [2])
    write_as(stage, [0, 1, 2, 3], incarnation=1)
    stage.until_fed(0, 3)
    stage.turn(200)
    assert stage.cursor(0)["next"] == 3 and stage.read("d0") == [0, 1, 2], "its results would take effect twice"
    stage.skipped_s = 1e9
    assert stage.call(CURSORS, stage.program.bindings[0].cursor(0), "follow") is True
    stage.until_fed(0, 7)
    assert stage.read("d0") == [0, 1, 2, 0, 1, 2, 3]
    assert stage.call(CURSORS, "nobody", "follow") is False
