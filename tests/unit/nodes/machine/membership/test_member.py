"""One node as a member: its own Hello, the others' lives, records that cannot be read."""

from __future__ import annotations

import zlib

import pytest

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.membership.member import Membership
from nodes.machine.ownership.ownership import Ownership

SUSPECT_MS, FORGET_MS, STEP_MS = 300, 5_000, 100


def member(*, restarts: bool = True) -> Membership:
    made = Membership(
        "me", 0, 1, Ownership(4), failure_timeout_ms=SUSPECT_MS, forget_after_ms=FORGET_MS, restarts=restarts
    )
    learn(made, m.JobStarted(1, "job", 4))
    return made


def learn(node: Membership, *messages: m.ControlMessage, now_ms: int = 0) -> list[f.Fact]:
    return list(node.facts([m.encode(message) for message in messages], now_ms))


def passes(node: Membership, begin_ms: int, end_ms: int, *speak: str) -> None:
    """Time passes at a node that does not stall; these others send heartbeats."""
    for now_ms in range(begin_ms, end_ms, STEP_MS):
        node.heartbeats([m.encode(m.Heartbeat(1, name, now_ms)) for name in speak], now_ms)
        if node.detector.stalled(now_ms):
            node.detector.caught_up(now_ms)
        node.suspects(now_ms)


def test_a_node_has_joined_when_its_own_hello_is_read_and_not_before() -> None:
    node = member()
    assert not node.greeted and node.needs_end(0)
    learn(node, m.Hello(1, "me"))  # of an earlier incarnation under this name
    assert not node.joined
    hello = node.hello(7)
    assert node.greeted and node.greeted_ms == 7 and not node.joined and hello.node_incarnation == 2
    learn(node, hello)
    assert node.joined and not node.needs_end(7)


def test_a_node_that_others_took_for_dead_greets_again() -> None:
    node = member()
    learn(node, node.hello(0))
    learn(node, m.Goodbye(1, "me", node.ownership.node_incarnation("me")))
    assert not node.joined and not node.greeted and node.needs_end(0)
    learn(node, node.hello(1))
    assert node.joined


def test_the_first_of_the_living_says_once_that_a_silent_member_without_units_has_left() -> None:
    node = member()
    learn(node, m.Hello(1, "zoe"), m.Hello(1, "owner"), m.Claim(1, "owner", 0, 1), node.hello(0))
    passes(node, 0, FORGET_MS + 2 * SUSPECT_MS)
    now_ms = FORGET_MS + 2 * SUSPECT_MS
    assert node.suspects(now_ms) == ["owner", "zoe"]
    assert [goodbye.node for goodbye in node.gone(now_ms)] == ["zoe"]  # the other one has work that is to be taken
    assert node.gone(now_ms) == []


def test_another_one_that_lives_and_comes_first_says_so_instead() -> None:
    node = member()
    learn(node, m.Hello(1, "zoe"), m.Hello(1, "ann"), node.hello(0))
    passes(node, 0, FORGET_MS + 2 * SUSPECT_MS, "ann")
    now_ms = FORGET_MS + 2 * SUSPECT_MS
    assert node.suspects(now_ms) == ["zoe"] and node.live(now_ms) == ["ann", "me"]
    assert node.gone(now_ms) == []


def test_the_end_of_the_control_topic_matters_where_a_suspect_owns_something() -> None:
    node = member()
    learn(node, m.Hello(1, "ann"), node.hello(0))
    passes(node, 0, 2 * SUSPECT_MS)
    assert node.suspects(2 * SUSPECT_MS) == ["ann"] and not node.needs_end(2 * SUSPECT_MS)
    learn(node, m.Claim(1, "bob", 0, 1), m.Hello(1, "bob"), m.Claim(1, "bob", 1, 1), now_ms=2 * SUSPECT_MS)
    passes(node, 2 * SUSPECT_MS, 5 * SUSPECT_MS)
    assert node.needs_end(5 * SUSPECT_MS)


def test_garbage_is_counted_and_passed_over_but_a_newer_release_is_not() -> None:
    node = member()
    assert list(node.facts([b"garbage"], 0)) == [] and node.heartbeats([b"", b"\xff"], 0) == []
    assert node.bad_messages == 3
    body, version = m.encode(m.Hello(1, "ann"))[5:], bytes([m.FORMAT_VERSION + 1])
    crc = zlib.crc32(body, zlib.crc32(version)).to_bytes(4, "big")
    with pytest.raises(m.BadMessage):
        list(node.facts([version + crc + body], 0))


def test_a_job_of_one_incarnation_knows_no_other() -> None:
    node = member(restarts=False)
    assert learn(node, m.JobStarted(2, "job", 4), m.Hello(2, "ann")) == []
    assert node.ownership.incarnation == 1
    assert learn(member(), m.JobStarted(2, "job", 4))


def test_heartbeats_of_another_incarnation_prove_nothing() -> None:
    node = member()
    learn(node, m.Hello(1, "ann"), node.hello(0))
    for now_ms in range(0, 3 * SUSPECT_MS, STEP_MS):
        others = [
            m.Heartbeat(2, "ann", now_ms),
            m.Heartbeat(m.UNCOUNTED_INCARNATION, "ann", 0),
            m.Alive(2, "bob", ["ann"]),
        ]
        assert node.heartbeats(list(map(m.encode, others)), now_ms) == [], "it passes none of them on"
        node.detector.stalled(now_ms)
    assert node.suspects(3 * SUSPECT_MS) == ["ann"]
