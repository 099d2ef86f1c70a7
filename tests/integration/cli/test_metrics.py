"""Metrics and health of real node processes: every name is there, the figures add up, and only who may can ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nodes.metrics.catalogue import METRICS
from tests.integration.fleet_support import NOBODY_IS_SUSPECTED, OUTPUT, PARTITIONS, Stage, owners
from tests.integration.processes import until
from tests.integration.scraping import Samples, ask, ports, scrape, total

NODES = 2
TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Here nobody is taken for dead who is only slow, unless the test says when."""
    suspicion = getattr(request, "param", NOBODY_IS_SUSPECTED)
    with (stage := Stage(tmp_path, f"metrics.targets_dir={tmp_path / 'targets'}", suspicion)).log:
        yield stage


def test_scraped_figures_have_every_name_and_add_up(stage: Stage) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    stage.feed(400)
    with stage.fleet(NODES) as fleet:
        stage.until(
            monitor, lambda: monitor.consumed == stage.fed and len(ports(monitor)) == NODES, "all is read", fleet
        )
        stage.until(monitor, lambda: sum(monitor.taken()) == stage.fed, "all is in checkpoints", fleet)
        halved = lambda: Counter(owners(monitor)) == {0: PARTITIONS // 2, 1: PARTITIONS // 2}  # noqa: E731
        stage.until(monitor, halved, "nothing is handed over any more", fleet)
        by_number = ports(monitor)
        scraped: list[Samples] = []

        def all_counted() -> bool:
            """The last windows are answered after the last records were saved, and partitions loaded late."""
            scraped[:] = [scrape(port) for port in by_number.values()]
            ends = [stage.log.end_offset(OUTPUT, p) for p in range(stage.log.partitions(OUTPUT))]
            return (
                total(scraped, "holon_numRecordsOut_total", topic=OUTPUT) == sum(ends)
                and total(scraped, "holon_partition_records_taken") == stage.fed
            )

        until(all_counted, "every output on the log is counted")
        families = set().union(*scraped)
        for name, metric in METRICS.items():
            ending = {"counter": "_total", "histogram": "_count"}.get(metric.kind, "")
            assert name + ending in families, name
        taken = total(scraped, "holon_partition_records_taken")
        outcomes = {
            o: total(scraped, "holon_partition_records", outcome=o) for o in ("accepted", "filtered", "late", "dead")
        }
        assert taken == sum(outcomes.values()) == stage.fed, outcomes
        assert total(scraped, "holon_numRecordsIn_total") >= stage.fed
        assert total(scraped, "holon_partitions_owned") == PARTITIONS
        assert total(scraped, "holon_delta_bytes_total", direction="sent") > 0
        assert total(scraped, "holon_checkpoints_total") >= PARTITIONS
        for samples in scraped:
            shares = [
                sum(samples[f"holon_{kind}TimeMsPerSecond"].values()) for kind in ("busy", "backPressured", "idle")
            ]
            assert sum(shares) == pytest.approx(1000) and min(shares) >= 0
        targets = [msgspec.json.decode(file.read_bytes())[0] for file in (stage.path.parent / "targets").glob("*.json")]
        assert {t["targets"][0] for t in targets} == {f"127.0.0.1:{port}" for port in by_number.values()}
        until(lambda: all(ask(port, "/healthz")[0] == 200 for port in by_number.values()), "the nodes are well")
        until(lambda: all(ask(port, "/readyz")[0] == 200 for port in by_number.values()), "the nodes are ready")
        stage.finish(run, fleet)
    assert not list((stage.path.parent / "targets").glob("*.json"))


@pytest.mark.parametrize("stage", ["node.failure_timeout_ms=3000"], indirect=True)
def test_takeover_is_counted_with_its_duration(stage: Stage) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    stage.feed(200)
    with stage.fleet(NODES) as fleet:
        stage.until(monitor, lambda: set(owners(monitor)) == {0, 1} and len(ports(monitor)) == NODES, "both own", fleet)
        port, before = monitor.metrics_ports()[0], monitor.steals
        stolen_before = total([scrape(port)], "holon_steals_total")
        fleet.kill(1)
        stage.until(monitor, lambda: set(owners(monitor)) == {0}, "the other has taken all over", fleet)
        until(lambda: total([scrape(port)], "holon_failover_duration_seconds_count") > 0, "it processes them")
        samples = [scrape(port)]
        taken_over = total(samples, "holon_steals_total")
        assert taken_over - stolen_before == monitor.steals - before > 0
        assert total(samples, "holon_failover_duration_seconds_count") <= taken_over
        slowest_s = total(samples, "holon_failover_duration_seconds_sum")
        assert slowest_s >= stage.settings.node.failure_timeout_ms / 1000, "silence before the suspicion counts"
        stage.finish(run, fleet)


def test_token_is_asked_for_and_never_shown(stage: Stage, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN + "\n")
    run = stage.open()
    monitor = stage.monitor(run)
    environment = {"HOLON__METRICS__HOST": "0.0.0.0", "HOLON__METRICS__TOKEN": f"file:{secret}"}
    with stage.fleet(1, environment=environment) as fleet:
        stage.until(monitor, lambda: len(ports(monitor)) == 1, "it serves", fleet)
        (port,) = ports(monitor).values()
        assert ask(port, "/metrics")[0] == 401
        assert ask(port, "/healthz", Authorization="Bearer " + TOKEN[:-1])[0] == 401
        given: list[str] = []

        def figures() -> bool:
            """Of a node whose loop has not turned since it was asked there are none yet."""
            code, text = ask(port, "/metrics", Authorization=f"Bearer {TOKEN}")
            assert code == 200
            given.append(text)
            return "holon_busyTimeMsPerSecond" in text

        until(figures, "it shows its figures")
        assert all(TOKEN not in text for text in given)
        assert ask(port, "/metrics", Authorization=f"Bearer {TOKEN}", Host="holon.example.org")[0] == 421
        stage.finish(run, fleet)
