"""Heartbeats on the log: a node whose reads find nothing of what it has written sends none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from nodes.log.contract import FetchedRecords
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.runtime.heartbeat_topics import HeartbeatTopics, deaf_after_ms

ALL, GROUPS = "heartbeats", "group-heartbeats"
FAILURE_TIMEOUT_MS = 600
DEAF_MS = deaf_after_ms(FAILURE_TIMEOUT_MS)


class CutLog(MemoryLog):
    """Reads find nothing while ``blind``; heartbeats are lost while ``mute``, and acknowledged while it ``loses``."""

    blind = mute = loses = False

    def poll(self, topic: str, partition: int, offset: int, **limits: int) -> FetchedRecords:
        found = super().poll(topic, partition, offset, **limits)
        return found.before(offset) if self.blind else found

    def send(
        self, topic: str, partition: int, values: Sequence[bytes], *, done: Callable[[int], None] = lambda end: None,
        **beside: Sequence[bytes],
    ) -> None:  # fmt: skip
        if self.loses:
            done(self.end_offset(topic, partition) + len(values))
        elif not self.mute:
            super().send(topic, partition, values, done=done)


@pytest.fixture
def log() -> CutLog:
    log = CutLog()
    log.create_topic(ALL, 1)
    return log


def begun(log: CutLog) -> HeartbeatTopics:
    heartbeats = HeartbeatTopics(log, "me", ALL, GROUPS, failure_timeout_ms=FAILURE_TIMEOUT_MS)
    heartbeats.read(None, 0)
    return heartbeats


def test_a_node_reads_what_it_has_sent_itself(log: CutLog) -> None:
    heartbeats = begun(log)
    heartbeats.send(b"1", None, 0)
    assert heartbeats.read(None, 10 * DEAF_MS) == ([b"1"], False)
    assert not heartbeats.is_deaf(20 * DEAF_MS)


def test_a_node_whose_reads_alone_are_cut_falls_silent_until_they_return_something(log: CutLog) -> None:
    heartbeats = begun(log)
    log.blind = True
    heartbeats.send(b"1", None, 0)
    heartbeats.read(None, 0)
    assert not heartbeats.is_deaf(DEAF_MS - 1)
    heartbeats.read(None, DEAF_MS)
    assert heartbeats.is_deaf(DEAF_MS)
    heartbeats.send(b"2", None, DEAF_MS)
    log.blind = False
    (first, second), _ = heartbeats.read(None, DEAF_MS + 1)
    assert (first, m.decode_control(second)) == (b"1", m.Heartbeat(m.UNCOUNTED_INCARNATION, "me", 0)), (
        "it counts for no node"
    )
    heartbeats.send(b"3", None, DEAF_MS + 1)
    assert heartbeats.read(None, DEAF_MS + 2) == ([b"3"], False)


def test_acknowledged_heartbeats_that_a_broker_has_lost_silence_a_node_for_a_moment(log: CutLog) -> None:
    """All nodes may be deaf by that at the same time, and none would send what the others could read."""
    heartbeats = begun(log)
    log.loses = True
    heartbeats.send(b"1", None, 0)
    heartbeats.read(None, 0)
    assert heartbeats.is_deaf(DEAF_MS)
    log.loses = False
    heartbeats.send(b"2", None, DEAF_MS)
    heartbeats.read(None, DEAF_MS)
    assert not heartbeats.is_deaf(10 * DEAF_MS)


def test_a_node_whose_writes_are_lost_too_is_not_deaf(log: CutLog) -> None:
    """Nothing is there to be read, so silence proves nothing."""
    heartbeats = begun(log)
    log.blind = log.mute = True
    heartbeats.send(b"1", None, 0)
    heartbeats.read(None, 0)
    heartbeats.read(None, 10 * DEAF_MS)
    assert not heartbeats.is_deaf(10 * DEAF_MS)


def test_a_node_that_is_behind_and_reads_on_is_not_deaf(log: CutLog) -> None:
    """Heartbeats of others come before its own."""
    heartbeats = begun(log)
    log.append(ALL, 0, [b"other"] * 2000)
    heartbeats.send(b"1", None, 0)
    values, _ = heartbeats.read(None, 0)
    assert values == [b"other"] * 1000
    values, _ = heartbeats.read(None, 10 * DEAF_MS)
    assert values == [b"other"] * 1000
    assert not heartbeats.is_deaf(10 * DEAF_MS)


def test_a_group_that_is_not_read_any_more_makes_no_node_deaf(log: CutLog) -> None:
    heartbeats = begun(log)
    heartbeats.read(3, 0)
    heartbeats.send(b"1", 3, 0)
    heartbeats.read(None, 0)
    heartbeats.read(None, 10 * DEAF_MS)
    assert not heartbeats.is_deaf(10 * DEAF_MS)
