"""Nodes that a real broker cannot be reached by, or only one way, for a while: the results stay exact."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.fleet.monitor import Monitor
from tests.integration.fleet_support import UNTRIMMED, owners
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_proxy import FETCH, PRODUCE, Proxy, Rule
from tests.integration.kafka_stage import OUTLASTS_ALL_CUTS, KafkaStage
from tests.integration.processes import until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap(), OUTLASTS_ALL_CUTS, UNTRIMMED)
    yield stage
    stage.log.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(session_bootstrap()) as proxy:
        yield proxy


def cut_off(stage: KafkaStage, proxy: Proxy, cuts: list, least_s: float) -> Monitor:
    """Node 0 sits behind the proxy, node 1 does not. Each cut is made, and mended once node 1 has worked without the
    other for so long; then both work again."""
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(0) as fleet:
        stage.add(fleet, 0, f"log.bootstrap={proxy.bootstrap}", expected=2)
        stage.add(fleet, 1, expected=2)
        with stage.feeding():
            for cut in cuts:
                stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
                rule: Rule = cut()
                began_s = time.monotonic()
                stage.until(monitor, lambda: set(owners(monitor)) == {1}, "the other owns all", fleet)
                before = monitor.consumed
                stage.until(monitor, lambda at=before: monitor.consumed > at + 500, "it works on", fleet)
                until(lambda at=began_s: time.monotonic() > at + least_s, "the cut is over")
                rule.release()
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "the first is back", fleet)
        assert len(fleet.running()) == 2
        return stage.finish(run, fleet)


def test_a_node_that_is_cut_off_for_5_s_is_replaced_and_comes_back(stage: KafkaStage, proxy: Proxy) -> None:
    cut_off(stage, proxy, [proxy.hold], least_s=5.0)
    stage.assert_exact()


def test_a_node_that_hears_nothing_or_is_not_heard_splits_nothing(stage: KafkaStage, proxy: Proxy) -> None:
    """Loss in one direction: its requests arrive and their replies do not, then the other way round."""
    cut_off(stage, proxy, [lambda: proxy.hold("reply"), lambda: proxy.hold("request")], least_s=2.0)
    stage.assert_exact()


def test_a_node_whose_control_records_alone_are_lost_does_no_harm(stage: KafkaStage, proxy: Proxy) -> None:
    """Its appends to the control topic are held: it falls silent, although heartbeats have a client of their own."""
    control = f"{stage.prefix}_holon.mixed.control"
    cut_off(stage, proxy, [lambda: proxy.hold("request", key=PRODUCE, topic=control)], least_s=2.0)
    stage.assert_exact()


def test_a_node_that_is_heard_by_its_control_records_alone_works_on(stage: KafkaStage, proxy: Proxy) -> None:
    """Heartbeats alone are held."""
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(0) as fleet:
        stage.add(fleet, 0, f"log.bootstrap={proxy.bootstrap}", expected=2)
        stage.add(fleet, 1, expected=2)
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
            rule = proxy.hold("request", key=PRODUCE, topic=f"{stage.prefix}_holon.mixed.heartbeats")
            before = monitor.consumed
            stage.until(monitor, lambda: monitor.consumed > before + 2000, "they work on", fleet)
            rule.release()
        assert len(fleet.running()) == 2
        stage.finish(run, fleet)
    stage.assert_exact()


def test_a_node_whose_reads_alone_are_cut_is_not_believed(stage: KafkaStage, proxy: Proxy) -> None:
    """All that it sends arrives, also that it lives; it falls silent once it waits in vain for what others say."""
    stage.definitions = (*stage.definitions, "node.function_timeout_ms=600000")  # until then it would be believed
    cut_off(stage, proxy, [lambda: proxy.hold("reply", key=FETCH)], least_s=2.0)
    stage.assert_exact()
