"""One `holon run`: a fleet on a job until the job is done, has failed, or is stopped."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from nodes.errors import RunFailed, Unreachable
from nodes.fleet.account import RunEnding
from nodes.fleet.end_of_input import Bounds
from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import STOP_TIMEOUT_S, Fleet
from nodes.fleet.progress import ProgressReader, wall_clock_ms
from nodes.fleet.screen import Screen
from nodes.fleet.supervisor import Supervisor
from nodes.log.contract import Log
from nodes.machine.config import JobRun
from nodes.machine.workload import PID
from nodes.runtime.log_opening import check_at_next_opening
from nodes.runtime.stop_signals import KeptSignals
from nodes.settings.settings import Settings

CHECK_INTERVAL_S = 0.05
LEAVING_INTERVAL_S = 0.01
"""Nodes of a job that is over leave within some ten milliseconds."""
MEASURE_S = 1.0
LEAVE_S = 5.0
"""How long nodes may take to leave by themselves once the job is over."""
STUCK_S = 30.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """``reference`` is ``MODULE:JOB``, for the node processes."""

    reference: str
    nodes: int = 1
    accept_code: bool = False


class FleetRun:
    """Runs the fleet. ``monitor`` was polled before: a job that it reports as done or failed stays so.

    ``bounds``: of a bounded run; declared once a node of this fleet has joined, as one that never runs ends nothing.
    """

    def __init__(
        self,
        log: Log,
        run: JobRun,
        monitor: Monitor,
        settings: Settings,
        options: RunOptions,
        screen: Screen,
        bounds: Bounds | None = None,
    ) -> None:
        self._bounds = bounds
        self.log = log
        self.run = run
        self.monitor = monitor
        self.options = options
        self.screen = screen
        self.lines: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self.fleet = Fleet(options.reference, settings, options.nodes, options.accept_code, lines=self.lines)
        self.fleet.until = () if bounds is None or bounds.declared else bounds.ends
        accused = lambda: monitor.ownership.accused()  # noqa: E731  # the fold changes with each poll
        self.supervisor = Supervisor(
            self.fleet, screen.print_line, self._has_begun, check_at_next_opening(settings), accused
        )
        self.progress = ProgressReader(monitor, self.fleet, settings.node.failure_timeout_ms)
        self._measured_s = float("-inf")
        self._moved: tuple[object, float] = (None, 0.0)

    def execute(self) -> RunEnding:
        """Start the nodes and stay with them. Raises ``RunFailed`` if all have crashed, ``KeyboardInterrupt`` on a
        second signal."""
        with KeptSignals() as interrupts, self.screen:
            try:
                self.fleet.start()
                while not (interrupts.count or self._is_over()):
                    self._check()
                self._leave(interrupts)
            except BaseException:
                self.fleet.kill_all()
                raise
            finally:
                self._print_last_lines()
        self._refuse_unsaved()
        if interrupts.first is not None and not self.monitor.done:
            return RunEnding.INTERRUPTED if interrupts.first == signal.SIGINT else RunEnding.STOPPED
        if self.monitor.failure is not None:
            return RunEnding.FAILED
        if self.monitor.superseded:
            raise RunFailed(f"job {self.run.job.name!r}: a newer incarnation was started, so this run has ended")
        return RunEnding.DONE if self.monitor.done else RunEnding.STOPPED

    def _refuse_unsaved(self) -> None:
        """Raises where nodes were requested to leave and could not reach the log or store to save their work."""
        unsaved = [
            member.number for member in self.fleet.members if member.stop_requested and member.process.returncode == 4
        ]
        if unsaved:
            raise Unreachable(
                f"job {self.run.job.name!r}: node {', '.join(map(str, unsaved))} left without saving, as the log or "
                f"the checkpoint store did not answer; the reasons are above. Nothing is lost: the same command "
                f"resumes the job, and does again what came after the last checkpoint"
            )

    def _is_over(self) -> bool:
        self.monitor.poll()
        if self.monitor.over:
            return True
        if self._bounds is not None and self._has_begun():
            self._bounds.declare()
            self._bounds = None
        if self.supervisor.exhausted and self.fleet.members:
            self.monitor.poll()  # what the last of them wrote
            if not self.monitor.over:
                self._print_last_lines()
                how = ", ".join(f"node {member.number}: {member.ending}" for member in self.fleet.members)
                raise RunFailed(
                    f"job {self.run.job.name!r}: no node is left ({how}); the reasons are above. Nothing is lost: "
                    f"once they are mended, the same command resumes the job"
                )
            return True
        return False

    def _has_begun(self) -> bool:
        """True once a node of this fleet is a member of the job; others may be at work on it anyway."""
        ours = {member.process.pid for member in self.fleet.members}
        members = self.monitor.ownership.members
        return any(view.stats.get(PID) in ours and view.node in members for view in self.monitor.nodes.values())

    def _leave(self, interrupts: KeptSignals) -> None:
        """Until no node runs: those of a job that is over leave by themselves, the others upon a request."""
        began_s, requested = time.monotonic(), False
        while self.fleet.running():
            waited_s = time.monotonic() - began_s
            if not requested and (interrupts.count or waited_s > LEAVE_S):
                requested = True
                self.fleet.request_stop()
                if interrupts.count:
                    self.screen.print_line("stopping: the nodes finish their work and save checkpoints; again: at once")
            if interrupts.count > 1:
                self.screen.print_line("stopped at once; what was in hand is done again when the job resumes")
                raise KeyboardInterrupt
            if waited_s > STOP_TIMEOUT_S:
                self.screen.print_line(f"after {STOP_TIMEOUT_S:.0f} s some nodes had not left; they were killed")
                self.fleet.kill_all()
            self._check(over=True)
        self._check(over=True)

    def _check(self, over: bool = False) -> None:
        now_s = time.monotonic()
        self._print_lines()
        self.supervisor.check(now_s, lambda: self._poll_over() or over)
        if now_s - self._measured_s > MEASURE_S:
            self._measured_s = now_s
            self.fleet.measure()
        if self.screen.due():
            self.screen.show(self.progress.read(now_s, wall_clock_ms()))
        if not over:
            self._watch_progress(now_s)
        time.sleep(LEAVING_INTERVAL_S if over else CHECK_INTERVAL_S)

    def _poll_over(self) -> bool:
        self.monitor.poll()
        return self.monitor.over

    def _watch_progress(self, now_s: float) -> None:
        """A job that has input and does not progress is reported."""
        monitor = self.monitor
        moved = (monitor.consumed, len(monitor.ownership.members), monitor.steals)
        if moved != self._moved[0]:
            self._moved = (moved, now_s)
        elif now_s - self._moved[1] > STUCK_S:
            self._moved = (moved, now_s)
            waiting = [
                f"{row.partition} at offset {row.offset} of {row.end} (node {row.owner})"
                for row in self.progress.read(now_s, wall_clock_ms()).partitions
                if row.lag
            ]
            if waiting:
                self.screen.print_line(f"no progress for {STUCK_S:.0f} s; waiting: partition {', '.join(waiting[:8])}")

    def _print_last_lines(self) -> None:
        self.fleet.await_lines()
        self._print_lines()

    def _print_lines(self) -> None:
        while True:
            try:
                number, line = self.lines.get_nowait()
            except Empty:
                return
            self.screen.print_node_line(number, line)
