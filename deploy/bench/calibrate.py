"""Costs of a node's steps on this machine: microseconds a turn, a batch, an event, a delta, ... as JSON.

    .venv/bin/python deploy/bench/calibrate.py [--out runs/scale/costs.json] [--seconds 2]

Real nodes that share nothing run q7 in small simulated fleets of several shapes; each turn's CPU time (of its thread)
is taken, and costs are fitted to them (``nodes/sim``). The cost of an event more in a batch is measured with
Nexmark's JSON, without the compiled loops. The log is the one in memory: a broker and its client are not in it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from deploy.stand_ins import WINDOW_MS, BidTicks
from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.queries import TOPIC, nexmark_job
from nodes.log.memory import MemoryLog
from nodes.machine.config import NodeConfig
from nodes.machine.node import Node
from nodes.sim.large_fleets.costs import KINDS, Costs, TurnCounts, fit
from nodes.sim.large_fleets.timed import TimedFleet, TimedPlan
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.driver import Driver
from nodes.streams.jobs import open_job

SHAPES = ((4, 4, 4), (4, 20, 4), (10, 50, 4), (60, 60, 3), (300, 300, 1))
"""Nodes, partitions, and how many of the nodes share nothing: those are measured."""
CONFIG = NodeConfig("", heartbeat_interval_ms=80, failure_timeout_ms=1000, broadcast_interval_ms=200)
SMALL, LARGE, BATCHES = 100, 2000, 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/scale/costs.json"))
    parser.add_argument("--seconds", type=float, default=2.0, help="of virtual time for each shape")
    options = parser.parse_args()
    found = calibrate(options.seconds)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def calibrate(seconds: float, shapes: Sequence[tuple[int, int, int]] = SHAPES) -> dict[str, Any]:
    """Costs, and how well they predict what the measured turns of each shape cost in all."""
    began_s = time.monotonic()
    known = TurnCounts(events=event_us())
    turns = {shape: timed_turns(*shape, seconds) for shape in shapes}
    costs = fit([turn for of_shape in turns.values() for turn in of_shape], known)
    return {
        "costs_us": {name: round(getattr(costs, name), 3) for name in KINDS},
        "turns": {f"{shape[0]} nodes, {shape[1]} partitions": _figures(costs, turns[shape]) for shape in shapes},
        "took_s": round(time.monotonic() - began_s, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def costs_of(found: dict[str, Any]) -> Costs:
    """From the JSON of this script."""
    return msgspec.convert(found["costs_us"], Costs)


def _figures(costs: Costs, turns: Sequence[tuple[TurnCounts, float]]) -> dict[str, float]:
    measured_us, modelled_us = sum(us for _, us in turns), sum(costs.us(done) for done, _ in turns)
    return {"turns": len(turns), "measured_ms": round(measured_us / 1e3), "model_over_measured": round(
        modelled_us / measured_us, 2)}  # fmt: skip


def timed_turns(nodes: int, partitions: int, alone: int, seconds: float) -> list[tuple[TurnCounts, float]]:
    """The work and times of turns of nodes that share nothing."""
    tick_ms = 20 if nodes < 100 else 100
    plan = TimedPlan(nodes, partitions, CONFIG, 1, WINDOW_MS, seconds, 0.5, tick_ms=tick_ms, ticks=1, alone=alone)
    fleet = TimedFleet(plan, nexmark_job("q7"), BidTicks(partitions, tick_ms), None, time.thread_time_ns)
    fleet.live()
    return [turn for member in fleet.members[:alone] for turn in member.turns]


def event_us() -> float:
    """The cost of one event more in a batch of JSON."""
    small, large = batch_us(SMALL), batch_us(LARGE)
    return max(0.0, (large - small) / (LARGE - SMALL))


def batch_us(events: int) -> float:
    """Median CPU time of a turn that reads, decodes and processes a batch."""
    log, now_ms = MemoryLog(), [0]
    log.create_topic(TOPIC, 1)
    run = open_job(log, nexmark_job("q7"))
    node = Node(NodeConfig("alone", checkpoint_interval_ms=1 << 40), run)
    driver = Driver(node, log, MemoryCheckpoints(), lambda: now_ms[0])
    while not node.work.running():
        now_ms[0] += 20
        driver.turn()
    spent = []
    for number in range(BATCHES):
        log.append(
            TOPIC, 0, encode_json(generate_slice(GeneratorConfig(seed=7), number * events, (number + 1) * events))
        )
        now_ms[0] += 1
        began_ns = time.thread_time_ns()
        driver.turn()
        spent.append((time.thread_time_ns() - began_ns) / 1000)
    assert driver.input_records == BATCHES * events, "a turn has left records behind"
    return statistics.median(spent)


if __name__ == "__main__":
    main()
