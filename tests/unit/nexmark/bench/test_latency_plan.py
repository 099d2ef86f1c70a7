"""Plans that `holon nexmark latency` and `failover` refuse before anything starts, and the scenarios of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexmark.latency.commands import failover
from nexmark.latency.plan import LatencyPlan, with_scenario
from nexmark.latency.plot import check_plot
from nexmark.latency.run_log import measuring_place
from nodes.api import SettingsError, UnknownName

PLAN = LatencyPlan("q7max", rate=2000, seconds=40, nodes=5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"query": "q7maxx"}, "q7max"),
        ({"rate": 0}, "rate must be above 0"),
        ({"nodes": 1, "replicas": 2}, "cannot keep so many replicas"),
        ({"warmup_s": -1.0}, "warmup"),
    ],
)
def test_a_plan_that_cannot_be_run(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises((SettingsError, UnknownName), match=said):
        LatencyPlan(**{"query": "q7max", "rate": 1, "seconds": 1.0, **wrong})


@pytest.mark.parametrize(
    ("scenario", "killed", "restarts"),
    [("single", 1, False), ("concurrent", 2, True), ("subsequent", 2, True), ("crash", 2, False)],
)
def test_scenarios_kill_as_the_paper_does(scenario: str, killed: int, restarts: bool) -> None:
    faults = with_scenario(PLAN, scenario).faults
    assert sum(len(fault.nodes) for fault in faults) == killed
    assert {fault.restart_after_s for fault in faults} == {10.0 if restarts else None}
    times = [fault.at_s for fault in faults]
    assert max(times) - min(times) <= 5 and len(times) == (2 if scenario == "subsequent" else 1)


def test_a_scenario_needs_nodes_that_stay() -> None:
    with pytest.raises(SettingsError, match="too few"):
        with_scenario(LatencyPlan("q7max", 1, 10, nodes=2), "crash")


def test_an_unknown_scenario_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="single"):
        with_scenario(PLAN, "singel")


def test_places_that_there_are_not() -> None:
    with pytest.raises(UnknownName, match="embedded"), measuring_place("embeded", None, print):
        pass
    with pytest.raises(SettingsError, match="--bootstrap"), measuring_place("embedded", "localhost:1", print):
        pass


def test_pictures_that_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\.png"):
        check_plot(tmp_path / "x.bmp")
    with pytest.raises(SettingsError, match="no folder"):
        check_plot(tmp_path / "none" / "x.png")


def test_other_engines_are_known_by_name_and_read_kafka_alone() -> None:
    with pytest.raises(SettingsError, match="Flink reads Kafka"):
        failover(ctx=None, engines="holon,flink", log="embedded")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="flonk"):
        failover(ctx=None, engines="holon,flonk")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="tuned"):
        failover(ctx=None, engines="flink", flink="tunes")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="NAME:spare"):
        failover(ctx=None, engines="flink", flink="tuned:span")  # type: ignore[arg-type]
