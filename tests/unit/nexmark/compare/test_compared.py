"""Answers and figures of `holon bench`."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from nexmark.bench.meter import Measure
from nexmark.compare.cases import BY_FLOW, BY_RECORD, ComparedJob
from nexmark.compare.result import JobComparison, JobRow, as_text, figures, ratios
from nexmark.compare.rows import differences
from nexmark.compare.run import measured
from nodes.api import RunFailed


def measure(seconds: float, cpu_s: float) -> Measure:
    return Measure(seconds, cpu_s, peak_process_mb=10.0, peak_all_mb=20.0, others_s=0.0)


def test_rows_agree_in_any_order_with_times_as_text_and_floats_of_another_order_of_sums() -> None:
    mine = [b'{"window_start":1752969600000,"k":"a","mean":0.3}', b'{"window_start":0,"k":"b","mean":1.0}']
    theirs = [b'{"mean":1.0,"window_start":0,"k":"b"}', b'{"window_start":"2025-07-20 00:00:00","k":"a","mean":0.30000000000000004}']  # fmt: skip # noqa: E501
    assert differences(mine, theirs) == []


@pytest.mark.parametrize(
    "other",
    [
        b'{"k":"a","n":2,"x":0.5}',
        b'{"k":"a","n":1,"x":0.50001}',
        b'{"k":"a","n":1}',
        b'{"k":"a","n":1.0,"x":0.5}',
        b'{"k":"b","n":1,"x":0.5}',
    ],
)
def test_rows_that_differ_are_shown(other: bytes) -> None:
    mine = b'{"k":"a","n":1,"x":0.5}'
    assert differences([mine], [other])
    assert differences([mine], []) and differences([], [mine])
    assert differences([mine, mine], [mine])


def test_ratios_are_medians_of_pairs_and_say_whether_the_wish_is_met() -> None:
    engines = {
        "holon": figures(1000, [measure(1, 1), measure(2, 1), measure(1, 1)]),
        BY_RECORD: figures(1000, [measure(4, 4)] * 3),
        "flink": figures(1000, [measure(2, 3), measure(2, 3), measure(9, 3)]),
        "bytewax": figures(1000, [measure(7, 7)] * 3),
    }
    found = ratios(engines)
    assert found["holon"]["flink"].events_per_s == 2.0
    assert found["holon"]["flink"].events_per_cpu_s == 3.0
    assert found["holon"]["flink"].met is True
    assert found["holon"]["bytewax"].met is False
    assert found[BY_RECORD]["bytewax"].met is False
    assert found[BY_RECORD]["flink"].met is None


@pytest.mark.parametrize(("cpu_s", "met"), [(1.09, True), (1.11, False)])
def test_a_flow_is_wished_to_cost_at_most_a_tenth_more_than_its_job(cpu_s: float, met: bool) -> None:
    engines = {"holon": figures(1000, [measure(1, 1)]), BY_FLOW: figures(1000, [measure(5, cpu_s)])}
    assert list(ratios(engines)) == [BY_FLOW]
    assert ratios(engines)[BY_FLOW]["holon"].met is met


def test_the_table_names_what_is_missing_and_what_differs() -> None:
    row = JobRow(
        job="clicks", events=1000, bytes_per_event=100.0, agree=False, answers={"holon": 1, "flink": 2},
        differences=["holon and flink: no row against x"], engines={"holon": figures(1000, [measure(1, 1)])},
        ratios={}, missing={"quix": "there is no code\nat all"},
    )  # fmt: skip
    result = JobComparison(
        rows=[row], agree=False, log="kafka", compression="none", seed=0, partitions=4, nodes=2, pairs=1,
        checkpoints_s=1.0, other_load_cores=3.0, quiet=False, missing_peers={"pathway": "not here"}, settings={},
        machine={},
    )  # fmt: skip
    text = as_text(result)
    for part in ("**no**", "clicks, quix: there is no code", "pathway was left out: not here", "too busy", "no row"):
        assert part in text


class Fixed:
    """An engine whose run ``fails`` has no end."""

    def __init__(self, fails: int | None = None) -> None:
        self.fails, self.runs = fails, 0

    def run(self, case: ComparedJob, number: int) -> tuple[Measure, list[bytes]]:
        self.runs += 1
        if self.runs == self.fails:
            raise RunFailed("the broker has no leader")
        return measure(1, 1), []

    def shown_settings(self) -> dict[str, str]:
        return {}


def test_an_engine_that_fails_once_has_no_figures_and_others_keep_theirs() -> None:
    engines, steps = {"holon": Fixed(), "quix": Fixed(fails=2)}, list[str]()
    case = ComparedJob("orders", "orders:job", Path("orders.py"))
    measures, failed = measured(3, case, engines, 1000, count(), steps.append)
    assert {name: len(of) for name, of in measures.items()} == {"holon": 3}
    assert failed == {"quix": "the broker has no leader"}
    assert "orders: quix is left out: the broker has no leader" in steps
    assert engines["quix"].runs == 2
