"""A node whose writes are not answered is not to be heard, although its heartbeats have a client of their own."""

from __future__ import annotations

from nodes.log.kafka.unacknowledged_writes import SILENT_AFTER_S, Unanswered


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_writes_that_wait_in_vain_are_noticed_and_forgotten_with_their_answer() -> None:
    clock = Clock()
    writes = Unanswered(clock)
    clock.now_s = 100.0
    answered = writes.begins("results")
    assert not writes.in_vain
    clock.now_s += SILENT_AFTER_S
    assert writes.in_vain
    answered()
    assert not writes.in_vain
    clock.now_s += 10 * SILENT_AFTER_S
    assert not writes.in_vain, "nothing is on its way"


def test_where_something_is_answered_a_node_is_heard_unless_it_cannot_take_part() -> None:
    clock = Clock()
    writes = Unanswered(clock)
    writes.watch(["control"])
    writes.begins("results")
    for _ in range(5):
        clock.now_s += 0.9 * SILENT_AFTER_S
        writes.begins("deltas")()
        assert not writes.in_vain
    answered = writes.begins("control")
    for _ in range(2):
        clock.now_s += 0.9 * SILENT_AFTER_S
        writes.begins("deltas")()
    assert writes.in_vain
    answered()
    assert not writes.in_vain
