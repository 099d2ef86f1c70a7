"""Nodes give a job the keys, headers and nulls that its events ask for; letters and replays keep them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.log.contract import Record
from nodes.results.reader import OutputReader
from tests.integration.fleet_support import Command, Stage, run_command
from tests.integration.jobs_mixed import INPUT, OUTPUT
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.shares import share_of

ROWS = 300
JOBS = ("tests.integration.jobs_keyed:job", "tests.integration.jobs_keyed:by_columns")


@pytest.fixture(params=share_of(["embedded", "librdkafka", "direct"], 3, __name__))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    if request.param == "embedded":
        stage = Stage(tmp_path, partitions=2)
    else:
        reader = f"log.kafka.holon.reader={request.param}"
        stage = KafkaStage(tmp_path, session_bootstrap(), reader, partitions=2)
    yield stage
    stage.log.close()


def order(number: int) -> Record:
    value = None if number % 5 == 0 else b'{"price":%d,"user":"forged"}' % number
    headers = {"trace": b"t%d" % number, "other": b"x"} if number % 3 else {}
    return Record(value, b"u%d" % (number % 7), headers)


def expected(number: int) -> list[object]:
    trace = f"t{number}" if number % 3 else None
    return [f"u{number % 7}", number if number % 5 else 0, trace, number % 5 == 0, True]


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_a_job_gets_them_and_a_letter_is_put_back_with_them(stage: Stage, job: str) -> None:
    for partition in range(2):
        stage.log.append_records(INPUT, partition, [order(number) for number in range(partition, ROWS, 2)])
    broken = Record(b"{", b"u1", {"trace": b"kept"})
    stage.log.append_records(INPUT, 1, [broken, Record(b"{}"), Record(b"{}", b"\xff")])
    with run_command(stage, "--nodes", "2", "--bounded", job=job) as command:
        result = command.json()
    assert {name: result[name] for name in ("accepted", "dead", "conserved")} == {
        "accepted": ROWS, "dead": 3, "conserved": True,
    }  # fmt: skip
    read = OutputReader(stage.log, OUTPUT, decode=json.loads).read_available()
    found = [output.value for output in read]
    assert sorted(found, key=repr) == sorted(map(expected, range(ROWS)), key=repr)
    with Command("dlq", "list", job, "--json", stage=stage) as command:
        letters = command.json()["letters"]
    assert [letter["key"] for letter in letters] == ["u1", None, "\\xff"]
    assert letters[0]["headers"] == {"trace": "kept"}
    place = f"1:{letters[0]['offset']}"
    end = stage.log.end_offset(INPUT, 1)
    with Command("dlq", "replay", job, place, "--json", stage=stage) as command:
        assert command.json()["appended"] == {"1": 1}
    stage.log.use_record_parts(INPUT, ["trace"])
    chunk = stage.log.read(INPUT, 1, end)
    assert chunk.parts is not None and list(chunk.values) == [broken.value]
    assert (chunk.parts.key(0), chunk.parts.headers_of(0)) == (broken.key, broken.headers)
    with Command("replay", job, "--json", stage=stage) as command:
        assert command.json()["deterministic"]
    with Command("profile", job, "--seconds", "0", "--json", stage=stage) as command:
        assert command.json()["outputs"] == ROWS + 4, "dead letters are outputs too"


@pytest.mark.long
def test_keys_of_a_job_s_outputs_are_read_by_the_next_one_once(stage: Stage) -> None:
    forward, after = (f"tests.integration.jobs_keyed:{name}" for name in ("forward", "after"))
    for partition in range(2):
        stage.log.append_records(INPUT, partition, [order(number) for number in range(partition, ROWS, 2)])
    for again in ((), ("--reset",)):  # what the first has written before is no result any more
        with run_command(stage, "--bounded", *again, job=forward) as command:
            assert command.json()["outputs"] == ROWS
    with run_command(stage, "--nodes", "2", "--bounded", job=after) as command:
        result = command.json()
    assert (result["accepted"], result["dead"], result["conserved"]) == (ROWS, 0, True)
    found = [output.value for output in OutputReader(stage.log, OUTPUT, decode=json.loads).read_available()]
    wanted = [[f"u{number % 7}", number if number % 5 else 0] for number in range(ROWS)]
    assert sorted(found) == sorted(wanted)
