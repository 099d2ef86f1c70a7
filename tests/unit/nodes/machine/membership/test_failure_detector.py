"""Suspected nodes and times, on an observer's clock that may stall and jump."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.membership.failure_detector import Detector

HOUR_MS = 3_600_000


def run(detector: Detector, members: list[str], start_ms: int, end_ms: int, step_ms: int = 50) -> list[str]:
    """Step the observer's clock without hearing anybody; whom it suspects at the end."""
    for now_ms in range(start_ms + step_ms, end_ms + 1, step_ms):
        detector.stalled(now_ms)
    return detector.suspects(members, end_ms)


def test_a_silent_node_is_suspected_at_the_configured_time_and_not_before() -> None:
    detector = Detector(300)
    detector.record_heartbeat("a", 1_000)
    assert run(detector, ["a"], 1_000, 1_250) == []
    assert detector.suspects(["a"], 1_299) == []
    assert detector.suspects(["a"], 1_300) == ["a"]


def test_a_heartbeat_ends_the_suspicion() -> None:
    detector = Detector(300)
    detector.record_heartbeat("a", 0)
    assert run(detector, ["a"], 0, 400) == ["a"]
    detector.record_heartbeat("a", 401)
    assert detector.suspects(["a"], 402) == []
    assert run(detector, ["a"], 402, 702) == ["a"]


def test_suspects_are_sorted_and_only_members() -> None:
    detector = Detector(300)
    for node in ("c", "a", "b"):
        detector.record_heartbeat(node, 0)
    run(detector, [], 0, 300)
    assert detector.suspects(["c", "a"], 300) == ["a", "c"]


def test_a_member_that_was_never_heard_has_its_grace_from_the_first_question() -> None:
    detector = Detector(300)
    run(detector, [], 0, 1_000)
    assert detector.suspects(["new"], 1_000) == []
    assert run(detector, ["new"], 1_000, 1_250) == []
    assert run(detector, ["new"], 1_250, 1_300) == ["new"]


def test_a_forgotten_node_starts_anew() -> None:
    detector = Detector(300)
    detector.record_heartbeat("a", 0)
    assert run(detector, ["a"], 0, 300) == ["a"]
    detector.forget("a")
    assert detector.suspects(["a"], 300) == []
    assert detector.silence_ms("b", 300) is None


def test_a_stalled_observer_suspects_nobody_until_it_has_caught_up() -> None:
    detector = Detector(300)
    detector.record_heartbeat("a", 0)
    assert detector.stalled(10_000)
    assert detector.suspects(["a"], 10_000) == []
    assert run(detector, ["a"], 10_000, 12_000) == []  # running again, but what the others wrote is still unread
    detector.caught_up(12_000)
    assert not detector.stalled(12_000)
    assert detector.suspects(["a"], 12_000) == []  # everyone's grace starts anew
    assert run(detector, ["a"], 12_000, 12_250) == []
    assert run(detector, ["a"], 12_250, 12_300) == ["a"]


def test_a_stall_is_noticed_even_if_nobody_asked_for_it() -> None:
    detector = Detector(300)
    detector.record_heartbeat("a", 0)
    assert detector.suspects(["a"], 10_000) == []
    assert detector.stalled(10_000)


def test_a_read_that_ended_before_the_stall_does_not_end_it() -> None:
    detector = Detector(300)
    detector.record_heartbeat("a", 0)
    detector.caught_up(10_000)  # the shell was stopped between the read and this step
    assert detector.stalled(10_000)


def test_heartbeats_that_were_waiting_in_the_log_count_after_a_stall() -> None:
    detector = Detector(300)
    for node in ("alive", "dead"):
        detector.record_heartbeat(node, 0)
    for now_ms in (5_000, 10_000, 15_000):
        assert detector.stalled(now_ms)
        detector.record_heartbeat("alive", now_ms)  # read on the way to the topic's end
        detector.caught_up(now_ms)
        assert run(detector, ["alive"], now_ms, now_ms + 50) == []
    assert detector.suspects(["alive", "dead"], 15_050) == ["dead"]


def test_a_dead_node_gets_only_one_new_grace_so_that_a_slow_observer_finds_it() -> None:
    detector = Detector(300, stall_after_ms=100)
    detector.record_heartbeat("dead", 0)
    found = []
    for now_ms in (5_000, 10_000, 15_000, 20_000):  # every step is a stall, and counts for 100 ms
        assert detector.stalled(now_ms)
        detector.caught_up(now_ms)
        found.append(detector.suspects(["dead"], now_ms))
    assert found == [[], [], [], ["dead"]]


def test_a_heartbeat_earns_a_new_grace_at_the_next_stall() -> None:
    detector = Detector(300)
    for now_ms in (0, 5_000, 10_000):
        detector.stalled(now_ms)
        detector.caught_up(now_ms)
        assert detector.suspects(["a"], now_ms) == []
        detector.record_heartbeat("a", now_ms)
        assert run(detector, ["a"], now_ms, now_ms + 250) == []


def test_a_clock_that_jumps_back_by_an_hour_neither_accuses_nor_protects() -> None:
    detector = Detector(300)
    detector.record_heartbeat("a", HOUR_MS)
    assert run(detector, ["a"], HOUR_MS, HOUR_MS + 200) == []
    assert detector.suspects(["a"], 200) == []  # the jump
    assert run(detector, ["a"], 200, 250) == []
    assert run(detector, ["a"], 250, 300) == ["a"]


def test_a_clock_that_jumps_ahead_by_an_hour_accuses_nobody() -> None:
    detector = Detector(300)
    detector.record_heartbeat("a", 0)
    detector.record_heartbeat("b", 0)
    assert detector.stalled(HOUR_MS)
    detector.caught_up(HOUR_MS)
    assert detector.suspects(["a", "b"], HOUR_MS) == []


def test_times_of_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="above 0 ms"):
        Detector(0)
    with pytest.raises(ValueError, match="above 0 ms"):
        Detector(300, 0)


@given(st.lists(st.integers(-HOUR_MS, HOUR_MS), min_size=1, max_size=60), st.integers(1, 1_000))
def test_whatever_the_clock_does_a_heard_node_is_no_suspect_and_a_silent_one_is_found(
    jumps: list[int], failure_timeout_ms: int
) -> None:
    detector = Detector(failure_timeout_ms)
    now_ms = 0
    detector.record_heartbeat("dead", now_ms)
    for jump_ms in jumps:
        now_ms += jump_ms
        if detector.stalled(now_ms):
            detector.caught_up(now_ms)
        detector.record_heartbeat("alive", now_ms)
        assert "alive" not in detector.suspects(["alive", "dead"], now_ms)
    for _ in range(2 * failure_timeout_ms // detector.stall_after_ms + 2):  # bounded, though every step is a stall
        now_ms += detector.stall_after_ms + 1
        detector.stalled(now_ms)
        detector.caught_up(now_ms)
    assert detector.suspects(["dead"], now_ms) == ["dead"]
