"""Nodes that a real broker cannot be reached by, or only one way, for a while: the results stay exact."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet
from tests.integration.fleet_support import UNTRIMMED, owners
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_proxy import FETCH, PRODUCE, Direction, Proxy, Rule
from tests.integration.kafka_stage import OUTLASTS_ALL_CUTS, KafkaStage
from tests.integration.processes import PLENTY_S, until


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap(), OUTLASTS_ALL_CUTS, UNTRIMMED)
    yield stage
    stage.log.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(session_bootstrap()) as proxy:
        yield proxy


def heals(stage: KafkaStage, proxy: Proxy, cut: Callable[[], Rule], least_s: float = 2.0) -> None:
    """Node 0 sits behind the proxy, node 1 does not. The cut ends once node 1 has worked alone for so long.

    Then node 1 leaves: node 0 has all partitions, and works. While another node lives, one that was taken for dead gets
    nothing for half a minute or longer (``PROOF_TIMES``), which unit tests of ownership show in simulated time.
    """
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(0) as fleet:
        first = stage.add(fleet, 0, f"log.bootstrap={proxy.bootstrap}", expected=2)
        second = stage.add(fleet, 1, expected=2)
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
            rule = cut()
            began_s = time.monotonic()
            stage.until(monitor, lambda: set(owners(monitor)) == {1}, "the other owns all", fleet)
            works_on(stage, monitor, fleet)
            until(lambda: time.monotonic() > began_s + least_s, "the cut is over")
            rule.release()
            assert fleet.running() == [first, second]
            second.process.terminate()
            stage.until(monitor, lambda: set(owners(monitor)) == {0}, "the first owns all", fleet)
            works_on(stage, monitor, fleet)
            assert second.process.wait(PLENTY_S) == 0
        assert fleet.running() == [first]
        stage.finish(run, fleet)
    stage.assert_exact()


def works_on(stage: KafkaStage, monitor: Monitor, fleet: Fleet) -> None:
    before = monitor.consumed
    stage.until(monitor, lambda: monitor.consumed > before + 500, "records are read", fleet)


def test_a_node_that_is_cut_off_for_5_s_is_replaced_and_comes_back(stage: KafkaStage, proxy: Proxy) -> None:
    heals(stage, proxy, proxy.hold, least_s=5.0)


@pytest.mark.long
@pytest.mark.parametrize("direction", ["reply", "request"])
def test_a_node_that_hears_nothing_or_is_not_heard_splits_nothing(
    stage: KafkaStage, proxy: Proxy, direction: Direction
) -> None:
    """Loss in one direction: its requests arrive and their replies do not, or the other way round."""
    heals(stage, proxy, lambda: proxy.hold(direction))


@pytest.mark.long
def test_a_node_whose_control_records_alone_are_lost_does_no_harm(stage: KafkaStage, proxy: Proxy) -> None:
    """Its appends to the control topic are held: it falls silent, although heartbeats have a client of their own."""
    control = f"{stage.prefix}_holon.mixed.control"
    heals(stage, proxy, lambda: proxy.hold("request", key=PRODUCE, topic=control))


@pytest.mark.long
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


@pytest.mark.long
def test_a_node_whose_reads_alone_are_cut_is_not_believed(stage: KafkaStage, proxy: Proxy) -> None:
    """All that it sends arrives, also that it lives; it falls silent once it waits in vain for what others say."""
    stage.definitions = (*stage.definitions, "node.function_timeout_ms=600000")  # until then it would be believed
    heals(stage, proxy, lambda: proxy.hold("reply", key=FETCH))
