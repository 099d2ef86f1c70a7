"""Functions that run too long: ended by a record on the log, alike on all nodes, and never run again."""

from __future__ import annotations

import sys

import msgspec
import pytest

from tests.unit.txn_hanging import HANGS, interrupt, it, program
from tests.unit.txn_stage import Stage
from transactional import Aborted, Context, Operator, Program
from transactional.conflicts.contributing import contribution_of
from transactional.conflicts.detection import Revalidation, Share
from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.epochs.appends import AppendEpochs
from transactional.epochs.ledger import decide
from transactional.epochs.messages import (
    Commit,
    Contribution,
    Kind,
    ReadSetSnapshot,
    Request,
    TimeoutAcknowledgement,
    TimeoutProposal,
    WireCall,
)
from transactional.errors import RerunHangs
from transactional.events import EpochsRead, PartitionTaken, RequestsRead, SequencerTaken
from transactional.execution.execution import Execution
from transactional.execution.hanging import Hung, TimeoutProposals
from transactional.execution.interrupting import step_of
from transactional.execution.rerun import Rerun, rerun
from transactional.execution.site import Site
from transactional.node import TransactionNode
from transactional.requests.requests import WireRequest, request_record
from transactional.state.store import Store
from transactional.state.values import encode


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
    key = next(key for key in "abdef" if it.partition_of(key) != it.partition_of("c"))
    here, there = it.partition_of(key), it.partition_of("c")
    for stubborn in (False, True):
        site = Site(program, Store(), here)
        execution = Execution(site, 7, 0)
        arguments = program.target("it", key, "hang", [stubborn]).arguments
        execution.take(WireCall(7, 0, (), (1,), "it", key, "hang", arguments, there))
        assert site.sent == {}, "neither its call of c, nor a result"
        assert contribution_of({7: execution}, Revalidation(), Share(0, 0)) == Contribution(
            [], [], [], [], [(7, HANGS)]
        )


def test_who_alone_finds_that_it_hangs_stops() -> None:
    """Another owner's barrier, by which it has ended in time, is first on the log."""
    mild = Program("hanging", [Operator("it", partitions=1)])

    @mild.operators["it"].register
    async def slow(ctx: Context, hangs: list[bool] = [False]) -> str:  # noqa: B006  (not a function of its input)
        if hangs[0]:
            interrupt()
        hangs[0] = True
        return "out"

    one, other = TransactionNode(mild, 1), TransactionNode(mild, 1)
    for node in (one, other):
        node.step(SequencerTaken(0), 0)
        node.step(PartitionTaken(0), 0)
    record = request_record(WireRequest("r1", "it", "a", "slow", []))
    (cut,) = (each.value for each in one.step(RequestsRead(0, [0], [record], 1), 0))
    made = [each for node in (one, other) for each in node.step(EpochsRead([cut], 1), 0)]
    barriers = [each.value for each in made if isinstance(each, AppendEpochs)]
    assert len(barriers) == 2 and barriers[0] != barriers[1]
    assert one.ledger.done == 1 and other.ledger.done == 0, "who gave up waits for the log: it may be alone with that"
    with pytest.raises(Nondeterministic, match=r"TimedOut.*raise node.function_timeout_ms"):
        other.step(EpochsRead([barriers[0]], 2), 0)


def test_what_hangs_when_it_is_run_again_is_left_out_and_answered_by_name() -> None:
    target = program.target("it", "a", "hang_if", [0])
    request = Request(Kind.RUN, "r1", "it", "a", "hang_if", target.arguments, 0, 0, 0)
    added = Request(Kind.RUN, "r2", "it", "a", "add", program.target("it", "a", "add", [5]).arguments, 0, 1, 0)
    home = it.partition_of("a")
    read_set = ReadSetSnapshot(home, 1, [(7, 0, request), (9, 0, added)], [("it", "a", None)], [])
    failure = Aborted("TimedOut", ("function hang_if of operator it ran longer than node.function_timeout_ms",))
    assert rerun(program, [read_set], {}, {}) == Hung(7, request, failure)
    done = rerun(program, [read_set], {}, {7: failure})
    assert isinstance(done, Rerun)
    assert done.outcomes == [(7, request, failure), (9, added, encode(5))]
    assert done.writes_at == {home: {("it", "a"): encode(5)}}


def test_who_has_ended_the_epoch_stops_when_it_hears_that_a_rerun_hangs() -> None:
    hanging, said = TimeoutProposals(3), TimeoutProposal(7, 4, HANGS)
    with pytest.raises(Nondeterministic, match=r"transaction 7 when it was run again on another node.*raise"):
        hanging.take(said, done=4)
    hanging.take(said, done=3)
    hanging.take(said, done=4)  # of another node that has found the same, later
    assert hanging.of(4) == {7: HANGS} and TimeoutProposals(3, hanging.records()).of(4) == {7: HANGS}


def test_what_is_said_after_a_later_epoch_has_begun_is_void_and_stops_who_said_it() -> None:
    request = Request(Kind.RUN, "r1", "it", "a", "hang_if", b"", 0, 0, 0)
    one, other = TimeoutProposals(3), TimeoutProposals(3)
    one.found(4, Hung(7, request, HANGS))
    (said,) = one.take_unpublished()
    assert one.holds_back(4, 3) and not other.holds_back(4, 3)
    for each in (one, other):
        assert each.close(4)
    other.take(said, done=3)
    assert other.of(4) == {}
    with pytest.raises(RerunHangs, match=r"request 'r1', it.hang_if of key 'a'"):
        one.take(said, done=3)


def test_an_epoch_waits_until_all_partitions_do_without_what_hangs() -> None:
    hanging = TimeoutProposals(3)
    for tid in (7, 8):
        hanging.take(TimeoutProposal(tid, 4, HANGS), done=3)
    hanging.acknowledge(TimeoutAcknowledgement(0, 4, 2))
    hanging.acknowledge(TimeoutAcknowledgement(1, 4, 1))
    assert hanging.holds_back(4, 2)
    hanging.acknowledge(TimeoutAcknowledgement(1, 4, 2))
    hanging.acknowledge(TimeoutAcknowledgement(1, 4, 1))  # of another owner, late
    assert not hanging.holds_back(4, 2)
    assert not TimeoutProposals(3, hanging.records()).holds_back(4, 2)


def test_a_commit_of_one_who_has_not_left_it_out_stops_who_finds_it() -> None:
    hanging, made = TimeoutProposals(3), Commit(0, 4, 1, [], [], [])
    hanging.check(made, 4)
    hanging.take(TimeoutProposal(7, 4, HANGS), done=3)
    for without, done in (([], 3), ([], 4), ([7, 8], 4)):
        with pytest.raises(Nondeterministic, match="state partition 0, epoch 4"):
            hanging.check(msgspec.structs.replace(made, without=without), done)
    hanging.check(msgspec.structs.replace(made, without=[7]), 4)
    hanging.check(msgspec.structs.replace(made, without=[7, 8]), 3)  # more will be read


def test_where_no_function_runs_there_is_nothing_to_interrupt() -> None:
    assert step_of(sys._getframe()) is None
