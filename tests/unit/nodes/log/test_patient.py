"""A log whose disk is full now and then, under a node that waits (nodes/log/patient.py)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import pytest

from nodes.log.contract import AddressSpaceFull, Appended, Log, LogError, LogFull, LogUnavailable
from nodes.log.memory import MemoryLog
from nodes.log.patient import PAUSES_S, PatientLog, WaitForRoom


class FullAtTimes(MemoryLog):
    """Raises these errors, one at each append, then works."""

    def __init__(self, *errors: LogError) -> None:
        super().__init__()
        self.errors = list(errors)
        self.create_topic("t", 2)

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        if self.errors:
            raise self.errors.pop(0)
        return super().append(topic, partition, values, **more)

    def stored(self, partition: int) -> list[bytes]:
        return list(self.read("t", partition, 0).values)


class Node:
    """A node's view of such a log; time passes where it sleeps, and it is to leave after ``leaves_after`` sleeps."""

    def __init__(self, *errors: LogError, leaves_after: int = 1000) -> None:
        self.full = FullAtTimes(*errors)
        self.now_s = 7.0
        self.slept: list[float] = []
        self.seen: list[WaitForRoom | None] = []
        leaves = lambda: len(self.slept) >= leaves_after  # noqa: E731
        self.log = PatientLog(self.full, "n1", leaves, sleep=self._sleep, clock_s=lambda: self.now_s)
        self.log.while_waiting = lambda: self.seen.append(self.log.waiting)

    def _sleep(self, pause_s: float) -> None:
        self.slept.append(pause_s)
        self.now_s += pause_s


def full(reason: str = "no space left") -> LogFull:
    return LogFull(f"'t' partition 1: {reason}")


def test_an_append_waits_for_room_is_there_once_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    node, ends = Node(*[full() for _ in range(5)]), list[int]()
    with caplog.at_level(logging.WARNING):
        node.log.send("t", 1, [b"a", b"b"], done=ends.append)
        node.log.send("t", 1, [b"c"], keys=[b"k"], done=ends.append)
    assert node.full.stored(1) == [b"a", b"b", b"c"] and ends == [2, 3]
    assert node.slept == [*PAUSES_S, PAUSES_S[-1], PAUSES_S[-1]]
    assert node.seen == [WaitForRoom("t", 1, 7.0, "'t' partition 1: no space left")] * 5 and node.log.waiting is None
    waits, goes_on = [record.getMessage() for record in caplog.records]
    assert waits == "node n1 waits until there is room on the log, and nothing is lost: 't' partition 1: no space left"
    assert goes_on == "node n1 goes on: there is room on the log again, after 0.8 s"


def test_an_append_that_is_waited_for_gives_its_place() -> None:
    node = Node(full(), full())
    assert node.log.append("t", 0, [b"a"], headers=[b"h"]).first_offset == 0
    assert node.log.append("t", 0, [b"b"]).first_offset == 1
    assert node.full.stored(0) == [b"a", b"b"] and cast("Log", node.log).partitions("t") == 2


def test_a_node_that_is_to_leave_waits_no_longer_and_has_appended_nothing() -> None:
    node = Node(*[full(f"try {number}") for number in range(9)], leaves_after=2)
    with pytest.raises(LogFull, match="try 2"):
        node.log.send("t", 1, [b"a"], done=lambda end: pytest.fail("it is not on the log"))
    assert len(node.slept) == 2 and node.full.stored(1) == [] and node.log.waiting is None


@pytest.mark.parametrize("error", [AddressSpaceFull("raise ulimit -v"), LogUnavailable("no permission")])
@pytest.mark.parametrize("waited", [0, 2])
def test_what_no_room_mends_is_raised_at_once(error: LogError, waited: int) -> None:
    node = Node(*[full() for _ in range(waited)], error)
    with pytest.raises(type(error)):
        node.log.append("t", 1, [b"a"])
    assert len(node.slept) == waited and node.full.stored(1) == [] and node.log.waiting is None
