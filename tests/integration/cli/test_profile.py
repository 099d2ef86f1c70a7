"""`holon profile` of real jobs, on files and topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from holon.columnar.loops import install
from nodes.cli.main import run
from nodes.log import EmbeddedLog
from nodes.profiling.stages import STAGES
from tests.integration.fleet_support import Command
from tests.integration.processes import ROOT

ITEMS = ROOT / "examples" / "items.jsonl"
TOP_ITEMS = "examples.top_items:job"


def profile(capfd: pytest.CaptureFixture[str], *arguments: str, exit_code: int = 0) -> Any:
    capfd.readouterr()
    assert run(["profile", *arguments, "--seconds", "0.05", "--json"]) == exit_code
    return json.loads(capfd.readouterr().out)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No settings of this folder count; the command's compiled loops are gone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    yield
    install(None)


def test_a_job_by_columns_is_measured_on_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "flames.svg"
    found = profile(capfd, TOP_ITEMS, "--data", str(ITEMS), "--flamegraph", str(picture))
    assert (found["records"], found["events"], found["slow_records"]) == (600, 600, 0)
    assert found["rounds"] > 0 and found["events_per_cpu_s"] > 0 and found["outputs"] > 0
    assert sum(cost["share"] for cost in found["stages"]) == pytest.approx(1.0, abs=0.01)
    assert {cost["stage"] for cost in found["stages"]} <= set(STAGES)
    columns = [(column["name"], column["kind"], column["compiled"]) for column in found["columns"]]
    assert columns == [("ts", "int", True), ("item", "text", True), ("quantity", "int", True)]
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_records_that_no_loop_takes_are_counted_and_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = ITEMS.read_text("utf-8").splitlines()
    lines[7], lines[9] = '{"ts":1,"ts":1753000000000,"item":"tea","quantity":1}', '{"ts":"soon"'
    data = tmp_path / "items.jsonl"
    data.write_text("\n".join(lines), "utf-8")
    found = profile(capfd, TOP_ITEMS, "--data", str(data))
    assert (found["records"], found["slow_records"]) == (600, 2)
    first, second = found["slow_examples"]
    assert (first["offset"], first["reason"], second["offset"]) == (7, None, 9)
    assert first["record"] == lines[7] and "Expected `int`" in second["reason"]


ARROW = """
import msgspec
from holon import Tumbling
from holon.arrow import Arrow
from holon.dataflow import Flow

class Place(msgspec.Struct):
    shelf: int

class Item(msgspec.Struct):
    ts: int
    place: Place
    kinds: set[str] = set()

flow = Flow("items")
items = flow.source("items", Arrow(Item), time=lambda i: i.ts)
(items.key_by(lambda i: i.place.shelf).window(Tumbling("1m")).agg(lambda g: (g.key, g.count())).sink("counts"))
"""


def test_lines_become_record_batches_where_a_job_reads_such(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "arrow_items.py").write_text(ARROW, "utf-8")
    lines = [f'{{"ts":{number},"place":{{"shelf":{number % 3}}},"kinds":["a"]}}' for number in range(50)]
    (tmp_path / "items.jsonl").write_text("\n".join([*lines, "{"]), "utf-8")
    found = profile(capfd, "arrow_items:flow", "--data", str(tmp_path / "items.jsonl"))
    assert (found["records"], found["events"]) == (2, 51), "one record of all events, and the line that is none"
    columns = [(column["name"], column["compiled"]) for column in found["columns"]]
    assert columns == [("ts", True), ("place", True), ("place.shelf", True), ("kinds", False)]


def test_a_topic_of_the_log_is_read_from_its_beginning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with EmbeddedLog(tmp_path / "holon-log") as log:
        log.create_topic("sales", 2)
        lines = ITEMS.read_bytes().splitlines()
        log.append("sales", 0, lines[:400])
        log.append("sales", 1, lines[400:])
    found = profile(capfd, TOP_ITEMS, "--records", "200")
    assert found["records"] == found["events"] == 200
    refused = profile(capfd, TOP_ITEMS, "--topic", "sale", exit_code=2)
    assert "sales" in refused["error"]["message"]


def test_the_account_of_a_run_says_how_many_records_no_loop_has_read(tmp_path: Path) -> None:
    lines = ITEMS.read_bytes().splitlines()
    twice = b'{"ts":1,"ts":%d,"item":"tea","quantity":1}' % json.loads(lines[-1])["ts"]
    with EmbeddedLog(tmp_path / "log") as log:
        log.create_topic("sales", 1)
        log.append("sales", 0, [*lines, *[twice] * 5])
    settings = ("-D", f"log.path={tmp_path / 'log'}", "-D", f"checkpoints.url={tmp_path / 'saved'}")
    with Command(*settings, "run", TOP_ITEMS, "--nodes", "1", "--bounded", "--json") as command:
        result = command.json()
    assert (result["ending"], result["accepted"] + result["late"], result["slow_records"]) == ("done", 605, 5)


def test_a_job_record_by_record_is_told_whether_its_function_is_followed(capfd: pytest.CaptureFixture[str]) -> None:
    found = profile(capfd, "examples.query1:job", "--data", str(ITEMS))
    assert found["process"] == [{"topic": "bids", "by_columns": True, "reason": None}]
    assert [column["name"] for column in found["columns"]] == ["ts"]
    found = profile(capfd, "examples.dedupe:job", "--data", str(ITEMS))
    (way,) = found["process"]
    assert not way["by_columns"] and "'next'" in way["reason"] and found["columns"] == []
    assert any(way["reason"] in line and "process_batch" in line for line in found["advice"])


def test_mistakes_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert "there are no lines" in profile(capfd, TOP_ITEMS, "--data", str(empty), exit_code=1)["error"]["message"]
    both = profile(capfd, TOP_ITEMS, "--data", str(empty), "--topic", "t", exit_code=2)
    assert "exclude each other" in both["error"]["message"]
    poisoned = tmp_path / "poisoned.jsonl"
    poisoned.write_text('{"ts":0,"id":0,"amount":0,"poison":"raise"}\n')
    failed = profile(capfd, "tests.integration.jobs_odd:poisoned", "--data", str(poisoned), exit_code=1)
    assert "offset 0" in failed["error"]["message"]
