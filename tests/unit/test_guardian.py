"""The guardian beside a loop that does not turn: when it gives signs of life for it, and when it must not."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nodes.guardian import Guardian, Watched
from nodes.log import MemoryLog
from nodes.log.contract import Chunk
from tests.integration.processes import until

INTERVAL_MS, DEAF_AFTER_MS, NEVER_MS = 5, 50, 10**9
BEATS = "beats"


class SilentLog(MemoryLog):
    """Reads of offset 7 wait until ``answer`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()
        self.create_topic(BEATS, 1)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> Chunk:
        if offset == 7:
            self.asked.set()
            assert self.answer.wait(60)
            return super().read(topic, partition, 0)
        return super().read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)

    @property
    def beats(self) -> int:
        return self.end_offset(BEATS, 0)


def guarded(log: SilentLog, call: Callable[[], object]) -> threading.Thread:
    """A loop that makes this call and does not turn; its guardian ends with it."""
    watched = Watched(
        log, BEATS, b"alive", INTERVAL_MS, NEVER_MS, DEAF_AFTER_MS, lambda place, stack: None, lambda: None
    )

    def loop() -> None:
        guardian = Guardian(watched)
        guardian.start()
        call()
        guardian.stop()

    thread = threading.Thread(target=loop)
    thread.start()
    return thread


def still(log: SilentLog) -> bool:
    """Whether no beat comes for twenty intervals of a thread that beats as often."""
    before = log.beats
    threading.Event().wait(20 * INTERVAL_MS / 1000)
    return log.beats == before


def test_whoever_waits_in_vain_for_the_log_to_read_falls_silent_and_speaks_again_afterwards() -> None:
    log, over = SilentLog(), threading.Event()

    def call() -> None:
        log.read(BEATS, 0, 7)
        assert over.wait(60)

    thread = guarded(log, call)
    try:
        assert log.asked.wait(60)
        until(lambda: still(log), "no more signs of life")
        silent = log.beats
        log.answer.set()
        until(lambda: log.beats > silent + 20, "signs of life again")
    finally:
        log.answer.set()
        over.set()
        thread.join()


def test_a_long_call_that_asks_nothing_of_the_log_does_not_silence_the_node() -> None:
    log, over = SilentLog(), threading.Event()
    thread = guarded(log, lambda: over.wait(60))
    try:
        until(lambda: log.beats > 3 * DEAF_AFTER_MS // INTERVAL_MS, "signs of life, longer than a deaf node gives any")
    finally:
        over.set()
        thread.join()
