"""The node as a state machine: ``step(event, now_ms) -> effects``.

Two rules for this file: it knows no clock, no log and no thread, so that whole fleets run in a simulation; whatever
happens goes through ``step``.

Source: Holon, sections 4.1 and 4.3 (Algorithm 2, rebuilt from the prose): equal nodes, work that may overlap, and
recovery as "stealing" from a checkpoint. Deviation: who works on what is settled by the order of one control topic
(docs/design/control.md), so that a healthy run does no work twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from holon.errors import UserFunctionError
from nodes.machine import events as e
from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.broadcast.deltas_to_send import DeltasTooLarge, announced
from nodes.machine.broadcast.gaps import Gaps
from nodes.machine.broadcast.merged_checkpoints import Merging
from nodes.machine.broadcast.reading import BroadcastReading, SlotLost
from nodes.machine.broadcast.rejoining import Rejoining
from nodes.machine.broadcast.shards import ContributionsLost
from nodes.machine.code_check import is_recorded
from nodes.machine.config import JobRun, NodeConfig, WantedInput
from nodes.machine.control_state import ControlCheckpoint, encode_control_checkpoint
from nodes.machine.crashing_records import Apart, Trials
from nodes.machine.effects import Effect, Ending, Leave, RewindBroadcast, WriteControlCheckpoint
from nodes.machine.membership.heartbeats import HeartbeatGroups
from nodes.machine.membership.member import Membership
from nodes.machine.ownership.handover import Handover
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.workload import SLOW_RECORDS, WINDOWS_LEFT, Workload
from wcrdt.codec import DecodeError
from wcrdt.replica.replica import Replica


class Node:
    """One incarnation of a node of one job. ``left``: it is over; ``failing``: the traceback that it met, if any.

    ``history``: the control topic, folded up to where the shell begins to read it; it is this node's from now on.
    ``code_hash``: failures are remembered under it. ``apart`` tries records that have ended other nodes; None: nothing
    is tried.
    """

    def __init__(
        self,
        config: NodeConfig,
        run: JobRun,
        history: Ownership | None = None,
        *,
        code_hash: str = "",
        apart: Apart | None = None,
    ) -> None:
        self.config = config
        self.run = run
        self.code_hash = code_hash or run.job.program.code_hash()
        self.ownership = Ownership(run.partitions) if history is None else history
        self.member = Membership(
            config.node,
            config.number,
            run.incarnation,
            self.ownership,
            failure_timeout_ms=config.failure_timeout_ms,
            forget_after_ms=config.forget_after_ms,
        )
        self.detector = self.member.detector
        self.heartbeats = HeartbeatGroups(config)
        self.replica = self._make_replica()
        self.gaps = Gaps(self.replica, config.failure_timeout_ms)
        self.work = Workload(config, run, self.replica, self.ownership, Trials(self.code_hash, apart))
        self.reading = BroadcastReading(self.work, self.gaps)
        self.merging = Merging(config, run.incarnation, self.replica, self.gaps)
        self.rejoining = Rejoining(self.work, self.merging)
        self.handover = Handover(config, self.member, self.work)
        self.left: Leave | None = None
        self.takeovers: dict[int, int] = {}  # since when the last owner of a partition taken over was silent
        self._figures: dict[str, float] = {}  # of the shell
        self._now_ms = self._heartbeat_number = 0
        self._clock_ms: int | None = None
        self._last_heartbeat_ms: int | None = None
        self.failing = ""
        self._control_checkpoint_due = False

    def _make_replica(self) -> Replica:  # large simulated fleets share one
        shapes = {name: shape for name, shape in self.run.job.program.shapes().items() if name not in self.run.apart}
        return Replica(self.run.partitions, shapes, self.run.job.allowed_lateness_ms)

    # --- the one door -----------------------------------------------------------------------------------------------

    def step(self, event: e.Event, now_ms: int) -> list[Effect]:
        """The effects of ``event`` at ``now_ms``, in order.

        The clock is this node's own, of any origin. One that is set back counts as stopped for a moment. It is used for
        intervals alone, and a wait of an hour for the next heartbeat would cost the node its partitions.
        """
        if self.left is not None:
            return []
        effects: list[Effect] = []
        self.work.effects = effects
        passed_ms = 0 if self._clock_ms is None else max(0, now_ms - self._clock_ms)
        self._clock_ms = now_ms
        self._now_ms = self.work.now_ms = self._now_ms + passed_ms
        self.work.replicas.passed(passed_ms)
        self.work.idleness.passed(passed_ms)
        self.detector.stalled(self._now_ms)
        try:
            for one in event.events if isinstance(event, e.EventBatch) else (event,):
                if self.left is None:
                    self._handle(one)
            if self.left is None and not self.failing:
                self.work.settle()
                self._maybe_merge(effects)
        except UserFunctionError as error:
            self._function_failed(error)
        except (ContributionsLost, SlotLost) as error:
            self._leave(Ending.FAILED, f"node {self.config.node}: {error}")
        except DeltasTooLarge as error:
            if not self.work.replicas.give_up(error.partition):
                self._failed(error.partition, None, f"job {self.run.job.name!r}: {error}")
        self._maybe_send_heartbeat()
        self._maybe_leave()
        return announced(effects, self.run.incarnation, self.config.node)

    def wanted(self) -> list[WantedInput]:
        """Input that the shell should read next."""
        return [] if self.left is not None or self.work.stopping or self.failing else self.work.wanted()

    def silent_inputs(self) -> list[WantedInput]:
        """Inputs that have been silent for long: the shell should query the log for their ends."""
        ending = self.left is not None or self.work.stopping or self.failing
        return [] if ending else self.work.idleness.silent_inputs()

    def needs_end(self) -> bool:
        """Whether what comes next rests on knowing the control topic to its end."""
        return self.member.needs_end(self._now_ms)

    def _handle(self, event: e.Event) -> None:
        match event:
            case e.ControlRead():
                self._control_read(event)
            case e.HeartbeatsRead():
                self._heartbeats_read(event.values)
            case e.BroadcastRead():
                self.merging.broadcast_at[event.partition] = event.next_offset
                self.reading.take(event)
            case e.StopRequested():
                self._stop_requested()
            case e.FiguresChanged(figures):
                self._figures.update(figures)
            case e.OutputRefused(partition, _, reason):
                text = f"job {self.run.job.name!r}: an output of partition {partition} cannot be written: {reason}"
                self._failed(partition, None, text)
            case _:
                self._handle_work(event)

    def _handle_work(self, event: e.Event) -> None:
        match event:
            case e.MergedLoaded():
                self.rejoining.loaded(event)
            case e.MergedAwaited(partitions):
                self.merging.awaited = frozenset(partitions)
            case e.MergedStored():
                for saved in self.merging.stored(event, self._now_ms):
                    self.work.control(saved)
            case e.BroadcastLost(partition):
                self.merging.rewound(partition)
            case _:
                try:
                    self.work.handle(event)
                except DecodeError as error:
                    self._leave(Ending.FAILED, str(error))

    # --- messages of others -----------------------------------------------------------------------------------------

    def _control_read(self, read: e.ControlRead) -> None:
        try:
            for fact in self.member.facts(read.values, self._now_ms):
                self._learn(fact)
            self._folded(read)
        except m.BadMessage as error:
            self._leave(Ending.FAILED, f"the control topic holds a record of a newer Holon: {error}")

    def _folded(self, read: e.ControlRead) -> None:
        """The records are part of what this node knows of the fleet."""
        self.merging.control_at = read.next_offset
        if self._control_checkpoint_due:
            self._control_checkpoint_due = False
            control = ControlCheckpoint(read.next_offset, self.ownership.snapshot())
            self.work.effects.append(WriteControlCheckpoint(encode_control_checkpoint(control), self.config.trims))
        if read.at_end and (read.end_queried or not self.needs_end()):
            if (reason := self.rejoining.settle()) is not None:
                self._leave(Ending.FAILED, reason)
            self._greet()
            self.detector.caught_up(self._now_ms)
            if self.member.joined and not (self.work.stopping or self.failing or self.left is not None):
                waited_ms = self._now_ms - (self.member.greeted_ms or 0)
                self.handover.assign(self.code_hash, self._now_ms, waited_ms)
            self._request_missing()

    def _heartbeats_read(self, values: Sequence[bytes]) -> None:
        for node in self.member.heartbeats(values, self._now_ms):
            self.heartbeats.record_heartbeat(node)

    def _request_missing(self) -> None:
        for partition in self.gaps.due(self.ownership, self._now_ms):
            healed = partition in self.merging.awaited or self.work.slot_recovery.heal(partition)
            if healed or self.gaps.closed(partition):
                continue
            offset, step = self.replica.slots[partition].record.position
            self.work.control(m.SlotWanted(self.run.incarnation, self.config.node, partition, offset, step))

    def _learn(self, fact: f.Fact) -> None:
        if self.ownership.incarnation != self.run.incarnation:
            if self.ownership.incarnation > self.run.incarnation:
                self._leave(Ending.SUPERSEDED, f"incarnation {self.ownership.incarnation} of the job has started")
            return
        match fact:
            case f.JobFailed(failure):
                if failure.code_hash == self.code_hash:
                    self._leave(Ending.FAILED, failure.error)
            case f.CheckpointRecorded():
                self.work.learn(fact)
            case f.CodeAccepted() if self.member.greeted:
                self._leave_to_other_code()
            case f.MergedRecorded(merged):
                self.merging.recorded(self._now_ms)
                self._control_checkpoint_due |= self.member.joined and merged.node == self.config.node
            case _:
                if self.member.joined:  # else of an earlier incarnation under this name
                    self._learn_for_this_incarnation(fact)

    def _learn_for_this_incarnation(self, fact: f.Fact) -> None:
        match fact:
            case f.FleetStopRequested(nodes):
                self.work.stopping |= self.config.node in nodes
            case f.PartitionClaimed(partition, node, _, previous):
                self.handover.claimed(fact, self._now_ms)
                if node == self.config.node and previous is not None:
                    silence_ms = self.detector.silence_ms(previous, self._now_ms) or 0
                    self.takeovers[partition] = self._now_ms - silence_ms
                self.work.learn(fact)
            case f.SlotRequested(partition, _, position):  # the delta that brought it so far may be unreadable here
                self.replica.reported[partition] = max(self.replica.reported[partition], position[0])
                self.work.learn(fact)
            case _:
                self.work.learn(fact)

    # --- merged checkpoints -----------------------------------------------------------------------------------------

    def _maybe_merge(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, RewindBroadcast):
                self.merging.rewound(effect.partition)
        if self.member.joined and not self.work.stopping:
            save = self.merging.step(self.ownership, self._now_ms)
            if save is not None:
                effects.append(save)

    # --- heartbeats, and the end ------------------------------------------------------------------------------------

    def _greet(self) -> None:
        """Only once the history is read, so that nothing in it can be taken for this incarnation's."""
        if self.ownership.incarnation > self.run.incarnation:
            self._leave(Ending.SUPERSEDED, f"incarnation {self.ownership.incarnation} of the job has started")
        if self.member.greeted:
            return
        for failed in self.ownership.failures(self.code_hash):  # in the history, so that no fact reports it
            self._leave(Ending.FAILED, failed.error)
        self._leave_to_other_code()  # which was accepted since this node was started, or while it was no member
        if not (self.work.stopping or self.merging.awaited) and self.left is None:
            self.work.control(self.member.hello(self._now_ms))

    def _leave_to_other_code(self) -> None:
        codes = self.ownership.codes
        if codes and not is_recorded(self.run.job.program.version, codes):
            self._leave(Ending.FAILED, f"job {self.run.job.name!r} has gone on with other code; this node leaves")

    def _stop_requested(self) -> None:
        """Others take what this node hands over at once, and do not wait until all of it is."""
        if self.work.runners and not self.work.stopping:
            self.work.control(self.member.leaving())
        self.work.stopping = True

    def _maybe_send_heartbeat(self) -> None:
        last = self._last_heartbeat_ms
        if self.left is None and (last is None or self._now_ms - last >= self.config.heartbeat_interval_ms):
            self._last_heartbeat_ms = self._now_ms
            self.heartbeats.resize(len(self.ownership.members), self._now_ms)
            self.work.effects += self.heartbeats.write(self.heartbeat(), self.run.incarnation, self._now_ms)

    def heartbeat(self) -> bytes:
        """The next heartbeat; the shell may also send it while a long call keeps ``step`` from running."""
        self._heartbeat_number = number = self._heartbeat_number + 1
        progress = {runner.partition: runner.task.next_offset for runner in self.work.owned()}
        return m.encode(m.Heartbeat(self.run.incarnation, self.config.node, number, progress, self.stats()))

    def stats(self) -> dict[str, float]:
        """Figures to show, by name."""
        return {
            "emitted": float(self.work.emitted),
            "suppressed": float(self.work.suppressed),
            "steals": float(self.steals),
            "standbys": float(self.work.replicas.abreast),
            "promotions": float(self.work.replicas.promotions),
            "bad_messages": float(self.bad_messages),
            "open_windows": float(self.replica.open_windows()),
            WINDOWS_LEFT: float(self.work.windows_left()),
            "frontier_ms": float(self.replica.frontier_ms),
            SLOW_RECORDS: float(sum(getattr(form, SLOW_RECORDS, 0) for form in self.run.job.formats_read)),
            **self._figures,
        }

    @property
    def steals(self) -> int:
        """How many partitions this node has taken from others."""
        return self.handover.sharing.steals

    @property
    def bad_messages(self) -> int:
        """How many records of the job's own topics could not be read."""
        return self.member.bad_messages + self.reading.damaged

    def _function_failed(self, error: UserFunctionError) -> None:
        """Report the failure to the fleet, so that the same record does not end one node after the other."""
        if self.work.replicas.give_up(error.partition):
            return  # its owner meets the record too
        self._failed(error.partition, error.offset, f"{error}\n{error.details}", error.trace)

    def _failed(self, partition: int, offset: int | None, text: str, trace: str = "") -> None:
        runner = self.work.runners.get(partition)
        if offset is None:  # a window's failure is no record's
            offset = 0 if runner is None else runner.task.next_offset
        self.failing = trace or text
        self.work.drop(partition)
        self.work.control(m.Failed(self.run.incarnation, self.config.node, partition, offset, self.code_hash, text))

    def _maybe_leave(self) -> None:
        if self.ownership.incarnation != self.run.incarnation:
            return
        if self.ownership.all_done():
            self._leave(Ending.DONE)
        elif self.work.stopping and not self.work.runners:
            self._leave(Ending.STOPPED)

    def _leave(self, ending: Ending, reason: str = "") -> None:
        if self.left is None:
            if ending is not Ending.SUPERSEDED:
                if self.member.joined:  # the last figures
                    self.work.effects += self.heartbeats.write(self.heartbeat(), self.run.incarnation, self._now_ms)
                self.work.control(self.member.goodbye(self.config.node))
            self.left = Leave(ending, reason)
            self.work.effects.append(self.left)
