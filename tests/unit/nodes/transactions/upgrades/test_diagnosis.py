"""`holon txn doctor` over upgrades: refused are the programs that a node is refused with, and no others."""

from __future__ import annotations

import pytest

from nodes.log.memory import MemoryLog
from nodes.machine.code_check import JobMismatch
from nodes.transactions.diagnosis import Diagnosis, diagnose
from nodes.transactions.job_start import begin
from nodes.transactions.topics import create_topics
from tests.unit.nodes.transactions.upgrades.test_upgrading import PROGRAMS, SEQUENCERS, V1, V2, Stage, at_work
from tests.unit.txn_stage import counters, counters_v2
from transactional.errors import ProgramMissing


def found(stage: Stage, reference: str) -> Diagnosis:
    return diagnose(stage.log, PROGRAMS[reference], reference)


def test_the_version_before_an_upgrade_is_no_other_code() -> None:
    stage = at_work("one")
    assert (found(stage, V1).code, found(stage, V2).code) == ("same", "other")
    assert found(stage, V1).in_force is None
    stage.upgrade()
    before, newest = found(stage, V1), found(stage, V2)
    assert (before.code, before.ok, before.in_force) == ("held", True, V2)
    assert (newest.code, newest.ok) == ("same", True) and not newest.changed
    stage.start("other", V1)
    stage.turn(100)
    assert stage.call("alice", "statement")["cents"] == 10_000


def test_a_program_that_never_held_is_refused_from_the_first_upgrade_on_by_doctor_as_by_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = at_work("one")
    stage.upgrade()
    other = counters_v2("bank", 4, ["account"])
    refused = diagnose(stage.log, other, "mine:other")
    assert not refused.ok and refused.problem is not None and "was never mine:other" in refused.problem
    monkeypatch.setitem(PROGRAMS, "mine:other", other)
    stage.start("other", "mine:other")
    with pytest.raises(ProgramMissing) as error:
        stage.turn(5)
    assert refused.problem == str(error.value)


def test_a_program_with_further_operators_is_told_of_the_upgrade() -> None:
    log, program = MemoryLog(), counters("shop", 2)
    topics = create_topics(log, program, SEQUENCERS)
    begin(log, topics, program, SEQUENCERS)
    for more, advice in (("count", "holon txn upgrade adds operators"), ("other", "another name to start anew")):
        names = [more, "late"]
        with pytest.raises(JobMismatch, match=advice):
            begin(log, topics, counters("shop", 2, names), SEQUENCERS)
    problem = diagnose(log, counters("shop", 2, ["count", "late"]), "mine:late").problem
    assert problem is not None and "holon txn upgrade adds operators" in problem
