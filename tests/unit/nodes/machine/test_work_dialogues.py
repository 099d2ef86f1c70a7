"""Golden dialogues: results, deltas, checkpoints, gaps and what is kept, on partitions that a node owns or follows."""

from __future__ import annotations

from textwrap import dedent

import pytest

from nodes.machine import effects as x
from nodes.machine import messages as m
from nodes.machine.broadcast.reading import MAX_REREADS
from nodes.machine.envelope import seal
from tests.unit.checkpoint_names import named
from tests.unit.node_dialogue import Dialogue, joined, running
from wcrdt.replica.replica import SlotDelta
from wcrdt.replica.slots import TrackDelta


def said(dialogue: Dialogue, text: str) -> None:
    """The dialogue since the last look is exactly this."""
    assert dialogue.take() == dedent(text).strip("\n")


def written(dialogue: Dialogue) -> list[bytes]:
    """Broadcast records in answer to the last event."""
    return [effect.value for effect in dialogue.effects if isinstance(effect, x.WriteBroadcast)]


def follower(name: str = "b", **settings: object) -> Dialogue:
    """A node that is told that ``a`` owns the partition."""
    node = joined(name, others=["a"], **settings)
    node.control(m.Claim(0, "a", 0, 1))
    node.take()
    return node


# --- results and checkpoints ------------------------------------------------------------------------------------------


def test_results_leave_before_the_delta_that_says_that_they_are_made() -> None:
    node = running()
    node.records(0, 1, 0, {"ts": 3}, {"ts": 12})
    said(
        node,
        """
        > input [0] v1 0-2
          write broadcast [0] v1: delta 0-2 at 12 {10: [[0, 1]], 20: [[0, 1]]}, answered before
          write main[0] v1: 10: {"end":10,"count":1}
          write broadcast [0] v1: delta 2-2 at 12 {}, answered 12
        """,
    )


def test_a_checkpoint_waits_until_all_before_it_is_acknowledged() -> None:
    node = running(checkpoint_interval_ms=50)
    node.records(0, 1, 0, {"ts": 3}, {"ts": 12})
    node.take()
    node.tick(60)
    node.tick()
    node.acknowledged(0, 1)
    node.stored()
    said(
        node,
        """
        > time
        > time
        > acknowledged [0] v1
          save [0] v1 at 2, answered 12
        > stored [0] v1
          write control: CheckpointSaved a [0] v1 at 2, answered 12
        """,
    )


def test_acknowledgements_of_an_earlier_claim_do_not_count() -> None:
    node = running(checkpoint_interval_ms=50)
    node.records(0, 1, 0, {"ts": 3})
    node.tick(60)
    node.control(m.Hello(0, "b"), m.Claim(0, "b", 0, 2), m.Claim(0, "a", 0, 3))
    node.run_partition(0, 3)
    node.records(0, 3, 0, {"ts": 3})
    node.tick(60)
    node.take()
    node.acknowledged(0, 1)
    assert "save" not in node.take()
    node.acknowledged(0, 3)
    assert "save [0] v3" in node.take()


def test_input_of_an_earlier_claim_is_not_processed() -> None:
    node = running()
    node.control(m.Hello(0, "b"), m.Claim(0, "b", 0, 2), m.Claim(0, "a", 0, 3))
    node.run_partition(0, 3)
    node.records(0, 1, 0, {"ts": 3})
    assert node.node.work.runners[0].task.next_offset == 0


def test_a_node_goes_on_from_the_newest_intact_checkpoint() -> None:
    first = running(checkpoint_interval_ms=50)
    first.records(0, 1, 0, {"ts": 3}, {"ts": 12})
    first.tick(60)
    first.acknowledged(0, 1)
    (save,) = [effect for effect in first.effects if isinstance(effect, x.SaveCheckpoint)]
    first.stored()
    saved = [m.decode_control(effect.value) for effect in first.effects if isinstance(effect, x.WriteControl)]
    node = Dialogue("b")
    node.control(m.Hello(0, "a"), m.Claim(0, "a", 0, 1), *saved, m.Goodbye(0, "a"), m.Hello(0, "b"))
    node.read_back()
    node.take()
    node.loaded(0, 2, save.data)
    node.tail(0, 2)
    node.records(0, 2, 2, {"ts": 25})
    said(
        node,
        """
        > loaded [0] v2: one
          read tail [0] v2
        > tail [0] v2
          write broadcast [0] v2: full slot 2 at 12 {10: [[0, 1]], 20: [[0, 1]]}, answered 12
        > input [0] v2 2-3
          write broadcast [0] v2: delta 2-3 at 25 {30: [[0, 1]]}, answered 12
          write main[0] v2: 20: {"end":20,"count":1}
          write broadcast [0] v2: delta 3-3 at 25 {}, answered 25
        """,
    )


def test_what_the_last_owner_has_written_is_not_written_again_and_the_next_result_is() -> None:
    node = joined()
    node.read_back()
    node.loaded(0, 1)
    node.tail(0, 1, last=10)
    node.take()
    node.records(0, 1, 0, {"ts": 3}, {"ts": 12}, {"ts": 25})
    said(
        node,
        """
        > input [0] v1 0-3
          write broadcast [0] v1: delta 0-3 at 25 {10: [[0, 1]], 20: [[0, 1]], 30: [[0, 1]]}, answered before
          write main[0] v1: 20: {"end":20,"count":1}
          write broadcast [0] v1: delta 3-3 at 25 {}, answered 25
        """,
    )
    assert node.node.work.suppressed == 1


def test_the_end_of_the_input_answers_every_window_and_ends_the_job() -> None:
    node = running()
    node.records(0, 1, 0, {"ts": 3})
    node.take()
    node.control(m.EndOfInput(0, 0, 1))
    node.acknowledged(0, 1)
    node.stored()
    node.read_back()
    said(
        node,
        """
        > control: EndOfInput [0] at 1
          write broadcast [0] v1: delta 1-1.1 at end {}, answered 3
          write main[0] v1: 10: {"end":10,"count":1}
          write broadcast [0] v1: delta 1.1-1.1 at end {}, answered end
        > acknowledged [0] v1
          save [0] v1 at 1.1, answered end
        > stored [0] v1
          write control: CheckpointSaved a [0] v1 at 1.1, answered end done
        > control: CheckpointSaved a [0] v1 at 1.1, answered end done
          write control: Goodbye a
          leave: done
        """,
    )


# --- gaps -------------------------------------------------------------------------------------------------------------


def test_a_gap_is_filled_from_a_full_slot() -> None:
    owner = running()
    owner.records(0, 1, 0, {"ts": 3})
    owner.records(0, 1, 1, {"ts": 14})
    owner.take()
    node = follower()
    node.broadcast(0, *written(owner))
    node.control()
    owner.control(m.SlotWanted(0, "b", 0, 0))
    node.broadcast(0, *written(owner))
    node.tick(1000)
    node.control()
    said(
        node,
        """
        > broadcast [0]: delta 1-2 at 14 {20: [[0, 1]]}, answered 3; delta 2-2 at 14 {}, answered 14
        > control: nothing new
          write control: SlotWanted b [0] behind 0
        > broadcast [0]: full slot 2 at 14 {10: [[0, 1]], 20: [[0, 1]]}, answered 14
        > time
        > control: nothing new
        """,
    )
    said(
        owner,
        """
        > control: SlotWanted b [0] behind 0
          write broadcast [0] v1: full slot 2 at 14 {10: [[0, 1]], 20: [[0, 1]]}, answered 14
        """,
    )


def test_a_damaged_record_is_asked_for_again_until_the_answer_comes() -> None:
    owner = running()
    owner.records(0, 1, 0, {"ts": 3})
    owner.control(m.SlotWanted(0, "b", 0, 0))
    node = follower(failure_timeout_ms=300)
    node.broadcast(0, b"\x01 not a message")
    node.control()
    node.control()
    node.tick(400)
    node.control()
    node.broadcast(0, *written(owner))
    node.tick(400)
    node.control()
    said(
        node,
        """
        > broadcast [0]: damaged (CRC)
          read broadcast [0] again from 0
        > control: nothing new
          write control: SlotWanted b [0] behind 0
        > control: nothing new
        > time
        > control: nothing new
          write control: SlotWanted b [0] behind 0
        > broadcast [0]: full slot 1 at 3 {10: [[0, 1]]}, answered 3
        > time
        > control: nothing new
        """,
    )


def test_a_checkpoint_beyond_a_slot_shows_that_the_last_delta_was_lost() -> None:
    node = follower(failure_timeout_ms=300)
    node.control(named(m.CheckpointSaved(0, "a", 0, 1, "name", 5, 40, 40)))
    node.tick(400)
    node.control()
    said(
        node,
        """
        > control: CheckpointSaved a [0] v1 at 5, answered 40
        > time
        > control: nothing new
          write control: SlotWanted b [0] behind 0
        """,
    )


def test_a_full_slot_that_does_not_reach_makes_the_node_read_the_broadcast_again() -> None:
    owner = running()
    owner.control(m.SlotWanted(0, "b", 0, 0))
    behind = written(owner)
    owner.records(0, 1, 0, {"ts": 3})
    owner.records(0, 1, 1, {"ts": 14})
    node = follower()
    node.broadcast(0, *written(owner))
    node.control()
    node.take()
    node.broadcast(0, *behind)
    node.broadcast(0, *behind)
    said(
        node,
        """
        > broadcast [0]: full slot 0 at before {}, answered before
          rewind broadcast [0]
        > broadcast [0]: full slot 0 at before {}, answered before
        """,
    )


# --- what is kept -----------------------------------------------------------------------------------------------------


def checkpoint(partition: int, offset: int, ts_ms: int) -> m.CheckpointSaved:
    """One of another node; windows through ``ts_ms`` are answered in it."""
    return named(m.CheckpointSaved(0, "z", partition, 0, "data", offset, ts_ms, ts_ms))


def test_windows_are_dropped_when_three_checkpoints_of_every_partition_have_answered_them() -> None:
    node = running(partitions=1)
    node.records(0, 1, 0, {"ts": 3}, {"ts": 12}, {"ts": 25}, {"ts": 38})
    replica = node.node.replica
    assert replica.open_windows() == 4
    node.control(checkpoint(0, 2, 12), checkpoint(0, 3, 25))
    assert replica.open_windows() == 4
    node.control(checkpoint(0, 4, 38))
    assert replica.dropped_through_ms == 12
    assert replica.open_windows() == 3


def test_a_window_that_an_own_runner_still_reads_is_kept() -> None:
    """Its checkpoints may all be damaged, or others have taken the partition further without its knowing."""
    node = running(partitions=1)
    node.records(0, 1, 0, {"ts": 3})
    node.control(checkpoint(0, 2, 12), checkpoint(0, 3, 25), checkpoint(0, 4, 38))
    assert node.node.replica.dropped_through_ms == 3


def test_a_partition_without_any_checkpoint_left_makes_the_node_read_the_whole_broadcast_again() -> None:
    node = joined(others=["b"])
    node.control(m.Claim(0, "b", 0, 1), checkpoint(0, 2, 12), checkpoint(0, 3, 25), checkpoint(0, 4, 38))
    node.control(m.Claim(0, "a", 0, 2))
    assert node.node.replica.dropped_through_ms == 12
    node.take()
    node.loaded(0, 2)
    said(
        node,
        """
        > loaded [0] v2: none
          rewind broadcast of all
          read tail [0] v2
        """,
    )


def test_a_full_slot_without_windows_that_an_own_runner_reads_is_not_taken() -> None:
    node = joined(partitions=2, others=["b"])
    node.control(m.Claim(0, "a", 0, 1), m.Claim(0, "b", 1, 1))
    node.run_partition(0, 1)
    node.take()
    track = TrackDelta((9, 0), (9, 0), 90, [], full=True)
    full = SlotDelta(1, 0, track, TrackDelta((90, 0), (90, 0), 90, [], full=True), [], dropped_through_ms=50)
    node.broadcast(1, m.encode(m.SlotSent(0, full)))
    assert node.take().splitlines()[-1] == "  rewind broadcast [1]"
    assert node.node.replica.slots[1].record.position == (0, 0)


@pytest.mark.parametrize(("version", "advice"), [(m.FORMAT_VERSION, "--reset"), (m.FORMAT_VERSION + 1, "newer Holon")])
def test_a_node_that_nothing_helps_leaves_and_advises_no_reset_where_a_newer_release_can_read_on(
    version: int, advice: str
) -> None:
    node = joined(partitions=2, others=["b"])
    node.control(m.Claim(0, "a", 0, 1), m.Claim(0, "b", 1, 1))
    node.run_partition(0, 1)
    node.broadcast(1, seal("unknown", 1 << 20, version))
    track = TrackDelta((9, 0), (9, 0), 90, [], full=True)
    full = SlotDelta(1, 0, track, TrackDelta((90, 0), (90, 0), 90, [], full=True), [], dropped_through_ms=50)
    for _ in range(MAX_REREADS + 1):
        assert node.node.left is None
        node.broadcast(1, m.encode(m.SlotSent(0, full)))
    left = node.node.left
    assert left is not None and left.ending is x.Ending.FAILED
    assert advice in left.reason and ("--reset" in left.reason) == (advice == "--reset")


# --- what no checkpoint covers ------------------------------------------------------------------------------------


def test_input_waits_while_too_much_is_in_no_checkpoint_and_goes_on_with_the_next_ones() -> None:
    node = running(max_uncheckpointed_bytes=100)
    work = node.node.work
    read = 0
    while not work.uncheckpointed.over:
        assert work.wanted(), "below the limit it reads"
        read += 1
        node.records(0, 1, read - 1, {"ts": 10 * read})
        node.broadcast(0, *written(node))
        assert read < 50
    assert not work.wanted() and node.node.wanted() == []
    node.tick()  # it is saved although the interval is not over
    node.acknowledged(0, 1)
    node.stored()
    node.read_back()
    assert not work.uncheckpointed.over and work.wanted()


def test_a_history_that_checkpoints_cover_counts_for_nothing() -> None:
    first = running()
    first.records(0, 1, 0, {"ts": 3}, {"ts": 12})
    deltas = written(first)
    node = follower(max_uncheckpointed_bytes=10)
    node.control(named(m.CheckpointSaved(0, "a", 0, 1, "file", 2, 12, 12, 0, False, 0, (2, 0, 0, 0))))
    node.broadcast(0, *deltas)
    assert node.node.work.uncheckpointed.total_bytes == 0


def test_who_takes_over_what_nobody_could_save_may_work_although_too_much_is_uncheckpointed() -> None:
    """Its checkpoint is the one that all wait for."""
    first = running()
    first.records(0, 1, 0, {"ts": 3}, {"ts": 12})
    node = follower(max_uncheckpointed_bytes=10)
    node.broadcast(0, *written(first))
    assert node.node.work.uncheckpointed.over
    node.control(m.Claim(0, "b", 0, 2))
    node.run_partition(0, 2)
    node.tick()
    node.acknowledged(0, 2)
    node.stored()
    node.read_back()
    assert [wanted.offset for wanted in node.node.work.wanted()] == [0]
