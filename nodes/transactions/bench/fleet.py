"""The node processes of a measured run, and how their number changes while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import psutil

from nodes.errors import RunFailed
from nodes.python_process import child_environment, deferred_interrupts, module_command

Kind = Literal["kill", "add-node", "remove-node"]


class Change(NamedTuple):
    """``share``: of the replies, at which it happens. ``node``: its number; -1: the next one, or the oldest."""

    share: float
    kind: Kind
    node: int = -1


@dataclass(slots=True)
class BenchFleet:
    """Processes by their number. ``changed``: what was done, and when, by the monotonic clock."""

    command: Sequence[str]
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    changed: list[tuple[Kind, int, float]] = field(default_factory=list)
    _left: set[int] = field(default_factory=set)

    def start(self) -> int:
        """One node more; its number."""
        number = len(self.processes)
        with deferred_interrupts():
            command = [*self.command, "--number", str(number)]
            self.processes[number] = subprocess.Popen(command, env=child_environment())
        return number

    def apply(self, change: Change) -> None:
        """Raises ``RunFailed`` where the last node would go."""
        number = change.node
        if change.kind == "add-node":
            number = self.start()
        else:
            staying = [each for each in self.processes if each not in self._left]
            number = staying[0] if number < 0 else number
            if staying == [number]:
                raise RunFailed(f"{change.kind} at {change.share:g} of the replies leaves no node to answer")
            self._left.add(number)
            self.processes[number].send_signal(signal.SIGKILL if change.kind == "kill" else signal.SIGTERM)
        self.changed.append((change.kind, number, time.monotonic()))

    def cpu_s(self) -> float:
        """CPU-seconds of those that live."""
        total = 0.0
        for process in self.processes.values():
            try:
                times = psutil.Process(process.pid).cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    def silences(self, answered: Sequence[float]) -> list[dict[str, object]]:
        """By change: the longest time without a reply from then on until the next change, or the end.

        ``answered``: times of replies, ascending, by the monotonic clock.
        """
        found: list[dict[str, object]] = []
        for number, (kind, node, at_s) in enumerate(self.changed):
            later = self.changed[number + 1][2] if number + 1 < len(self.changed) else answered[-1]
            times = [at_s, *(each for each in answered if at_s < each <= later)]
            longest_s = max((later_s - sooner_s for sooner_s, later_s in pairwise(times)), default=0.0)
            found.append({"change": kind, "node": node, "longest_silence_ms": 1000 * longest_s})
        return found


@contextmanager
def bench_fleet(
    reference: str, sequencers: int, options: Sequence[str], nodes: int, patience_s: float
) -> Iterator[BenchFleet]:
    """So many nodes of a program; in the end all are stopped."""
    command = module_command("nodes.cli", "txn", "node", reference)
    # The figures are of the whole log.
    command += ["--sequencers", str(sequencers), *options, "-D", "node.truncate_internal_topics=false"]
    fleet = BenchFleet(command)
    try:
        for _ in range(nodes):
            fleet.start()
        yield fleet
    finally:
        for process in fleet.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
        for process in fleet.processes.values():
            process.wait(patience_s)
