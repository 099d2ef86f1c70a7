"""Functions that run too long: ended by a record on the log, alike on all nodes, and never run again."""

from __future__ import annotations

import sys

import pytest

from tests.unit.txn_hanging import HANGS, it, program
from tests.unit.txn_stage import Stage
from transactional import Aborted
from transactional.contributing import contribution_of
from transactional.errors import RerunHangs
from transactional.execution import Execution
from transactional.interrupting import step_of
from transactional.ledger import decide
from transactional.messages import Contribution, Kind, Request, Shipment
from transactional.rerun import rerun
from transactional.site import Site
from transactional.store import Store


@pytest.mark.parametrize("stubborn", [False, True])
@pytest.mark.parametrize("others", [["b"], ["b", "c"], ["c", "b", "a"], ["a"]], ids="".join)
def test_what_hangs_is_answered_by_name_and_has_no_effect_on_any_node(others: list[str], stubborn: bool) -> None:
    stage = Stage(program)
    stage.start("one")
    stage.start("other")
    ids = [stage.client.send("it", key, "add", [1]) for key in "abc"]
    ids += [stage.client.send("it", "a", "start", [others, stubborn])]
    ids += [stage.client.send("it", key, "add", [1]) for key in "abc"]
    for _ in range(1_000):
        stage.turn()
        stage.client.poll()
        if all(name in stage.client.answered for name in ids):
            break
    outcomes = [stage.client.take(name) for name in ids]
    assert outcomes[3] == HANGS
    assert sorted(map(str, outcomes[:3] + outcomes[4:])) == ["1", "1", "1", "2", "2", "2"]
    stage.start("later")  # takes over some of it, from the log
    stage.turn(200)
    del stage.nodes["one"]
    assert [stage.call("it", key, "add", [0]) for key in "abc"] == [2, 2, 2]


def test_a_time_out_outranks_conflicts_races_and_exceptions() -> None:
    other = Aborted("ValueError")
    parts: list[Contribution | None] = [
        Contribution([1, 2], [1], [1], [(1, (), other)]),
        Contribution([], [], [], [], [(1, HANGS)]),
    ]
    decision = decide(program, parts)
    assert decision.rerun == (2,) and decision.failed == {1: HANGS}


def test_how_far_it_came_shows_in_no_record() -> None:
    site = Site(program, Store(), it.partition_of("a"))
    execution = Execution(site, 7, 0)
    execution.start(program.target("it", "a", "hang"))
    assert site.sent == {}
    assert contribution_of([execution], [], 100) == Contribution([], [], [], [], [(7, HANGS)])


def test_what_hangs_when_it_is_run_again_stops_the_node_by_name() -> None:
    target = program.target("it", "a", "hang_if", [0])
    request = Request(Kind.RUN, "r1", "it", "a", "hang_if", target.arguments, 0, 0, 0)
    shipment = Shipment(it.partition_of("a"), 1, [(7, 0, request)], [("it", "a", None)], [])
    with pytest.raises(RerunHangs, match=r"hang_if of operator it .*request 'r1', it.hang_if of key 'a'"):
        rerun(program, [shipment], {})


def test_outside_of_a_function_there_is_nothing_to_interrupt() -> None:
    assert step_of(sys._getframe()) is None
