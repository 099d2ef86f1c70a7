"""Cases of `holon bench`: conventions of names, records, and errors."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from deploy.bench.ordinary import sensors
from holon.testing import JobTestDriver
from nexmark.compare.cases import BY_FLOW, BY_RECORD, ComparedJob, cases_of, chosen, records
from nexmark.compare.jobs import copy_of, reference_of, topic_of
from nexmark.compare.rows import differences
from nexmark.compare.run import ComparePlan
from nexmark.flink.sql import TableTopics, filled_statements
from nodes.api import RunFailed, SettingsError, UnknownName, load_job

ORDINARY = "deploy.bench.ordinary"
CASES = cases_of(ORDINARY)


def peer_of(case: ComparedJob) -> Any:
    spec = importlib.util.spec_from_file_location(f"peer_{case.name}", case.code("bytewax"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of_holon(case: ComparedJob, engine: str, lines: list[bytes]) -> list[bytes]:
    driver = JobTestDriver(load_job(case.job(engine)), partitions=2)
    for partition in range(2):
        driver.feed(partition, *lines[partition::2])
    driver.finish()
    return [value for _, _, value in driver.raw_outputs()]


def rows_of_peer(case: ComparedJob, lines: list[bytes]) -> list[bytes]:
    peer = peer_of(case)
    parts: list[dict[Any, Any]] = [{}, {}]
    for number, part in enumerate(parts):
        peer.folded(lines[number::2], part)
    both = parts[0]
    for key, state in parts[1].items():
        both[key] = peer.merged(both[key], state) if key in both else state
    return [json.dumps(peer.row(start, key, state)).encode() for (start, key), state in both.items()]


def test_the_package_has_twelve_cases_each_with_the_code_of_its_peers_beside_its_module() -> None:
    assert len(CASES) == 12
    for case in CASES:
        assert case.job(BY_RECORD) == f"{ORDINARY}.{case.name}:by_record"
        assert case.job(BY_FLOW) == f"{ORDINARY}.{case.name}:flow"
        assert {case.code(peer).stem for peer in ("flink", "bytewax", "quix")} == {case.name}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_jobs_of_a_case_and_the_loop_of_its_peers_give_the_same_rows(case: ComparedJob) -> None:
    lines = list(records(case, None, 2000, seed=5))
    rows = rows_of_holon(case, "holon", lines)
    assert rows
    assert differences(rows, rows_of_holon(case, BY_RECORD, lines)) == []
    assert differences(rows, rows_of_peer(case, lines)) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_records_are_those_of_the_seed(case: ComparedJob) -> None:
    assert list(records(case, None, 50, 1)) == list(records(case, None, 50, 1)) != list(records(case, None, 50, 2))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_statements_of_flink_are_filled_in_and_the_last_one_inserts(case: ComparedJob) -> None:
    place = TableTopics("host:1", "in", "out")
    found = filled_statements(case.code("flink").read_text(encoding="utf-8"), place)
    assert found[-1].startswith("INSERT INTO results")
    assert not any("${" in statement for statement in found)


def test_a_job_of_a_user_needs_records_and_the_code_of_each_peer(tmp_path: Path) -> None:
    [case] = cases_of("examples.top_items:job")
    with pytest.raises(SettingsError, match="--data"):
        list(records(case, None, None, 0))
    with pytest.raises(RunFailed, match=r"expected .*examples/flink/top_items\.sql"):
        case.code("flink")
    with pytest.raises(RunFailed, match="no job by_record"):
        case.job(BY_RECORD)
    assert case.job(BY_FLOW) == "examples.top_items:flow"
    with pytest.raises(RunFailed, match="no flow flow"):
        dataclasses.replace(case, beside={}).job(BY_FLOW)
    data = tmp_path / "data.jsonl"
    data.write_bytes(b'{"a":1}\n\n{"a":2}\r\n{"a":3}\n')
    assert list(records(case, data, 2, 0)) == [b'{"a":1}', b'{"a":2}']
    with pytest.raises(RunFailed, match="No such file"):
        list(records(case, tmp_path / "none", None, 0))


def test_what_is_unknown_is_named() -> None:
    with pytest.raises(UnknownName, match="nosuch"):
        cases_of("deploy.nosuch")
    with pytest.raises(UnknownName, match="package whose modules"):
        cases_of("deploy.bench.lattices")
    with pytest.raises(UnknownName, match="sensors"):
        chosen(CASES, ["sensor"])
    with pytest.raises(UnknownName, match="bytewax"):
        ComparePlan(engines=("bytewex",))
    with pytest.raises(UnknownName, match="compression"):
        ComparePlan(compression="rar")
    with pytest.raises(SettingsError, match="--pairs"):
        ComparePlan(pairs=0)


def test_a_copy_of_a_job_has_names_of_its_own_and_is_found_by_its_reference() -> None:
    reference = f"{ORDINARY}.sensors:job"
    copy = copy_of(sensors.job, topic_of(reference), 7)
    assert (copy.name, copy.output, copy.source.topic) == ("sensors-bench-7", "sensors-bench-7", "data-sensors")
    assert load_job(reference_of(reference, 7)) == copy


def test_a_job_without_output_cannot_be_compared() -> None:
    with pytest.raises(RunFailed, match="no output"):
        copy_of(dataclasses.replace(sensors.job, output=None), "data", 1)
