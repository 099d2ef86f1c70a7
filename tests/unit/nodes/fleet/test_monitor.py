"""The view from outside that a fleet's topics give."""

from __future__ import annotations

from nodes.fleet.monitor import Monitor
from nodes.log import MemoryLog
from nodes.machine import messages as m
from nodes.streams.jobs import open_job
from tests.unit.node_dialogue import count_job


def test_a_heartbeat_that_is_read_before_its_node_has_joined_gets_its_number_later() -> None:
    log = MemoryLog()
    log.create_topic("in", 2)
    run = open_job(log, count_job())
    monitor = Monitor(log, run)
    beat = m.Heartbeat(run.incarnation, "n0", 1, stats={"metrics_port": 9000.0})
    log.append(monitor.topics.heartbeats, 0, [m.encode(beat)])
    monitor.poll()
    assert monitor.metrics_ports() == {}
    log.append(monitor.topics.control, 0, [m.encode(m.Hello(run.incarnation, "n0", number=0))])
    monitor.poll()
    assert monitor.metrics_ports() == {0: 9000}
