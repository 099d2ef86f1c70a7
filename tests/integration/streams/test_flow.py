"""A flow on node processes of which one is killed: the results are those of plain Python, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holon.tracks.admission import AdmissionCounts
from nodes.fleet.account import count_dead_rows
from nodes.machine.config import JobRun
from nodes.results.dead_letters import dead_letters
from tests.integration.fleet_support import Command, Stage
from tests.integration.jobs_flow import LATE_ROWS, TOPS, expected, expected_dead, expected_late, expected_visits
from tests.integration.jobs_mixed import OUTPUT, Event
from tests.integration.kafka_stage import STAGES
from tests.shares import share_of

DEAD_FLOW = "tests.integration.jobs_flow:dead_flow"
LATE_FLOW = "tests.integration.jobs_flow:late_flow"
FLOW = "tests.integration.jobs_flow:flow"
VISIT_FLOWS = ("tests.integration.jobs_flow:visit_flow", "tests.integration.jobs_flow:sharded_visit_flow")


@pytest.fixture(params=share_of(STAGES, 2, __name__))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    made = STAGES[request.param](tmp_path)
    yield made
    made.log.close()


def survives(stage: Stage, flow: str, *, late: int = 0, more: int = 0) -> tuple[JobRun, AdmissionCounts]:
    """Run the flow while node 0 of two is killed, with ``late`` events fed before that and ``more`` behind it."""
    run = stage.open(flow)
    with stage.fleet(2, flow, crashpoints={0: "before-checkpoint:2"}) as fleet:
        monitor = stage.monitor(run)
        for id in range(late):
            stage.put(id % stage.partitions, msgspec.json.encode(Event(20 * id, 10_000 + id, id)))
        stage.until(monitor, lambda: fleet.members[0].process.poll() is not None, "node 0 dies", fleet)
        assert fleet.members[0].process.returncode == -9
        stage.feed(more)
        return run, stage.finish(run, fleet).counts()


def test_a_flow_is_exact_though_a_node_is_killed(stage: Stage) -> None:
    stage.feed(3_000)
    survives(stage, FLOW, more=1_000)
    doubled, tops = expected(stage.events)
    assert (stage.results(OUTPUT), stage.results(TOPS)) == (doubled, tops)


@pytest.mark.long
@pytest.mark.parametrize("flow", VISIT_FLOWS)
def test_sessions_are_exact_though_a_node_is_killed(stage: Stage, flow: str) -> None:
    stage.feed(3_000)
    survives(stage, flow, more=1_000)
    visits, seconds = expected_visits(stage.events, 200)
    assert len(visits) > 100
    assert (stage.results(OUTPUT), stage.results(TOPS)) == (visits, seconds)


@pytest.mark.long
def test_late_rows_of_a_step_are_exact_though_a_node_is_killed(stage: Stage) -> None:
    stage.feed(2_000)
    _, counts = survives(stage, LATE_FLOW, late=300, more=1_000)
    seconds, late, hundreds = expected_late(stage.events)
    assert len(late) > 200
    assert (stage.results(OUTPUT), stage.results(LATE_ROWS), stage.results(TOPS)) == (seconds, late, hundreds)
    assert counts == AdmissionCounts(stage.fed, late_inserts=len(late), late_by_state={"agg2": len(late)})


@pytest.mark.long
def test_rows_behind_windows_at_which_a_function_fails_are_letters_that_dlq_shows(stage: Stage) -> None:
    stage.feed(2_000)
    run, counts = survives(stage, DEAD_FLOW)
    lines, ends = expected_dead(stage.events)
    assert (stage.results(OUTPUT), counts) == (lines, AdmissionCounts(stage.fed))
    letters = list(dead_letters(stage.log, run.job))
    assert Counter(letter.window[1] for letter in letters if letter.window) == ends
    assert {(letter.row_key, letter.step.split(",")[0]) for letter in letters} == {(3, "step 3 (map")}
    assert count_dead_rows(stage.log, run.job) == len(letters) == sum(ends.values())


@pytest.mark.long
def test_dlq_lists_rows_and_says_why_it_replays_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.feed(500)
    places = "--log-dir", str(stage.path)
    stage.log.close()
    with Command("run", DEAD_FLOW, "--nodes", "1", "--bounded", *places, "--json") as command:
        account = command.json()
    with Command("dlq", "list", DEAD_FLOW, *places, "--json") as command:
        letters = command.json()["letters"]
    assert account["dead_rows"] == len(letters) > 0 == account["dead"]
    first = letters[0]
    place = f"{first['partition']}:@{first['window'][1]}.{first['number']}"
    with Command("dlq", "show", DEAD_FLOW, place, *places, "--json") as command:
        assert command.json()["row_key"] == 3
    with Command("dlq", "replay", DEAD_FLOW, place, *places, "--json") as command:
        assert "no record of in" in command.json(exit_code=1)["error"]["message"]
    with Command("dlq", "replay", DEAD_FLOW, "--all", *places, "--json") as command:
        assert command.json() == {"job": "dead-rows", "topic": "in", "appended": {}, "rows_left": len(letters)}


def test_explain_shows_the_steps_of_a_flow_and_refuses_a_job(tmp_path: Path) -> None:
    picture = tmp_path / "flow.svg"
    with Command("explain", FLOW, "--svg", str(picture), "--json") as command:
        shown = command.json()
    assert picture.read_text().count("<title>") == len(shown["steps"])
    assert shown["flow"] == "flowing"
    verbs = ["source", "filter", "reject", "map", "sink", "agg", "top", "sink"]
    assert [step["verb"] for step in shown["steps"]] == verbs
    assert [step["how"] for step in shown["steps"]] == ["", *["columns"] * 3, "", *["columns"] * 2, ""]
    assert [step["keys"] for step in shown["steps"] if step["keys"]] == [
        "all-to-all: its key_by is without sharded=True"
    ]
    with Command("explain", "examples.top_items:job", "--json") as command:
        assert "a Job, which has no steps" in command.json(exit_code=2)["error"]["message"]
