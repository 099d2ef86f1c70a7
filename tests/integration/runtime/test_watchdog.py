"""The watchdog beside a loop that does not turn: when it gives heartbeats for it, and when it must not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping

import pytest

from nodes.log import MemoryLog
from nodes.log.contract import FetchedRecords, TopicPartition
from nodes.runtime.interpreter_lock_watch import SIGNAL, LockWatch
from nodes.runtime.watchdog import Watchdog, WatchdogOptions
from tests.integration.processes import until

INTERVAL_MS, DEAF_AFTER_MS, NEVER_MS = 5, 50, 10**9
BEATS, LOST = "beats", "lost"


class SilentLog(MemoryLog):
    """A call about ``LOST`` waits until ``answer`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()
        self.create_topic(BEATS, 1)
        self.create_topic(LOST, 1)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        self._wait_for(topic)
        return super().read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        self._wait_for(next(iter(positions)).topic)
        return super().wait(positions, timeout_s)

    def end_offset(self, topic: str, partition: int) -> int:
        self._wait_for(topic)
        return super().end_offset(topic, partition)

    def _wait_for(self, topic: str) -> None:
        if topic == LOST and not self.answer.is_set():
            self.asked.set()
            assert self.answer.wait(60)

    @property
    def beats(self) -> int:
        return self.end_offset(BEATS, 0)


def guarded(log: SilentLog, call: Callable[[], object]) -> threading.Thread:
    """A loop that makes this call and does not turn; its watchdog ends with it."""
    watched = WatchdogOptions(
        log, BEATS, lambda: b"alive", INTERVAL_MS, NEVER_MS, DEAF_AFTER_MS, lambda place, stack: None, lambda: None
    )

    def loop() -> None:
        watchdog = Watchdog(watched)
        watchdog.start()
        call()
        watchdog.stop()

    thread = threading.Thread(target=loop)
    thread.start()
    return thread


def still(log: SilentLog) -> bool:
    """Whether no beat comes for twenty intervals of a thread that beats as often."""
    before = log.beats
    threading.Event().wait(20 * INTERVAL_MS / 1000)
    return log.beats == before


@pytest.mark.parametrize(
    "ask",
    [
        lambda log: log.read(LOST, 0, 0),
        lambda log: log.poll(LOST, 0, 0),
        lambda log: log.end_offset(LOST, 0),
        lambda log: log.wait({TopicPartition(LOST, 0): 0}, 0),
    ],
    ids=["read", "poll", "end_offset", "wait"],
)
def test_whoever_waits_in_vain_for_the_log_to_answer_falls_silent_and_speaks_again_afterwards(
    ask: Callable[[SilentLog], object],
) -> None:
    log, over = SilentLog(), threading.Event()

    def call() -> None:
        ask(log)
        assert over.wait(60)

    thread = guarded(log, call)
    try:
        assert log.asked.wait(60)
        until(lambda: still(log), "no more heartbeats")
        silent = log.beats
        log.answer.set()
        until(lambda: log.beats > silent + 20, "heartbeats again")
    finally:
        log.answer.set()
        over.set()
        thread.join()


def test_a_long_call_that_asks_nothing_of_the_log_does_not_silence_the_node() -> None:
    log, over = SilentLog(), threading.Event()
    thread = guarded(log, lambda: over.wait(60))
    try:
        until(lambda: log.beats > 3 * DEAF_AFTER_MS // INTERVAL_MS, "heartbeats, longer than a deaf node gives any")
    finally:
        over.set()
        thread.join()


def test_the_timer_of_a_profiler_stays_its_own(caplog: pytest.LogCaptureFixture) -> None:
    ticks: list[int] = []
    before = signal.signal(SIGNAL, lambda number, _: ticks.append(number))
    watch = LockWatch(1000)
    try:
        watch.begin()
        signal.setitimer(signal.ITIMER_PROF, 100.0)
        watch.wind()
        watch.stop()
        left_s, _ = signal.setitimer(signal.ITIMER_PROF, 0)
        signal.raise_signal(SIGNAL)
    finally:
        signal.signal(SIGNAL, before)
    assert left_s > 50 and ticks == [SIGNAL] and "profiler" in caplog.text
