"""`holon sink` beside a fleet, killed again and again: the files have each row of the output once."""

from __future__ import annotations

import csv
import json
import random
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from nodes.file_sinks.stores import open_store
from nodes.fleet.processes import Fleet
from nodes.machine.config import JobRun
from tests.integration.file_sinks.test_stores import settings_for
from tests.integration.fleet_support import Command, Stage, run_command
from tests.integration.kafka_stage import STAGES
from tests.integration.processes import until
from tests.integration.store_servers import KEYS, S3Server
from tests.shares import share_of

FLOW = "tests.integration.jobs_files:flow"
KILLS = 6


@pytest.fixture(params=share_of(STAGES, 2, __name__))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = STAGES[request.param](tmp_path)
    yield made
    made.log.close()


def lines_of(folder: Path) -> Counter[str]:
    """The rows of all files below a folder, as the lines of JSON that the output has."""
    found: Counter[str] = Counter()
    for path in sorted(folder.rglob("part-*")):
        if path.suffix == ".jsonl":
            found.update(path.read_text().splitlines())
        elif path.suffix == ".csv":
            with path.open(newline="") as file:
                rows = [{**row, "poison": row["poison"]} for row in csv.DictReader(file)]
            found.update(
                line({name: value if name == "poison" else int(value) for name, value in row.items()}) for row in rows
            )
        else:
            found.update(line(row) for row in pq.ParquetFile(path).read().to_pylist())
    return found


def line(row: object) -> str:
    return json.dumps(row, separators=(",", ":"))


def sink(stage: Stage, folder: Path, *arguments: str) -> Command:
    return Command("sink", FLOW, "--json", *arguments, stage=stage, shell=f'cd "{folder}"; exec "$@"')


def entries(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*"))


def killed_again_and_again(stage: Stage, folder: Path, drawn: random.Random, *arguments: str) -> None:
    """One or two sinks at a time, which are killed when they have made a drawn number of files and folders."""
    for _ in range(KILLS):
        with ExitStack() as stack:
            running = [stack.enter_context(sink(stage, folder, *arguments)) for _ in range(drawn.choice([1, 2]))]
            enough = entries(folder) + drawn.randint(1, 40)
            until(lambda: entries(folder) >= enough, "the sinks have written some files")  # noqa: B023
            for command in running:
                assert command.process.poll() is None
                command.signal(signal.SIGKILL)


def ended(stage: Stage, run: JobRun, fleet: Fleet) -> None:
    stage.stop_feeding()
    stage.finish(run, fleet)


@pytest.mark.long
def test_files_are_exact_while_nodes_and_sinks_are_killed(stage: Stage, tmp_path: Path):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    folder = tmp_path / "files"
    folder.mkdir()
    run = stage.open(FLOW)
    with stage.fleet(2, FLOW, crashpoints={0: "before-checkpoint:3"}) as fleet, stage.feeding(60):
        fleet.start()
        killed_again_and_again(stage, folder, random.Random(seed))
        assert not list(folder.rglob("_SUCCESS"))
        ended(stage, run, fleet)
    told = sink(stage, folder).json()
    assert told["complete"] and [row["output"] for row in told["sinks"]] == ["main", "totals"]
    for topic, root, row in (("filed.files.1", "rows", told["sinks"][0]), ("totals", "totals", told["sinks"][1])):
        wanted = stage.results(topic)
        assert lines_of(folder / root) == wanted, seed
        assert row["rows"] == wanted.total() and row["topic"] == topic
        assert json.loads((folder / root / "_SUCCESS").read_text())["rows"] == wanted.total()
    assert {path.parent.name for path in (folder / "totals").rglob("*.parquet")} == {f"key={key}" for key in range(7)}


@pytest.mark.long
def test_files_in_an_object_store_are_exact_while_sinks_are_killed(tmp_path: Path, s3_server: S3Server):
    stage = Stage(tmp_path)
    run = stage.open(FLOW)
    stage.feed(4000)
    with stage.fleet(1, FLOW) as fleet:
        fleet.start()
        stage.finish(run, fleet)
    url = f"s3://{s3_server.make_bucket(f'b{uuid.uuid4().hex}')}/out"
    given = {**KEYS, "endpoint": s3_server.endpoint, "timeout_ms": "60000"}
    stage.definitions = (*stage.definitions, *(f"files.{key}={value}" for key, value in given.items()))
    store = open_store(url, settings_for(s3_server))
    to = ("--output", "totals", "--to", url, "--partition-by", "key")
    for names in (1, 9, 20):
        with sink(stage, tmp_path, *to) as command:
            until(lambda: len(store.names("")) >= names, "the sink has written something")  # noqa: B023
            command.signal(signal.SIGKILL)
    told = sink(stage, tmp_path, *to).json()
    found: Counter[str] = Counter()
    for name in store.names(""):
        if name.endswith(".jsonl"):
            found.update((store.read(name) or b"").decode().splitlines())
    assert found == stage.results("totals") and found.total() > 100
    assert told["complete"] and store.read("_SUCCESS") is not None
    stage.log.close()


@pytest.mark.long
def test_a_bounded_sink_ends_with_what_is_there_and_a_later_one_goes_on(tmp_path: Path):
    stage = Stage(tmp_path)
    to = ("--output", "main", "--to", str(tmp_path / "out"), "--bounded")
    assert "no topic 'filed.files.1'" in sink(stage, tmp_path, *to).json(2)["error"]["message"]
    run = stage.open(FLOW)
    with stage.fleet(1, FLOW) as fleet:
        fleet.start()
        stage.feed(400)
        until(lambda: stage.results("filed.files.1").total() == 80, "the rows are there")
        told = sink(stage, tmp_path, *to).json()
        assert not told["complete"] and told["sinks"][0]["rows"] == 80
        stage.feed(400)
        stage.finish(run, fleet)
    told = sink(stage, tmp_path, *to).json()
    assert told["complete"] and told["sinks"][0]["rows"] == 160
    assert lines_of(tmp_path / "out") == stage.results("filed.files.1")
    stage.log.close()


def run_beside(stage: Stage, folder: Path, *arguments: str) -> Command:
    return run_command(stage, *arguments, job=FLOW, shell=f'cd "{folder}"; exec "$@"')


@pytest.mark.long
def test_a_run_writes_files_beside_also_where_their_process_is_killed(stage: Stage, tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    stage.feed(2000)
    with run_beside(stage, folder) as command:
        until(lambda: bool(list(folder.rglob("*.csv"))), "files are there while the job runs")
        (child,) = sinks_of(command)
        child.kill()
        command.says("holon sink ended with -9, and is started again")
        until(lambda: bool(sinks_of(command)), "it runs again")
        command.signal(signal.SIGTERM)
        command.json()
    stage.feed(2000)
    assert run_beside(stage, folder, "--bounded").json()["ending"] == "done"
    for topic, root in (("filed.files.1", "rows"), ("totals", "totals")):
        assert lines_of(folder / root) == stage.results(topic)
        assert (folder / root / "_SUCCESS").exists()


def sinks_of(command: Command) -> list[psutil.Process]:
    children = psutil.Process(command.process.pid).children()
    return [child for child in children if child.status() != psutil.STATUS_ZOMBIE and "sink" in child.cmdline()]


def test_files_beside_end_with_a_run_that_is_killed(tmp_path: Path):
    stage = Stage(tmp_path)
    with run_beside(stage, tmp_path) as command:
        until(lambda: bool(sinks_of(command)), "it runs")
        (child,) = sinks_of(command)
        command.signal(signal.SIGKILL)
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "it has left")
    assert stage.fed == 0
    stage.log.close()


@pytest.mark.long
def test_a_run_whose_files_cannot_be_written_fails_and_names_the_reason_and_no_files_leaves_them_out(tmp_path: Path):
    stage = Stage(tmp_path)
    stage.feed(100)
    (tmp_path / "totals").write_bytes(b"")
    (tmp_path / "rows").mkdir()
    assert run_beside(stage, tmp_path, "--bounded", "--no-files").json()["ending"] == "done"
    assert not list((tmp_path / "rows").rglob("*"))
    (tmp_path / "totals").unlink()
    assert sink(stage, tmp_path, "--output", "totals", "--to", "totals").json()["complete"]
    code, _, said = run_beside(stage, tmp_path, "--bounded").finish()
    assert code == 1 and "the job is done, but not all of its files are written: holon: error: the files in" in said
    stage.log.close()


@pytest.mark.long
def test_rows_that_fit_no_file_end_a_sink_by_name_or_are_set_aside(tmp_path: Path):
    stage = Stage(tmp_path)
    run = stage.open(FLOW)
    with stage.fleet(1, FLOW) as fleet:
        fleet.start()
        stage.feed(400)
        stage.finish(run, fleet)
    to = ("--output", "main", "--to", str(tmp_path / "out" / "{nothing}"), "--bounded")
    said = sink(stage, tmp_path, *to).json(1)["error"]["message"]
    assert "has no folder: it has no field 'nothing'" in said and "--on-error dead-letter" in said
    told = sink(stage, tmp_path, *to, "--on-error", "dead-letter").json()
    assert told["complete"] and (told["sinks"][0]["rows"], told["sinks"][0]["dead"]) == (0, 80)
    files = (tmp_path / "out" / "_dead").glob("*.jsonl")
    rows = [json.loads(row) for file in files for row in file.read_text().splitlines()]
    assert Counter(row["row"] for row in rows) == stage.results("filed.files.1")
    stage.log.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_sink_waits_for_its_job_and_leaves_at_a_signal(tmp_path: Path, number: int, code: int):
    stage = Stage(tmp_path)
    with sink(stage, tmp_path) as command:
        command.says("waiting for the topic filed.files.1")
        command.signal(number)
        told = command.json(code)
    assert not told["complete"] and told["sinks"] == []
    stage.log.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--output", "nothing"], "no output of tests.integration.jobs_files:flow 'nothing'"),
        (["--to", "x"], "has the outputs main, totals: choose one with --output"),
        (["--output", "main", "--to", "x", "--format", "xml"], "files are csv, jsonl, parquet, got 'xml'"),
        (["--format", "csv"], "--format belongs to --to PATH"),
        (["--output", "late"], "declares no files: give --to PATH"),
        (["--on-error", "stop"], 'on_error must be "fail" or "dead-letter"'),
        (["--commit-after", "soon"], "commit_after: a duration is"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path: Path, arguments: list[str], said: str):
    stage = Stage(tmp_path)
    assert said in sink(stage, tmp_path, *arguments).json(2)["error"]["message"]
    stage.log.close()
