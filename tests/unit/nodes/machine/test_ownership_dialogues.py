"""Golden dialogues: how a node joins, claims, steals, hands over and leaves."""

from __future__ import annotations

import zlib
from textwrap import dedent

import msgspec
import pytest

from nodes.machine import effects as x
from nodes.machine import messages as m
from nodes.machine.events import ControlRead, StopRequested
from nodes.machine.ownership.commands import CODE
from tests.unit.node_dialogue import Dialogue, count_job, joined, running


def said(dialogue: Dialogue, text: str) -> None:
    """The dialogue since the last look is exactly this."""
    assert dialogue.take() == dedent(text).strip("\n")


def test_join_claim_load_run() -> None:
    node = Dialogue()
    node.read_back()
    node.read_back()
    node.loaded(0, 1)
    node.tail(0, 1)
    said(
        node,
        """
        > control: JobStarted
          write control: Hello a
        > control: Hello a
          write control: Claim a [0] v1
        > control: Claim a [0] v1
          load [0] v1 []
        > loaded [0] v1: none
          read tail [0] v1
        > tail [0] v1
          write broadcast [0] v1: full slot 0 at before {}, answered before
        """,
    )


def test_a_node_waits_for_the_others_before_its_first_claim() -> None:
    node = joined(partitions=2, expected=2, expect_ms=1000)
    node.take()
    node.control()
    node.control(m.Hello(0, "b"))
    said(
        node,
        """
        > control: nothing new
        > control: Hello b
          write control: Claim a [0] v1
        """,
    )


def test_a_node_does_not_wait_for_ever() -> None:
    node = joined(expected=2, expect_ms=100)
    for _ in range(12):
        node.control()
    assert node.take().count("write control: Claim a [0] v1") == 1


def test_what_an_earlier_incarnation_under_the_same_name_did_is_not_this_incarnation() -> None:
    node = Dialogue(history=[m.Hello(0, "a"), m.Claim(0, "a", 0, 1), m.Command(0, "stop")])
    node.read_back()
    said(
        node,
        """
        > control: JobStarted; Hello a; Claim a [0] v1; Command stop
          write control: Hello a
        > control: Hello a
          write control: Claim a [0] v2
        """,
    )


def test_a_claim_that_came_second_is_lost() -> None:
    node = joined(others=["b"])
    node.take()
    node.control(m.Claim(0, "b", 0, 1), m.Claim(0, "a", 0, 1))
    node.control()
    said(
        node,
        """
        > control: Claim b [0] v1; Claim a [0] v1
        > control: nothing new
        """,
    )
    assert node.node.work.runners == {}


def test_a_claim_that_is_lost_while_loading_ends_the_work() -> None:
    node = joined()
    node.read_back()
    node.take()
    node.control(m.Hello(0, "b"), m.Claim(0, "b", 0, 2))
    node.loaded(0, 1)
    said(
        node,
        """
        > control: Hello b; Claim b [0] v2
        > loaded [0] v1: none
        """,
    )


def test_a_silent_node_is_robbed_after_the_suspicion_time() -> None:
    node = joined(others=["b"], failure_timeout_ms=50)
    node.take()
    node.control(m.Claim(0, "b", 0, 1))
    node.heartbeat("b")
    for _ in range(3):
        node.control()
    node.heartbeat("a")
    node.control()
    node.read_back()
    said(
        node,
        """
        > control: Claim b [0] v1
        > heartbeat of b
        > control: nothing new
        > control: nothing new
        > control: nothing new
        > heartbeat of a
        > control: nothing new
          write control: Claim a [0] v2
        > control: Claim a [0] v2
          load [0] v2 []
        """,
    )
    assert node.node.steals == 1


def test_a_node_that_was_stalled_itself_accuses_nobody() -> None:
    node = joined(others=["b"], failure_timeout_ms=50)
    node.take()
    node.control(m.Claim(0, "b", 0, 1))
    node.heartbeat("b")
    node.tick(10_000)
    node.control(at_end=False)
    node.control()
    node.heartbeat("b")
    node.control()
    said(
        node,
        """
        > control: Claim b [0] v1
        > heartbeat of b
        > time
        > control: nothing new
        > control: nothing new
        > heartbeat of b
        > control: nothing new
        """,
    )


def test_a_clock_that_is_set_back_costs_nothing() -> None:
    node = joined(others=["b"], failure_timeout_ms=50, heartbeat_interval_ms=20)
    node.tick(-3_600_000)
    beats = [isinstance(effect, x.WriteHeartbeat) for _ in range(4) for effect in node.tick()]
    assert beats.count(True) >= 1
    assert "Claim" not in node.take().replace("Claim a [0] v1", "")


def test_partitions_are_handed_over_at_a_checkpoint_when_a_node_joins() -> None:
    node = running(partitions=2)
    node.records(0, 1, 0, {"ts": 3})
    node.records(1, 1, 0, {"ts": 3})
    node.acknowledged(0, 1)
    node.acknowledged(1, 1)
    node.take()
    node.control(m.Hello(0, "b"))
    assert not node.effects, "it may have died since"
    node.heartbeat("b")
    node.control()
    node.stored()
    node.read_back()
    said(
        node,
        """
        > control: Hello b
        > heartbeat of b
        > control: nothing new
          save [1] v1 at 1, answered 3
        > stored [1] v1
          write control: CheckpointSaved a [1] v1 at 1, answered 3
          write control: Release a [1] v1 to b
        > control: CheckpointSaved a [1] v1 at 1, answered 3; Release a [1] v1 to b
        """,
    )
    assert [wanted.partition for wanted in node.node.wanted()] == [0, 1], "nobody waits until the other has claimed it"
    node.control(m.Claim(0, "b", 1, 2))
    assert list(node.node.work.runners) == [0]


def test_a_stop_drains_saves_releases_and_leaves() -> None:
    node = running()
    node.records(0, 1, 0, {"ts": 3})
    node.take()
    node.control(m.Command(0, "stop"))
    assert node.node.wanted() == []
    node.acknowledged(0, 1)
    node.stored()
    said(
        node,
        """
        > control: Command stop
        > acknowledged [0] v1
          save [0] v1 at 1, answered 3
        > stored [0] v1
          write control: CheckpointSaved a [0] v1 at 1, answered 3
          write control: Release a [0] v1 to None
          write control: Goodbye a
          leave: stopped
        """,
    )


def test_a_node_that_is_asked_to_stop_before_it_has_work_leaves_at_once() -> None:
    node = joined()
    node.take()
    node.step(StopRequested(), "stop")
    said(
        node,
        """
        > stop
          write control: Goodbye a
          leave: stopped
        """,
    )


def test_a_node_whose_code_the_job_has_left_behind_leaves() -> None:
    """Results of both would mix; its own code, or one that its own has replaced, is none of its business."""
    mine = count_job().program.version
    node = running()
    node.control(m.Command(0, CODE, mine.encode()))
    assert node.node.left is None
    node.control(m.Command(0, CODE, msgspec.structs.replace(mine, code="other").encode()))
    assert node.node.left is not None and node.node.left.ending is x.Ending.FAILED
    joining = Dialogue(history=[m.Command(0, CODE, "an earlier one"), m.Command(0, CODE, mine.encode())])
    assert joining.node.left is None


@pytest.mark.parametrize("when", ["before its hello", "before it reads its hello", "while it is taken for dead"])
def test_code_that_is_accepted_while_a_node_is_no_member_is_not_missed(when: str) -> None:
    """It was: the node joined, and worked on with the old code beside nodes with the new one."""
    mine = count_job().program.version
    other = m.Command(0, CODE, msgspec.structs.replace(mine, code="other").encode())
    if when == "while it is taken for dead":
        node = running()
        node.control(m.Goodbye(0, "a", 1), at_end=False)
        assert not node.node.member.joined and node.node.left is None
        node.control(other)
    else:
        node = Dialogue(history=[other] if when == "before its hello" else [])
        if when != "before its hello":
            hello = [m.decode_control(each.value) for each in node.effects if isinstance(each, x.WriteControl)]
            node.control(other, *hello)
    assert node.node.left is not None and node.node.left.ending is x.Ending.FAILED
    assert "other code" in node.node.left.reason


def test_a_newer_incarnation_ends_the_node() -> None:
    node = running()
    node.control(m.JobStarted(1, "x", 1))
    node.records(0, 1, 0, {"ts": 3})
    said(
        node,
        """
        > control: JobStarted
          leave: superseded (incarnation 1 of the job has started)
        > input [0] v1 0-1
        """,
    )


def test_a_failing_record_is_reported_once_and_ends_the_node() -> None:
    node = running(partitions=2)
    node.records(0, 1, 0, {"ts": 3}, {"ts": 4, "fail": True})
    assert node.node.wanted() == []
    node.tick()
    node.control(m.Failed(0, "a", 0, 1, node.node.code_hash, "told to fail"))
    said(
        node,
        """
        > input [0] v1 0-2
          write control: Failed a [0] at 1
        > time
        > control: Failed a [0] at 1
          write control: Goodbye a
          leave: failed (told to fail)
        """,
    )


def test_what_failed_elsewhere_is_not_tried_again() -> None:
    node = joined()
    node.take()
    node.control(m.Failed(0, "b", 0, 1, node.node.code_hash, "told to fail"))
    said(
        node,
        """
        > control: Failed b [0] at 1
          write control: Goodbye a
          leave: failed (told to fail)
        """,
    )


def test_what_failed_under_other_code_is_tried_again() -> None:
    node = joined()
    node.control(m.Failed(0, "b", 0, 1, "other code", "told to fail"))
    assert node.node.left is None


def test_a_control_record_of_a_newer_release_stops_the_node() -> None:
    node = running()
    value = m.encode(m.Hello(0, "c"))
    newer = bytes([m.FORMAT_VERSION + 1])
    crc = zlib.crc32(value[5:], zlib.crc32(newer)).to_bytes(4, "big")
    node.step(ControlRead([newer + crc + value[5:]], True), "newer")
    assert node.take().splitlines()[-1].startswith("  leave: failed (the control topic holds a record of a newer Holon")
