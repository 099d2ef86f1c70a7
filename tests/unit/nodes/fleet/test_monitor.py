"""The view from outside that a fleet's topics give."""

from __future__ import annotations

from nodes.fleet.monitor import Monitor
from nodes.log import MemoryLog
from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint, encode_control_checkpoint
from nodes.streams.control_history import JobControlHistory
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


def test_a_monitor_that_begins_again_after_trimming_counts_what_was_stolen_meanwhile() -> None:
    log = MemoryLog()
    log.create_topic("in", 2)
    run = open_job(log, count_job())
    monitor = Monitor(log, run)

    def say(*messages: m.ControlMessage) -> int:
        return log.append(monitor.topics.control, 0, [m.encode(one) for one in messages]).first_offset + len(messages)

    say(m.Hello(run.incarnation, "n0", number=0), m.Claim(run.incarnation, "n0", 0, 1))
    monitor.poll()
    end = say(m.Hello(run.incarnation, "n1", number=1), m.Claim(run.incarnation, "n1", 0, 2))
    history = JobControlHistory(log, run.job)
    state = encode_control_checkpoint(ControlCheckpoint(end, history.ownership.snapshot()))
    log.append(monitor.topics.control_checkpoints, 0, [state])
    log.delete_before(monitor.topics.control, 0, end)
    say(m.Claim(run.incarnation, "n0", 0, 3))
    monitor.poll()
    assert monitor.steals == 2
    assert Monitor(log, run).steals == 0, "of this monitor's own time"
