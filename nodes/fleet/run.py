"""One `holon run`: a fleet on a job until the job is done, has failed, or somebody stops it; then the account of it."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from enum import Enum
from queue import Empty, SimpleQueue
from types import FrameType

import msgspec

from holon.job import DEAD, LATE, UNSTABLE, Job
from nodes.bounding import Bounds
from nodes.dead_letters import dead_letters
from nodes.errors import RunFailed, Unreachable
from nodes.fleet import PID, STOP_TIMEOUT_S, Fleet
from nodes.held_frontier import HeldFrontier, held_frontier
from nodes.log.contract import Log
from nodes.machine.config import JobRun
from nodes.monitor import Monitor
from nodes.opening import check_at_next_opening
from nodes.progress import ProgressReader, wall_clock_ms
from nodes.reader import OutputReader
from nodes.screen import Screen
from nodes.settings import Settings
from nodes.supervisor import Supervisor
from nodes.watermarks import Watermarks

LOOK_S = 0.05
MEASURE_S = 1.0
LEAVE_S = 5.0
"""How long nodes may take to leave by themselves once the job is over."""
STUCK_S = 30.0
SHOWN_REASON = 500


class RunEnding(Enum):
    """Why a run is over."""

    DONE = "done"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class RunResult(msgspec.Struct, kw_only=True):
    """The account of a run. Counts are those of the job's whole incarnation; steals, suppressed, restarts of this run.

    ``taken``: records of the input up to the checkpoints, by the log's offsets. ``outputs``: results on the output
    topics, each once, without late and dead letters. ``late_inserts``: see ``holon.admit.Counts``.
    ``metrics_ports``: the port at which each node served its metrics.
    ``frontier_held``: the partitions that windows have waited for, if none was completed in the last seconds.
    ``first_dead``: partition, offset and reason of the first dead letter of the lowest partition that has one.
    ``unread``: by partition, records behind the end of the input that was declared before this run.
    """

    job: str
    incarnation: int
    nodes: int
    partitions: int
    outputs: int
    accepted: int
    filtered: int
    late: int
    dead: int
    duplicates: int
    late_inserts: int = 0
    taken: int
    conserved: bool
    steals: int
    ending: RunEnding
    wall_s: float
    suppressed: int = 0
    repeats_dropped: int = 0
    restarts: int = 0
    already_done: bool = False
    error: str | None = None
    outputs_by_topic: dict[str, int] = {}
    metrics_ports: dict[int, int] = {}
    unread: dict[int, int] = {}
    first_dead: str | None = None
    frontier_held: HeldFrontier | None = None

    @property
    def all_dead(self) -> bool:
        """True if there was input, and nothing of it could be used."""
        return self.dead > 0 and not (self.accepted or self.filtered or self.late)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """``reference`` is ``MODULE:JOB``, for the node processes."""

    reference: str
    nodes: int = 1
    accept_code: bool = False


class Interrupts:
    """Counts SIGINT and SIGTERM while it is entered, in place of what they would do."""

    def __init__(self) -> None:
        self.count = 0
        self.first: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = number if self.first is None else self.first


class Run:
    """Runs the fleet. ``monitor`` was polled before: what it says of a job that is done or has failed is respected.

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
        accused = lambda: monitor.ownership.accused()  # noqa: E731  # the fold changes with each look
        self.supervisor = Supervisor(self.fleet, screen.say, self._has_begun, check_at_next_opening(settings), accused)
        self.progress = ProgressReader(monitor, self.fleet, settings.node.suspect_after_ms)
        self._measured_s = float("-inf")
        self._moved: tuple[object, float] = (None, 0.0)

    def execute(self) -> RunEnding:
        """Start the nodes and stay with them. Raises ``RunFailed`` if all have crashed, ``KeyboardInterrupt`` on a
        second signal."""
        with Interrupts() as interrupts, self.screen:
            try:
                self.fleet.start()
                while not (interrupts.count or self._is_over()):
                    self._look()
                self._leave(interrupts)
            except BaseException:
                self.fleet.kill_all()
                raise
            finally:
                self._tell_lines()
        self._refuse_unsaved()
        if interrupts.first is not None and not self.monitor.done:
            return RunEnding.INTERRUPTED if interrupts.first == signal.SIGINT else RunEnding.STOPPED
        if self.monitor.failure is not None:
            return RunEnding.FAILED
        if self.monitor.superseded:
            raise RunFailed(f"job {self.run.job.name!r}: a newer incarnation was started, so this run has ended")
        return RunEnding.DONE if self.monitor.done else RunEnding.STOPPED

    def _refuse_unsaved(self) -> None:
        """Nodes that were asked to leave and could not reach the log or store to save what they had done."""
        unsaved = [member.number for member in self.fleet.members if member.asked and member.process.returncode == 4]
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
                self._tell_lines()
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

    def _leave(self, interrupts: Interrupts) -> None:
        """Until no node runs: those of a job that is over leave by themselves, the others are asked to."""
        began_s, asked = time.monotonic(), False
        while self.fleet.running():
            waited_s = time.monotonic() - began_s
            if not asked and (interrupts.count or waited_s > LEAVE_S):
                asked = True
                self.fleet.ask_stop()
                if interrupts.count:
                    self.screen.say("stopping: the nodes finish what is in hand and save checkpoints; again: at once")
            if interrupts.count > 1:
                self.screen.say("stopped at once; what was in hand is done again when the job resumes")
                raise KeyboardInterrupt
            if waited_s > STOP_TIMEOUT_S:
                self.screen.say(f"after {STOP_TIMEOUT_S:.0f} s some nodes had not left; they were killed")
                self.fleet.kill_all()
            self._look(over=True)
        self._look(over=True)

    def _look(self, over: bool = False) -> None:
        now_s = time.monotonic()
        self._tell_lines()
        self.supervisor.look(now_s, lambda: self._knows_over() or over)
        if now_s - self._measured_s > MEASURE_S:
            self._measured_s = now_s
            self.fleet.measure()
        if self.screen.due():
            self.screen.show(self.progress.read(now_s, wall_clock_ms()))
        if not over:
            self._watch_progress(now_s)
        time.sleep(LOOK_S)

    def _knows_over(self) -> bool:
        self.monitor.poll()
        return self.monitor.over

    def _watch_progress(self, now_s: float) -> None:
        """A job that has input and does not get on says so."""
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
                self.screen.say(f"no progress for {STUCK_S:.0f} s; waiting: partition {', '.join(waiting[:8])}")

    def _tell_lines(self) -> None:
        while True:
            try:
                number, line = self.lines.get_nowait()
            except Empty:
                return
            self.screen.say_of(number, line)


def account(
    log: Log, run: JobRun, monitor: Monitor, nodes: int, ending: RunEnding, wall_s: float, restarts: int = 0
) -> RunResult:
    """What the run did, and whether the conservation identity holds on the log."""
    monitor.poll()
    counts, conserved = monitor.counts(), monitor.conserved()
    outputs, repeats = count_outputs(log, run)
    return RunResult(
        job=run.job.name,
        incarnation=run.incarnation,
        nodes=nodes,
        partitions=run.partitions,
        outputs=sum(outputs.values()),
        outputs_by_topic=outputs,
        repeats_dropped=repeats,
        accepted=counts.accepted,
        filtered=counts.filtered,
        late=counts.late,
        dead=counts.dead,
        duplicates=counts.duplicates,
        late_inserts=counts.late_inserts,
        # Where the log has offsets without records, and the account holds, the records are those that were counted.
        taken=counts.taken if conserved else sum(monitor.taken()),
        conserved=conserved,
        steals=monitor.steals,
        suppressed=sum(int(view.stats.get("suppressed", 0)) for view in monitor.nodes.values()),
        metrics_ports=monitor.metrics_ports(),
        restarts=restarts,
        ending=ending,
        wall_s=round(wall_s, 3),
        error=monitor.failure,
        first_dead=first_dead(log, run.job) if counts.dead else None,
        frontier_held=None if monitor.done else held_frontier(monitor, Watermarks(monitor).read()),
    )


def first_dead(log: Log, job: Job) -> str | None:
    """Place and reason of a dead letter, for people."""
    letter = next(dead_letters(log, job), None)
    if letter is None:
        return None
    return f"{letter.topic}[{letter.partition}] offset {letter.offset}: {letter.reason[:SHOWN_REASON]}"


def count_outputs(log: Log, run: JobRun) -> tuple[dict[str, int], int]:
    """Results by topic, each once, as the reader gives them; and how many repeats it dropped."""
    found: dict[str, int] = {}
    repeats = 0
    for name, output in run.job.outputs.items():
        if name in (LATE, DEAD, UNSTABLE):
            continue
        reader = OutputReader(log, output.topic, without_identity="pass")
        ours = (run.job.name, run.origin)
        found[output.topic] = sum(
            o.identity is not None and (o.identity.job, o.identity.incarnation) == ours for o in reader.read_available()
        )
        repeats += reader.repeats_dropped
    return found, repeats
