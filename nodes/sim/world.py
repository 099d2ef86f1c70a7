"""The simulated world: a virtual clock, one log, one store, and incarnations of nodes that take turns at random.

Two rules for this file: everything is drawn from one seeded generator, so that a seed is a run; time moves only here.
A node that is preempted stays on the Python stack while others go on, so at most ``MAX_DEPTH`` do at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

from nodes.checkpoints.store import StoreUnavailable
from nodes.log.contract import LogError, LogTruncated
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.config import JobRun
from nodes.machine.effects import Ending
from nodes.machine.events import StopRequested
from nodes.machine.ownership.ownership import Ownership
from nodes.sim.case import Case
from nodes.sim.faults.checkpoint_loss import CheckpointLoss
from nodes.sim.faults.code_changes import CodeChanges
from nodes.sim.faults.continuing import Continuing
from nodes.sim.faults.isolation import Isolation
from nodes.sim.faults.network_partitions import NETSPLITS, STALE, draw_cut
from nodes.sim.faults.registry import of_registry
from nodes.sim.faults.stress import Stress
from nodes.sim.faults.truncation import Truncating
from nodes.sim.faults.upstream_duplicates import start_upstream
from nodes.sim.inputs.feed import Feed
from nodes.sim.inputs.records import make_input
from nodes.sim.jobs import CASES, idle_timeout_ms
from nodes.sim.node_process import Crash, InvariantBroken, NodeProcess
from nodes.sim.options import Faults, Options
from nodes.sim.store import MemoryCheckpoints
from nodes.sim.trace import Trace
from nodes.streams.io.inputs import use_parts
from nodes.streams.jobs import declare_end, open_job, request_stop

CALM = Faults()
MAX_RESETS = 2


class World:
    """One run. ``faults`` are those of the options while the safety phase lasts, then none.

    ``case``: a job of a user; else the options name it. ``unsent``: topic, header and value of lost appends.
    """

    def __init__(self, options: Options, trace: Trace, case: Case | None = None) -> None:
        self.options = options
        self.trace = trace
        self.rng = random.Random(f"run {options.seed}")
        self.now_ms = 0
        self.faults = options.faults
        self.disturbs = True
        self.case = case or CASES[options.case]
        self.log = MemoryLog(clock_ms=lambda: self.case.log_begins_ms + self.now_ms)
        self.store = MemoryCheckpoints()
        self.trimmed: dict[tuple[str, int], int] = {}
        self.control_checkpoint_rotten = False  # the last one; not two in a row
        self.loss = CheckpointLoss(self)
        self.processes: list[NodeProcess] = []
        self.on_stack: list[NodeProcess] = []
        self.gone: list[tuple[NodeProcess, Ending, str]] = []
        self.born = 0
        self.appended_ms = 0
        self.input_ended = False
        self.calm_from_ms = options.safety_ms
        self._resets = 0
        self.steps = 0
        self.unsent: list[tuple[str, bytes, bytes]] = []
        self._churned_ms = 0
        self.feeds = (self.case.feeds or make_input)(options, self.rng)
        self._fed = 0
        self._end_early = self.rng.random() < 0.5
        self._ownership = Ownership(options.partitions)
        self._folded_to = 0
        for topic, partitions in self.case.topics(options.partitions).items():
            self.log.create_topic(topic, partitions)
        if options.upstream:
            start_upstream(self.log, self.case.topic)
        job = of_registry(self.case.make(options), options)
        use_parts(self.log, job)
        self.run = open_job(self.log, job, bounded=self.case.bounded)
        self.continuing = Continuing(self)
        self.input_until = self.continuing.planned()
        self.code_changes = CodeChanges(self)
        for _ in range(options.nodes):
            self.start_node()
        self.truncating = Truncating(self)
        self.stress = Stress(self)
        self.isolation = Isolation(self) if options.isolation else None

    # --- the loop -----------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """How many nodes are on the stack, the one in hand included."""
        return len(self.on_stack)

    def run_until(self, done: Callable[[], bool], until_ms: int) -> bool:
        """Step until ``done`` (True) or the time is over (False)."""
        while not done():
            if self.now_ms >= until_ms:
                return False
            self.step()
        return True

    def go_on_without(self, duration_ms: int) -> None:
        """The others go on while the nodes on the stack are paused."""
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            self.step()

    def step(self) -> None:
        """Move the clock, feed, let something happen, and give one node its turn."""
        self.steps += 1
        ready = [
            process
            for process in self.processes
            if process.paused_until_ms <= self.now_ms and process not in self.on_stack
        ]
        self.now_ms += self.rng.randint(0, max(1, 2 * self.options.tick_ms // max(1, len(ready))))
        if self.now_ms >= self.calm_from_ms and self.faults is not CALM:
            self.heal()
        self._feed()
        if self.faults is not CALM:
            self._something_happens()
            ready = [process for process in ready if process in self.processes]
        elif not self.processes and not self.all_done():
            self.start_node()
        if self.isolation is not None:
            self.isolation.step()
        if ready:
            # A healthy machine lets everybody run; a sick one, whomever it likes.
            fair = min(ready, key=lambda process: process.turned)
            self._turn(fair if self.healed else self.rng.choice(ready))

    def heal(self) -> None:
        """From now on no faults; nodes that are paused between two turns go on."""
        self.faults = CALM
        self.appended_ms = self.now_ms  # quiet is what comes after
        self.trace.add(self.now_ms, "heal")
        for process in self.processes:
            process.recover()

    def _turn(self, process: NodeProcess) -> None:
        self.on_stack.append(process)
        process.turned = self.steps
        self.stress.begins(process)
        try:
            process.turn()
        except Crash as crash:
            self._end(process, f"killed {crash}")
        except (LogError, StoreUnavailable) as error:
            self._gave_up(process, error)
        finally:
            self.on_stack.pop()
        self.stress.ended(process)
        self.code_changes.turned(process)
        left = process.node.left
        if left is not None and not process.dead:
            self.trace.add(self.now_ms, "left", f"{process.name} {left.ending.value} {left.reason.splitlines()[:1]}")
            self.processes.remove(process)
            if left.ending is Ending.FAILED and self.code_changes.left_for_code(process, left.reason):
                return
            self.gone.append((process, left.ending, left.reason))
            if left.ending is Ending.FAILED and not self.case.fails and not self.truncating.named(left.reason):
                raise InvariantBroken(f"{process.name} failed: {left.reason}")

    def _gave_up(self, process: NodeProcess, error: LogError | StoreUnavailable) -> None:
        """A log that has refused something takes nothing any more from this node."""
        if isinstance(error, LogError):
            process.log.transit.clear()
        if isinstance(error, LogTruncated):
            self.truncating.noticed(error)
        self._end(process, f"gave up: {type(error).__name__}")

    def _end(self, process: NodeProcess, why: str) -> None:
        if not process.dead:
            self.trace.add(self.now_ms, "died", f"{process.name} {why}")
            process.dead = True
            process.scatter()
            self.processes.remove(process)

    # --- input --------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        places = self.run.layout.places()
        while not (self.truncating.holds_feed() or self.all_fed) and self.feeds[self._fed].at_ms <= self.now_ms:
            feed: Feed = self.feeds[self._fed]
            self.log.append(*places[feed.partition], [feed.payload], headers=[feed.header])
            self.appended_ms = self.now_ms  # it may not have been read yet
            self._fed += 1
            if self.truncating.lost is not None:  # producers were held up: the fleet is not quiet yet
                self.appended_ms = self.now_ms
        if self._end_early and self.all_fed and not self.healed:
            self.end_input()

    @property
    def all_fed(self) -> bool:
        """True once every record of the input is on the log."""
        return self._fed == len(self.feeds)

    def end_input(self) -> None:
        """Declare the end of the input, once."""
        if not self.input_ended:
            self.input_ended = True
            ends = declare_end(self.log, self.run)
            self.trace.add(self.now_ms, "end-of-input", str(ends))
            self.continuing.input_ended()

    def feed_more(self, feeds: list[Feed]) -> None:
        """Records that come after all others."""
        self.feeds += feeds

    # --- incarnations --------------------------------------------------------------------------------------

    def start_node(self) -> None:
        """A new incarnation, under a new name or under that of one that is gone."""
        number = self.born
        if self.options.same_names:
            taken = {process.name for process in self.processes}
            number = next(n for n in range(self.options.max_nodes + 1) if f"node-{n}" not in taken)
        self.born += 1
        try:
            process = NodeProcess(self, f"node-{number}", number)
        except LogTruncated as error:
            self.truncating.refused(error)
            return
        self.processes.append(process)
        self.appended_ms = self.now_ms
        self.trace.add(self.now_ms, "start", process.name)

    def kill(self, process: NodeProcess) -> None:
        """Its memory is lost; if it is on the stack, it finds out when it comes back."""
        self._end(process, "killed")

    def _something_happens(self) -> None:
        faults, rng = self.faults, self.rng
        if self._chance(faults.crash_all):
            self.trace.add(self.now_ms, "crash-all")
            for process in list(self.processes):
                self.kill(process)
        if len(self.processes) < self.options.nodes and self._chance(faults.restart):
            self.start_node()
        if len(self.processes) < self.options.max_nodes and self._chance(faults.join):
            self.start_node()
        if self._chance(faults.checkpoints_lost):
            self.loss.lose(rng.randrange(self.options.partitions))
        self.truncating.check()
        self.stress.check()
        self.code_changes.check()
        if self._resets < MAX_RESETS and self._chance(faults.reset):
            self._reset()
        if self._chance(faults.stop_all):
            self.trace.add(self.now_ms, "stop-all")
            request_stop(self.log, self.run, f"stop at {self.steps}")
        if faults.churn_ms and self.now_ms - self._churned_ms >= faults.churn_ms:
            self._churned_ms = self.now_ms
            self._churn()
        self._befall_one()

    def _churn(self) -> None:
        """One leaves, politely or not, and another one comes."""
        able = [process for process in self.processes if process not in self.on_stack]
        if able:
            process = self.rng.choice(able)
            self.trace.add(self.now_ms, "churn", process.name)
            if self.rng.random() < 0.5:
                self.kill(process)
            else:
                self._request_stop(process)
        if len(self.processes) < self.options.max_nodes:
            self.start_node()

    def _reset(self) -> None:
        """The next incarnation begins, from empty state; nodes of the old one may still be writing."""
        self.run = open_job(self.log, self.run.job, reset=True, bounded=self.case.bounded)
        self._resets += 1
        self.continuing.reset()
        self.input_ended = False
        self.trace.add(self.now_ms, "reset", str(self.run.incarnation))

    def goes_on(self, run: JobRun) -> None:
        """The job goes on behind the end of its input, with faults as before; nodes of the last part may be there."""
        self.run, self.input_ended, self.input_until = run, False, self.continuing.planned()
        self.faults, self.calm_from_ms = self.options.faults, self.now_ms + self.options.safety_ms
        self.appended_ms = self.now_ms
        self.loss.forget()
        for _ in range(self.options.nodes):
            if len(self.processes) < self.options.max_nodes:
                self.start_node()

    @property
    def ends(self) -> list[list[int]]:
        """Where the input ended, by partition, each time before the job went on behind that."""
        return self.continuing.ends

    def current(self) -> list[NodeProcess]:
        """Those of the newest incarnation."""
        return [process for process in self.processes if process.node.run.incarnation == self.run.incarnation]

    def _befall_one(self) -> None:
        faults, rng, longest = self.faults, self.rng, 10 * self.options.failure_timeout_ms
        awake = [
            process
            for process in self.processes
            if process not in self.on_stack and process.paused_until_ms <= self.now_ms
        ]
        if not awake:
            return
        process = rng.choice(awake)
        if self._chance(faults.pause):
            duration_ms = rng.randint(1, longest)
            process.paused_until_ms = self.now_ms + duration_ms
            self.trace.add(self.now_ms, "paused", f"{process.name} for {duration_ms} ms")
        if self._chance(faults.clock_jump):
            process.jump_clock()
        if self._chance(faults.stale_reads):
            process.cut_off(draw_cut(rng, STALE, process.topics, self.now_ms, self.options.failure_timeout_ms))
        if self._chance(faults.cut):
            process.cut_off(draw_cut(rng, NETSPLITS, process.topics, self.now_ms, self.options.failure_timeout_ms))
        if self._chance(faults.stop_one):
            self.trace.add(self.now_ms, "stop-one", process.name)
            self._request_stop(process)

    def _request_stop(self, process: NodeProcess) -> None:
        self.on_stack.append(process)
        try:
            process.driver.dispatch(StopRequested())
        except Crash as crash:
            self._end(process, f"killed {crash}")
        except (LogError, StoreUnavailable) as error:
            self._gave_up(process, error)
        finally:
            self.on_stack.pop()

    def _chance(self, rate: float) -> bool:
        return rate > 0 and self.rng.random() < rate

    # --- the end ------------------------------------------------------------------------------------------------

    @property
    def healed(self) -> bool:
        """True once no more faults happen."""
        return self.faults is CALM

    def quiet(self) -> bool:
        """True once everything is fed, nothing is on its way, and for some time no node has appended anything."""
        options = self.options
        wait_ms = 3 * max(
            options.failure_timeout_ms,
            options.checkpoint_interval_ms,
            options.broadcast_interval_ms,
            20 * options.tick_ms,
            2 * idle_timeout_ms(options) if self.case.idle else 0,  # the idle timeout, and its punctuation's way
        )
        if any(process.awaits for process in self.processes):
            self.appended_ms = self.now_ms  # the quiet time begins behind it
            return False
        if any(process.writes for process in self.processes):
            return False
        if self.truncating.refuses:
            return True
        if not self.all_fed or self.failed:
            return self.all_fed
        names = {process.name for process in self.processes}
        if not names or self.now_ms - self.appended_ms <= wait_ms:
            return False
        return names.issuperset(self.folded().owners().values())  # what a dead node leaves is taken, if late

    def all_done(self) -> bool:
        """True once everything on the log is answered, and every node has left."""
        if self.processes:
            return False
        return self.failed or self.truncating.refuses or self.folded().all_done()

    def folded(self) -> Ownership:
        """The control topic folded to its end, from where the last call stopped."""
        chunk = self.log.read(self.run.job.control_topic, 0, self._folded_to)
        while chunk.values:
            for value in chunk.values:
                with suppress(m.BadMessage):  # as every node passes it over
                    self._ownership.apply(m.decode_control(value))
            self._folded_to = chunk.next_offset
            chunk = self.log.read(self.run.job.control_topic, 0, self._folded_to)
        return self._ownership

    def forget_fold(self) -> None:
        """The control topic is not what was folded."""
        self._ownership, self._folded_to = Ownership(self.options.partitions), 0

    @property
    def failed(self) -> bool:
        """True if some node has left because the job failed."""
        incarnation = self.run.incarnation
        return any(e is Ending.FAILED and process.node.run.incarnation == incarnation for process, e, _ in self.gone)
