"""The fold over the control topic: the rules of docs/design/control.md, one test for each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.durable import KEPT_CHECKPOINTS
from nodes.machine.ownership.ownership import NO_INCARNATION, Ownership
from tests.unit.checkpoint_names import named
from wcrdt.replica.slots import WINDOW_START
from wcrdt.windows.assigners import BEFORE_TIME_MS

JOB = m.JobStarted(0, "fingerprint", 3)


def folded(*messages: m.ControlMessage) -> Ownership:
    state = Ownership(3)
    for message in (JOB, *messages):
        state.apply(message)
    return state


def saved(offset: int, answered_ms: int = 0, **changes: Any) -> m.CheckpointSaved:
    made = m.CheckpointSaved(0, "a", 0, 1, f"at-{offset}-{answered_ms}", offset, 1_000 + offset, answered_ms)
    return named(msgspec.structs.replace(made, **changes))


def claims(*owners: str, version: int = 1) -> list[m.ControlMessage]:
    return [m.Claim(0, owner, partition, version) for partition, owner in enumerate(owners)]


# --- the job and its incarnations ----------------------------------------------------------------------------------


def test_the_first_start_of_an_incarnation_wins() -> None:
    state = Ownership(5)
    assert (state.incarnation, state.partitions) == (NO_INCARNATION, 5)
    assert state.apply(m.JobStarted(0, "first", 3)) == [f.JobBegan(0, "first", 3)]
    assert state.apply(m.JobStarted(0, "second", 4)) == []
    assert (state.fingerprint, state.partitions) == ("first", 3)


def test_nothing_counts_before_a_job_has_started() -> None:
    state = Ownership(3)
    assert state.apply(m.Hello(0, "a", 0)) == []
    assert dict(state.members) == {}


def test_a_higher_incarnation_makes_everything_before_it_void() -> None:
    state = folded(m.Hello(0, "a", 0), *claims("a", "a"), saved(10), m.EndOfInput(0, 1, 9), m.Command(0, "stop"))
    assert state.apply(m.JobStarted(2, "new", 2)) == [f.JobSuperseded(2), f.JobBegan(2, "new", 2)]
    fresh = Ownership(3)
    fresh.apply(m.JobStarted(2, "new", 2))
    assert state.digest() == fresh.digest()
    assert state.apply(m.JobStarted(1, "between", 2)) == []


def test_messages_of_another_incarnation_have_no_effect() -> None:
    state = folded()
    state.apply(m.JobStarted(1, "new", 3))
    before = state.digest()
    for incarnation in (0, 2):
        assert state.apply(m.Hello(incarnation, "zombie", 0)) == []
        assert state.apply(m.Claim(incarnation, "zombie", 0, 1)) == []
        assert state.apply(m.Command(incarnation, "stop")) == []
    assert state.digest() == before


def test_a_partition_that_the_job_does_not_have_is_passed_over() -> None:
    state = folded(m.Hello(0, "a", 0))
    before = state.digest()
    for message in (
        m.Claim(0, "a", 3, 1),
        m.Release(0, "a", 3, 1),
        saved(1, partition=3),
        m.SlotWanted(0, "a", 3, 0),
        m.EndOfInput(0, 3, 1),
        m.Failed(0, "a", 3, 0, "c0de", "error"),
    ):
        assert state.apply(message) == []
    assert state.digest() == before


# --- members -------------------------------------------------------------------------------------------------------


def test_members_are_known_from_hello_to_goodbye() -> None:
    state = folded()
    assert state.apply(m.Hello(0, "a", 7)) == [f.NodeJoined("a", 7)]
    assert dict(state.members) == {"a": 7}
    assert state.apply(m.Goodbye(0, "a")) == [f.NodeLeft("a")]
    assert state.apply(m.Goodbye(0, "a")) == []
    assert dict(state.members) == {}


def test_heartbeats_are_no_part_of_the_state() -> None:
    state = folded(m.Hello(0, "a", 0))
    before = state.digest()
    assert state.apply(m.Heartbeat(0, "a", 5, {0: 100})) == []
    assert state.apply(m.Heartbeat(0, "stranger", 5)) == []
    assert state.digest() == before


def test_a_goodbye_releases_all_partitions_and_keeps_their_versions() -> None:
    state = folded(m.Hello(0, "a", 0), m.Hello(0, "b", 1), *claims("a", "b", "a"))
    made = state.apply(m.Goodbye(0, "a"))
    assert made == [f.NodeLeft("a"), f.PartitionReleased(0, None, "a", 1), f.PartitionReleased(2, None, "a", 1)]
    assert state.owners() == {0: None, 1: "b", 2: None}
    assert [state.version(p) for p in range(3)] == [1, 1, 1]


def test_a_second_hello_begins_a_new_incarnation_that_owns_nothing() -> None:
    state = folded(m.Hello(0, "a", 0), *claims("a"))
    made = state.apply(m.Hello(0, "a", 0))
    assert made == [f.NodeLeft("a"), f.PartitionReleased(0, None, "a", 1), f.NodeJoined("a", 0)]
    assert state.owned_by("a") == []


# --- claims and releases -------------------------------------------------------------------------------------------


def test_the_first_of_two_claims_of_a_version_wins() -> None:
    state = folded(m.Hello(0, "a", 0), m.Hello(0, "b", 1))
    assert state.apply(m.Claim(0, "b", 0, 1)) == [f.PartitionClaimed(0, "b", 1, None)]
    assert state.apply(m.Claim(0, "a", 0, 1)) == [f.ClaimLost(0, "a", 1, "b")]
    assert (state.owner(0), state.version(0)) == ("b", 1)


def test_a_partition_is_stolen_with_the_next_version() -> None:
    state = folded(m.Hello(0, "a", 0), m.Hello(0, "b", 1), *claims("a"))
    assert state.apply(m.Claim(0, "b", 0, 2)) == [f.PartitionClaimed(0, "b", 2, "a")]
    assert (state.owner(0), state.version(0)) == ("b", 2)


@pytest.mark.parametrize("version", [1, 2, 4, 5])
def test_only_the_next_version_is_valid(version: int) -> None:
    state = folded(m.Hello(0, "a", 0), *claims("a"), *claims("b", version=2))
    assert state.apply(m.Claim(0, "c", 0, version)) == [f.ClaimLost(0, "c", version, "b")]
    assert (state.owner(0), state.version(0)) == ("b", 2)
    assert "c" not in state.members


def test_a_valid_claim_of_a_node_that_was_declared_gone_makes_it_a_member_again() -> None:
    state = folded(m.Hello(0, "a", 0), m.Goodbye(0, "a"))
    assert state.apply(m.Claim(0, "a", 0, 1)) == [f.NodeJoined("a", -1), f.PartitionClaimed(0, "a", 1, None)]
    assert dict(state.members) == {"a": -1}


def test_a_release_frees_the_partition_and_names_the_successor_until_the_next_claim() -> None:
    state = folded(m.Hello(0, "a", 0), *claims("a"))
    assert state.apply(m.Release(0, "a", 0, 1, "b")) == [f.PartitionReleased(0, "b", "a", 1)]
    assert (state.owner(0), state.version(0), state.released_to(0)) == (None, 1, "b")
    assert state.apply(m.Claim(0, "a", 0, 1)) == [f.ClaimLost(0, "a", 1, None)]
    state.apply(m.Claim(0, "b", 0, 2))
    assert (state.owner(0), state.version(0), state.released_to(0)) == ("b", 2, None)


@pytest.mark.parametrize("release", [m.Release(0, "a", 0, 1, "c"), m.Release(0, "a", 0, 2), m.Release(0, "b", 0, 1)])
def test_only_the_owner_can_release_and_only_with_the_current_version(release: m.Release) -> None:
    state = folded(m.Hello(0, "a", 0), *claims("a"), *claims("b", version=2))
    assert state.apply(release) == []
    assert (state.owner(0), state.version(0), state.released_to(0)) == ("b", 2, None)


# --- checkpoints ---------------------------------------------------------------------------------------------------


def test_the_newest_checkpoints_are_kept_newest_first() -> None:
    state = folded(*claims("a"), *(saved(offset) for offset in (10, 20, 30, 40)))
    assert [c.offset for c in state.checkpoints(0)] == [40, 30, 20]
    assert len(state.checkpoints(0)) == KEPT_CHECKPOINTS
    assert state.checkpoint(0) == saved(40)
    assert (state.checkpoints(1), state.checkpoint(1)) == ((), None)


def test_a_zombies_checkpoint_counts_if_it_is_ahead() -> None:
    state = folded(*claims("a"), *claims("b", version=2), saved(10, node="b", version=2))
    ahead = saved(20, node="a", version=1)
    assert state.apply(ahead) == [f.CheckpointRecorded(ahead)]
    assert state.checkpoint(0) == ahead


LATEST = saved(20, 5, step=1, answered_stage=1, done=True)


@pytest.mark.parametrize(
    "behind",
    [{"offset": 19, "step": 2}, {"step": 0}, {"answered_ms": 4, "answered_stage": 2}, {"answered_stage": 0},
     {"watermark_ms": 1_019}, {"done": False}],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_that_is_behind_in_anything_is_not_recorded(behind: dict[str, Any]) -> None:
    state = folded(*claims("a"), LATEST)
    assert state.apply(named(msgspec.structs.replace(LATEST, name="another", **behind))) == []
    assert state.checkpoint(0) == LATEST


def test_the_same_checkpoint_recorded_twice_does_not_push_out_what_to_fall_back_to() -> None:
    state = folded(*claims("a"), saved(10), saved(20))
    assert state.apply(saved(20, node="b")) == []
    assert [c.offset for c in state.checkpoints(0)] == [20, 10]


def test_an_intact_copy_at_the_same_position_is_recorded() -> None:
    state = folded(*claims("a"), saved(10))
    copy = saved(10, name="another file")
    assert state.apply(copy) == [f.CheckpointRecorded(copy)]


def test_durable_is_what_every_partition_has_answered() -> None:
    state = folded(*claims("a", "a", "a"), saved(10, 50), saved(10, 40, partition=1))
    assert (state.durable_answered(), state.durable_watermark()) == (WINDOW_START, BEFORE_TIME_MS)
    state.apply(saved(9, 70, partition=2, answered_stage=2))
    assert (state.durable_answered(), state.durable_watermark()) == ((40, 0), 1_009)
    state.apply(saved(20, 80, partition=1))
    assert (state.durable_answered(), state.durable_watermark()) == ((50, 0), 1_009)


def test_durable_at_depth_two_looks_at_the_checkpoints_to_fall_back_to() -> None:
    state = folded(*(saved(10, 50, partition=p) for p in range(3)))
    assert state.durable_answered(2) == WINDOW_START
    for partition in range(3):
        state.apply(saved(20, 60, partition=partition))
    assert (state.durable_answered(2), state.durable_answered()) == ((50, 0), (60, 0))
    with pytest.raises(AssertionError, match="depth 4"):
        state.durable_answered(4)


def test_all_is_done_when_the_newest_checkpoint_of_every_partition_says_so() -> None:
    state = folded(saved(10, done=True), saved(10, partition=1, done=True), saved(10, partition=2))
    assert not state.all_done()
    state.apply(saved(10, partition=2, name="done", done=True))
    assert state.all_done()
    assert not Ownership(1).all_done()


# --- ends, gaps, failures, stop ------------------------------------------------------------------------------------


def test_the_first_end_of_a_partition_wins() -> None:
    state = folded()
    assert state.end_offset(0) is None
    assert state.apply(m.EndOfInput(0, 0, 0)) == [f.EndDeclared(0, 0)]
    assert state.apply(m.EndOfInput(0, 0, 200)) == []
    assert (state.end_offset(0), state.end_offset(1)) == (0, None)


def test_a_wanted_slot_is_a_fact_that_leaves_no_state() -> None:
    state = folded()
    before = state.digest()
    assert state.apply(m.SlotWanted(0, "b", 2, 17, 1)) == [f.SlotRequested(2, "b", (17, 1))]
    assert state.digest() == before


def test_the_first_failure_of_each_code_is_kept() -> None:
    state = folded(m.Hello(0, "a", 0), *claims("a"))
    first = m.Failed(0, "a", 0, 42, "c0de", "ValueError")
    assert state.apply(first) == [f.JobFailed(first)]
    assert state.apply(m.Failed(0, "b", 0, 42, "c0de", "again")) == []
    repaired = m.Failed(0, "a", 0, 50, "c0de2", "TypeError")
    assert state.apply(repaired) == [f.JobFailed(repaired)]
    assert state.failure(0, "c0de") == first
    assert state.failure(0, "c0de3") is None
    assert state.failure(1, "c0de") is None
    assert (state.failures("c0de"), state.failures("c0de2"), state.failures("c0de3")) == ([first], [repaired], [])


def test_a_stop_is_meant_for_the_members_of_that_moment() -> None:
    state = folded(m.Hello(0, "b", 1), m.Hello(0, "a", 0))
    assert state.apply(m.Command(0, "stop")) == [f.FleetStopRequested(("a", "b"))]
    state.apply(m.Hello(0, "c", 2))
    assert [state.is_stopping(node) for node in "abc"] == [True, True, False]
    state.apply(m.Goodbye(0, "a"))
    assert state.stop_requested
    state.apply(m.Hello(0, "b", 1))  # the job is resumed under the same names
    assert not state.stop_requested
    assert not state.is_stopping("b")


def test_an_unknown_command_and_a_stop_of_nobody_do_nothing() -> None:
    state = folded()
    assert state.apply(m.Command(0, "stop")) == []
    state.apply(m.Hello(0, "a", 0))
    assert state.apply(m.Command(0, "dance")) == []
    assert not state.stop_requested
