"""The lives of a node process: what begins another one, and what ends the process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from nodes.log import Log, LogError, LogInterrupted, LogTruncated, LogUnavailable, MemoryLog
from nodes.log.memory import MemoryLog as Opened
from nodes.runtime.in_process_restarts import RESTARTS_A_MINUTE, live
from nodes.runtime.stop_signals import StoppedEarly, StopSignals, starts_fleet, starts_node


class Runs:
    """Runs lives that end by these errors, one after the other, and then well; ``each_s`` is how long they last."""

    def __init__(self, *ends: LogError, each_s: float = 0.0, stop_in: int | None = None) -> None:
        self.ends = list(ends)
        self.each_s = each_s
        self.stop_in = stop_in
        self.now_s = 0.0
        self.logs: list[Log] = []
        self.open = 0
        self.asked = 0

    def request_stop(self, signum: int = 0, frame: FrameType | None = None) -> None:
        self.asked += 1

    @contextmanager
    def opened(self) -> Iterator[Log]:
        self.open += 1
        yield Opened()
        self.open -= 1

    def run_once(self, log: Log, stops: StopSignals) -> str:
        stops.concern(self)
        self.logs.append(log)
        self.now_s += self.each_s
        if self.stop_in == len(self.logs):
            signal.raise_signal(signal.SIGTERM)
        if self.ends:
            raise self.ends.pop(0)
        return "done"

    def run(self) -> str:
        return live(self.opened, self.run_once, lambda: self.now_s)


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_writer_that_lost_its_place_begins_another_incarnation_on_a_log_of_its_own() -> None:
    lives = Runs(LogInterrupted("out of order"), LogInterrupted("purged"))
    assert lives.run() == "done"
    assert len({id(log) for log in lives.logs}) == 3
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN, "it is leaving"


@pytest.mark.parametrize("error", [LogUnavailable("away"), LogTruncated("lost"), LogError("other")])
def test_what_another_incarnation_would_not_mend_ends_the_process(error: LogError) -> None:
    lives = Runs(error)
    with pytest.raises(type(error)):
        lives.run()
    assert len(lives.logs) == 1


def test_a_life_that_ends_again_and_again_ends_the_process_whose_parent_waits_longer() -> None:
    lives = Runs(*(LogInterrupted("again") for _ in range(20)), each_s=1.0)
    with pytest.raises(LogInterrupted):
        lives.run()
    assert len(lives.logs) == RESTARTS_A_MINUTE


def test_lives_that_last_are_not_counted() -> None:
    lives = Runs(*(LogInterrupted("again") for _ in range(20)), each_s=15.0)
    assert lives.run() == "done" and len(lives.logs) == 21


def test_a_request_to_stop_holds_for_all_lives() -> None:
    lives = Runs(LogInterrupted("while it leaves"), stop_in=1)
    with pytest.raises(LogInterrupted):
        lives.run()
    assert len(lives.logs) == 1 and lives.asked == 1


def test_a_log_in_memory_has_no_place_to_lose() -> None:
    log = MemoryLog()
    log.create_topic("beats", 1)
    log.tolerate_loss(["beats"])
    log.append("beats", 0, [b"x"])
    assert log.end_offset("beats", 0) == 1


def test_a_signal_before_there_is_a_node_is_kept_for_it() -> None:
    stops, lives = StopSignals(), Runs()
    stops.listen()
    signal.raise_signal(signal.SIGINT)
    assert stops.stop_requested and stops.interrupted
    stops.concern(lives)
    assert lives.asked == 1


def test_a_process_that_is_asked_to_leave_before_it_is_a_node_opens_no_log() -> None:
    stops, lives = StopSignals(), Runs()
    stops.listen()
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(StoppedEarly):
        live(lives.opened, lives.run_once, lambda: 0.0, stops)
    assert not lives.logs and lives.open == 0 and not stops.interrupted


@pytest.mark.parametrize(
    ("words", "is_node"),
    [
        ("node m:j", True),
        ("-D node.truncate_internal_topics=false --log-level debug --config node.toml node m:j --json", True),
        ("txn node m:p --number 3", True),
        ("--log-level debug txn node m:p", True),
        ("run node:job", False),
        ("-D a=b run m:j", False),
        ("txn call node k f", False),
        ("log tail node", False),
        ("", False),
    ],
)
def test_only_the_commands_of_nodes_listen_to_signals_from_their_first_line(words: str, is_node: bool) -> None:
    assert starts_node(words.split()) is is_node


@pytest.mark.parametrize(
    ("words", "is_run"),
    [
        ("run m:j", True),
        ("-D a=run --log-level debug run m:j --nodes 3", True),
        ("run m:j --help", False),
        ("run -h", False),
        ("txn run m:p", False),
        ("-D run m:j", False),
        ("node run:job", False),
        ("", False),
    ],
)
def test_only_runs_of_jobs_have_a_node_prepared(words: str, is_run: bool) -> None:
    assert starts_fleet(words.split()) is is_run
