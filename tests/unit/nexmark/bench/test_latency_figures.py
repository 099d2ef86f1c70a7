"""Latency by hand: two partitions, windows of 10 ms, and what closes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from holon.outputs.identity import OutputId, Track
from nexmark.latency import figures
from nexmark.latency.figures import Delays, InputColumns
from nexmark.latency.flink import closed_ends, with_unfinished
from nexmark.latency.plan import LatencyPlan


@dataclass(frozen=True)
class Result:
    identity: OutputId
    timestamp_ms: int
    value: bytes = b"{}"


def column(*rows: tuple[int, int]) -> InputColumns:
    """Bids at 7 cents: (event time, append time)."""
    times, appended = zip(*rows, strict=True)
    return InputColumns(np.array(times), np.array(appended), np.full(len(rows), 7))


def result(end_ms: int, appended_ms: int) -> Result:
    return Result(OutputId("j", 0, 0, Track.WINDOW, end_ms, 0), appended_ms)


#  event times:   0 ..... 10 ..... 20        appended at
COLUMNS = [
    column((1, 101), (12, 112), (21, 125)),
    column((3, 103), (10, 118), (29, 131)),
]


def test_a_window_is_closed_by_the_last_partition_to_pass_its_end() -> None:
    found = figures.delays([result(10, 121), result(20, 140)], COLUMNS, since_ms=0)
    assert found.closed_ms.tolist() == [118, 131]
    assert found.delays_ms.tolist() == [3, 9]


def test_windows_that_only_the_end_of_input_closes_do_not_count() -> None:
    assert figures.delays([result(30, 150)], COLUMNS, since_ms=0).delays_ms.tolist() == []


def test_what_closes_while_warming_up_does_not_count() -> None:
    found = figures.delays([result(10, 121), result(20, 140)], COLUMNS, since_ms=119)
    assert found.delays_ms.tolist() == [9]


def test_missing_and_wrong_results_are_differences() -> None:
    right = b'{"window_end":10,"max_price":7,"bids":2}'
    wrong = b'{"window_end":20,"max_price":7,"bids":3}'
    outputs = [Result(result(10, 121).identity, 121, right), Result(result(20, 140).identity, 140, wrong)]
    # the third window's result is missing; the second one's is wrong: missing once, and not expected once
    assert figures.differences("q7max", COLUMNS, 10, outputs) == 3


FAILED = Delays(np.array([100, 200, 300, 400]), np.array([2, 250, 150, 2]))
HEALTHY = Delays(np.array([100, 200, 300, 400]), np.array([2, 2, 2, 2]))


def test_a_kill_is_over_with_the_last_result_that_is_later_than_any_before_it() -> None:
    assert figures.longest_delay_ms(FAILED, 150) == 250
    assert figures.recovered_ms(FAILED, 150) == 450 - 150
    assert figures.recovered_ms(HEALTHY, 150) == 0


def test_sensitivity_is_the_area_above_the_curve_without_failures() -> None:
    assert figures.sensitivity(FAILED, HEALTHY, 100, 500) == pytest.approx(248 * 0.1 + 148 * 0.1)
    assert figures.sensitivity(HEALTHY, HEALTHY, 100, 500) == 0


def test_a_window_without_a_result_counts_until_the_end_of_the_run() -> None:
    assert closed_ends(LatencyPlan("q7max", 1, 1.0, window_ms=10), COLUMNS) == {10, 20}
    answered = figures.delays([result(10, 121)], COLUMNS, since_ms=0)
    found = with_unfinished(answered, COLUMNS, {20}, began_ms=0, ended_ms=200)
    assert (found.closed_ms.tolist(), found.delays_ms.tolist()) == ([118, 131], [3, 69])
    assert with_unfinished(answered, COLUMNS, {20}, began_ms=0, ended_ms=130).delays_ms.tolist() == [3]
