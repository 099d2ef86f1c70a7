"""Golden dialogues: what a node asks for until it is there."""

from __future__ import annotations

from textwrap import dedent

from nodes.machine import effects as x
from nodes.machine import messages as m
from tests.unit.node_dialogue import Dialogue, joined, running


def said(dialogue: Dialogue, text: str) -> None:
    """The dialogue since the last look is exactly this."""
    assert dialogue.take() == dedent(text).strip("\n")


def written(dialogue: Dialogue) -> list[bytes]:
    """Broadcast records in answer to the last event."""
    return [effect.value for effect in dialogue.effects if isinstance(effect, x.WriteBroadcast)]


def follower() -> Dialogue:
    """A node that is told that ``a`` owns the partition."""
    node = joined("b", others=["a"], failure_timeout_ms=300)
    node.control(m.Claim(0, "a", 0, 1))
    node.take()
    return node


def test_what_a_delta_held_that_did_not_fit_is_asked_for_until_the_slot_reaches_its_end() -> None:
    owner = running()
    owner.records(0, 1, 0, {"ts": 3})
    owner.control(m.SlotWanted(0, "b", 0, 0))
    shorter = written(owner)
    owner.records(0, 1, 1, {"ts": 14})
    node = follower()
    node.broadcast(0, written(owner)[0])
    node.control()
    node.broadcast(0, *shorter)
    node.tick(400)
    node.control()
    said(
        node,
        """
        > broadcast [0]: delta 1-2 at 14 {20: [[0, 1]]}, answered 3
        > control: nothing new
          write control: SlotWanted b [0] behind 0
        > broadcast [0]: full slot 1 at 3 {10: [[0, 1]]}, answered 3
          rewind broadcast [0]
        > time
        > control: nothing new
          write control: SlotWanted b [0] behind 1
        """,
    )


def test_a_damaged_record_behind_what_was_asked_for_is_asked_for_too() -> None:
    owner = running()
    owner.records(0, 1, 0, {"ts": 3})
    owner.records(0, 1, 1, {"ts": 14})
    node = follower()
    node.broadcast(0, *written(owner))
    node.control()
    owner.control(m.SlotWanted(0, "b", 0, 0))
    node.take()
    node.broadcast(0, b"\x01 not a message", *written(owner))
    node.tick(400)
    node.control()
    node.broadcast(0, *written(owner))
    node.tick(400)
    node.control()
    said(
        node,
        """
        > broadcast [0]: damaged (CRC); full slot 2 at 14 {10: [[0, 1]], 20: [[0, 1]]}, answered 14
          read broadcast [0] again from 2
        > time
        > control: nothing new
          write control: SlotWanted b [0] behind 2
        > broadcast [0]: full slot 2 at 14 {10: [[0, 1]], 20: [[0, 1]]}, answered 14
        > time
        > control: nothing new
        """,
    )


def test_a_batch_with_a_damaged_record_is_read_four_times_and_its_records_are_counted_once() -> None:
    node, damaged = follower(), b"\x01 not a message"
    again = []
    for batch in ([damaged], [damaged, damaged], [damaged], [damaged], [damaged]):
        node.broadcast_at[0] = 7
        node.broadcast(0, *batch)
        again.append(x.ReadBroadcastAgain(0, 7) in node.effects)
    assert again == [True, True, True, False, False] and node.node.bad_messages == 1
    node.broadcast(0, damaged)  # behind it
    assert x.ReadBroadcastAgain(0, 8) in node.effects and node.node.bad_messages == 2


def test_what_a_second_reading_brings_tells_how_far_the_input_was_read() -> None:
    owner, node = running(), follower()
    owner.records(0, 1, 0, {"ts": 3})
    deltas = written(owner)
    node.broadcast(0, *[b"\x01 damaged on the way" for _ in deltas])
    assert node.node.replica.reported == [0]
    node.broadcast_at[0] = 0
    node.broadcast(0, *deltas)
    assert node.node.replica.reported == [1]


def asked(node: Dialogue) -> bool:
    """In answer to the last event."""
    return any(isinstance(effect, x.WriteControl) for effect in node.effects)


def test_whose_maker_is_not_there_yet_is_asked_ever_more_rarely_and_at_once_when_there_is_news() -> None:
    owner = running()
    owner.records(0, 1, 0, {"ts": 3})
    owner.control(m.SlotWanted(0, "b", 0, 0))
    shorter = written(owner)  # what the next owner answers, which waits for slower partitions
    owner.records(0, 1, 1, {"ts": 14})
    second = written(owner)
    owner.records(0, 1, 2, {"ts": 15})
    third = written(owner)
    node = follower()
    node.broadcast(0, *shorter)
    node.broadcast(0, b"\x01 not a message")  # it held the second
    times = []
    for number in range(200):
        node.tick(300)
        node.control()
        if asked(node):
            times.append(number)
            node.broadcast(0, *shorter)
            node.broadcast(0, b"\x01 not a message", *third)  # the log is read again
    assert len(times) < 12 and times[1] - times[0] <= 2 and times[-1] - times[-2] >= 8
    node.broadcast(0, *second)
    node.broadcast(0, *third)
    node.control()
    node.tick(300)
    node.control()
    assert asked(node), "what the damaged record held is not known: the slot has moved, and somebody is asked at once"
