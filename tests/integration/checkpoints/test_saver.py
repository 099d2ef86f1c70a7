"""Saving beside the loop: in order, told afterwards, and never a failure that nobody hears of."""

from __future__ import annotations

import threading

from nodes.checkpoints.errors import CheckpointMissing
from nodes.checkpoints.saver import ThreadSaver
from nodes.machine.events import CheckpointStored, Event
from tests.integration.processes import until


def stored(ticket: int) -> CheckpointStored:
    return CheckpointStored(0, 1, ticket, f"checkpoint {ticket}")


def test_the_loop_goes_on_while_saves_are_made_in_order() -> None:
    saver, gate = ThreadSaver(), threading.Event()
    saver.save(lambda: stored(1) if gate.wait(60) else None)
    saver.save(lambda: stored(2))
    assert saver.finished() == [], "the first one waits, so nothing is told"
    gate.set()
    found: list[Event] = []
    until(lambda: found.extend(saver.finished()) or len(found) == 2, "both are told")
    assert found == [stored(1), stored(2)]


def test_what_fails_is_raised_in_the_loop() -> None:
    saver = ThreadSaver()

    def fail() -> Event:
        raise CheckpointMissing("gone")

    saver.save(fail)

    def heard() -> bool:
        try:
            saver.finished()
        except CheckpointMissing:
            return True
        return False

    until(heard, "the failure is heard of")
