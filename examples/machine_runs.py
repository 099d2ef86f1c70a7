"""Runs of machines, each from its switch on to its switch off; and the parts that they have made, three to a box.

A run without an end, as the switch off got lost, is over after six hours. Each minute shows how far a run is.
"""

import msgspec

from holon import Json
from holon.dataflow import Between, Count, Flow, Group


class Signal(msgspec.Struct):
    ts: int
    machine: str
    kind: str
    watts: int = 0


class Run(msgspec.Struct):
    machine: str
    start: int
    seconds: int
    parts: int
    most_watts: int
    over: bool
    lost: bool


class Box(msgspec.Struct):
    machine: str
    packed: int
    parts: int


def run(group: Group[str, Signal]) -> Run:
    return Run(
        group.key,
        group.window.start_ms,
        (group.window.end_ms - group.window.start_ms) // 1000,
        group.sum(lambda signal: 1 if signal.kind == "part" else 0),
        group.max(lambda signal: signal.watts),
        group.final,
        group.timed_out,
    )


def box(group: Group[str, Signal]) -> Box:
    return Box(group.key, group.window.end_ms - 1, group.count())


flow = Flow("machine-runs")
signals = flow.source("signals", Json(Signal), time=lambda signal: signal.ts, out_of_order="2s")
runs = Between[Signal](start=lambda s: s.kind == "on", end=lambda s: s.kind == "off", timeout="6h")
by_machine = signals.key_by(lambda signal: signal.machine)
by_machine.window(runs, early="1m", updates="upsert").agg(run).sink("runs", key=lambda one: one.machine)
parts = signals.filter(lambda signal: signal.kind == "part").key_by(lambda signal: signal.machine)
boxes = parts.window(Count(3)).agg(box)
boxes.sink("boxes", key=lambda one: one.machine)
boxes.late.sink("parts-too-late")
