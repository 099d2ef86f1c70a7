"""How much more sensitive to failures a peer is than Holon."""

from __future__ import annotations

from nexmark.latency.load import Load
from nexmark.latency.report import FailoverRow, ratio_lines, sensitivity_ratios


def row(engine: str, profile: str, sensitivity: float) -> FailoverRow:
    return FailoverRow(
        query="q7max", log="kafka", rate=1, seconds=1, nodes=3, replicas=1, window_ms=100, results=1, latency_ms=None,
        partitions=1, warmup_s=0, events=1, outputs=1, differences=0, repeats_dropped=0, feed_behind_ms=0,
        load_cores=Load(0, 0, None, 0), scenario="single", engine=engine, profile=profile, killed=[1],
        longest_delay_ms=1, recovered_ms=1, sensitivity=sensitivity, baseline_ms=None,
    )  # fmt: skip


def test_each_peer_is_compared_with_holon() -> None:
    rows = [row("flink", "default", 900.0), row("holon", "", 20.0), row("flink", "tuned:spare", 50.0)]
    ratios = sensitivity_ratios(rows)
    assert ratios == {"flink default": 45.0, "flink tuned:spare": 2.5}
    assert ratio_lines(ratios)[0] == "sensitivity of flink default: 45.0 times Holon's"


def test_without_holon_or_without_an_effect_on_it_there_is_no_ratio() -> None:
    assert sensitivity_ratios([row("flink", "tuned", 9.0)]) == {}
    assert sensitivity_ratios([row("holon", "", 0.0), row("flink", "tuned", 9.0)]) == {"flink tuned": None}
