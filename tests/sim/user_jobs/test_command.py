"""``holon sim MODULE:JOB``: its exit codes, its line of JSON, and the command that replays a failed seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodes.cli import main
from tests.sim import user_jobs_given as given

JOBS = "tests.sim.user_jobs_given"
FIRST = 1 << 40


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "orders.jsonl"
    path.write_bytes(b"\n".join(given.lines()) + b"\n")
    return str(path)


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    words = []
    for topic, lines in given.of_two_topics().items():
        path = tmp_path / f"{topic}.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        words += ["--data", f"{topic}={path}"]
    return words


def sim(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object], str]:
    """Exit code, the line of JSON, and standard error."""
    code = main.run(["sim", *arguments, "--json", "--processes", "1"])
    out, err = capfd.readouterr()
    return code, json.loads(out), err


@pytest.mark.long
def test_a_right_job_ends_with_0(data: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, found, err = sim(capfd, f"{JOBS}:by_memory", "--data", data, "--seed", str(FIRST), "--records", "1")
    assert (code, found["seeds"], found["failed"], found["job"], found["data"]) == (0, 1, [], f"{JOBS}:by_memory", data)
    assert found["plain_pass"] == {
        "records": 1, "accepted": 1, "filtered": 0, "late": 0, "dead": 0, "results": 1, "span_ms": 0
    }  # fmt: skip
    assert "only the first 1 records" in err


@pytest.mark.long
def test_lines_are_record_batches_of_arrow_where_the_job_reads_such(
    data: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, found, _ = sim(capfd, f"{JOBS}:by_batches", "--data", data, "--seeds", "2", "--base-seed", str(FIRST))
    passed = found["plain_pass"]
    assert isinstance(passed, dict) and code == 0 and found["failed"] == []
    assert passed["accepted"] + passed["late"] == len(given.lines()) - 1
    assert passed["dead"] == 1 and passed["results"] > 5


@pytest.mark.long
def test_a_wrong_job_ends_with_1_and_its_replay_fails_alike(data: str, capfd: pytest.CaptureFixture[str]) -> None:
    job = [f"{JOBS}:by_memory", "--data", data]
    code, found, err = sim(capfd, *job, "--seeds", "40", "--base-seed", str(FIRST), "--partitions", "2", "--nodes", "3")
    assert code == 1 and isinstance(found["failed"], list)
    first = found["failed"][0]
    assert first["replay"] == f"holon sim {' '.join(job)} --seed {first['seed']} --nodes=3 --partitions=2"
    assert first["replay"] in err and "3 seeds failed" in err
    code, again, _ = sim(capfd, *first["replay"].split()[2:])
    assert code == 1 and again["failed"] == [first]


@pytest.mark.long
def test_a_job_of_two_topics_takes_a_file_of_each(two: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code, found, _ = sim(capfd, f"{JOBS}:two_topics", *two, "--seed", str(FIRST), "--records", "20")
    assert (code, found["failed"], found["data"]) == (0, [], two[1::2])
    assert isinstance(found["plain_pass"], dict) and found["plain_pass"]["records"] == 40
    code, found, _ = sim(capfd, f"{JOBS}:two_topics", *two[:2], "--seed", str(FIRST))
    assert code == 0, "no refunds then"
    file = two[1].partition("=")[2]
    for words, message in (
        ([file], "reads orders, refunds: name the topic of"),
        ([f"order={file}"], "no topic of job 'refunds', 'order'; nearest: orders"),
        ([two[1], two[1]], "names topic 'orders' twice"),
        (["orders=nothing.jsonl"], "there is no such file"),
    ):
        data = [word for each in words for word in ("--data", each)]
        code, found, _ = sim(capfd, f"{JOBS}:two_topics", *data)
        assert code == 2 and message in str(found["error"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{jobs}:by_memory"], 2, "give both, or none"),
        (["--data", "{data}"], 2, "give both, or none"),
        (["{jobs}:by_memory", "--data", "{data}", "--case", "count"], 2, "excludes MODULE:JOB"),
        (["--records", "3"], 2, "belong to --data"),
        (["{jobs}:by_memry", "--data", "{data}"], 2, "nearest: by_memory"),
        (["{jobs}:failing", "--data", "{data}"], 1, "in one plain pass, without any fault"),
        (["{jobs}:none_accepted", "--data", "{data}"], 1, "accepts none of the 121 records"),
    ],
)
def test_what_cannot_be_simulated_is_an_error(
    arguments: list[str], code: int, message: str, data: str, capfd: pytest.CaptureFixture[str]
) -> None:
    filled = [argument.format(jobs=JOBS, data=data) for argument in arguments]
    found, shown, _ = sim(capfd, *filled)
    assert found == code and message in str(shown["error"])
