"""A transactional node as an operating-system process."""

from __future__ import annotations

import logging
import os
import sys
import time
import uuid
from collections.abc import Collection
from functools import partial
from typing import Any, cast

from nodes.checkpoints.opening import open_checkpoints
from nodes.checkpoints.saver import ThreadSaver
from nodes.checkpoints.store_retries import PatientCheckpoints
from nodes.errors import RunFailed, UnknownName
from nodes.heap import begin_in_first_heap
from nodes.log import Log, TopicPartition
from nodes.log.patient import PatientLog
from nodes.machine import messages as m
from nodes.machine.code_check import JobMismatch
from nodes.machine.ownership.code_rule import CodeRule
from nodes.metrics.counters import MeteredCheckpoints
from nodes.runtime.in_process_restarts import live
from nodes.runtime.node_process import NodeShell, named_errors
from nodes.runtime.process_start import IDLE_WAIT_S, monotonic_ms, node_log
from nodes.runtime.stop_signals import StopSignals
from nodes.runtime.turns import Wait, turn_until
from nodes.runtime.user_modules import import_user_module
from nodes.settings.settings import Settings
from nodes.transactions.bound_streams import Feeding
from nodes.transactions.checkpoints.compaction import CompactingChild
from nodes.transactions.checkpoints.spill import spills_of
from nodes.transactions.checkpoints.state_check import blamed
from nodes.transactions.composition import NodeOptions, NodeSurroundings, composed
from nodes.transactions.external_calls import ExternalCalls
from nodes.transactions.function_timeout import FunctionWatch
from nodes.transactions.job_start import begin
from nodes.transactions.metrics.counters import MeteredTransactionLog, TransactionMeter
from nodes.transactions.metrics.node import TransactionMetrics
from nodes.transactions.steps import Clocks, TransactionJob
from nodes.transactions.topics import FIRST_INCARNATION, create_topics
from nodes.transactions.trial_epochs import TriedApart
from nodes.transactions.upgrades.programs import NodePrograms
from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.describing import version_of
from transactional.epochs.pieces import WHOLE_BYTES
from transactional.epochs.sequencer import EpochConfig
from transactional.errors import ProgramMissing, RerunHangs
from transactional.execution.crashing import CrashesHere
from transactional.operators import Program
from transactional.state.store import Store

logger = logging.getLogger(__name__)

CUT_WAIT_S = 0.001
QUIET_WAIT_S = 0.04
"""Where nothing is in work: half the time between heartbeats, which is as often as others have to be checked."""
WATCH_WAIT_S = 0.005
"""Between two checks whether an owner is late for which something is ready, or a load has ended."""
SWITCH_S = 0.0005
"""So long another thread (that saves checkpoints) runs on while the loop wants to: Python's 5 ms are an epoch."""
SILENT_AFTER_MS = 10_000
"""After so long without a turn, outside of functions that may run, the watchdog stops sending heartbeats."""
GC_THRESHOLDS = (2_000, 1_000, 50)
"""Cycles are sought among few objects at a time, while the cache still has them: 20,000 objects pause for 30 ms.
Objects that outlive a transaction are kept for long and are in no cycle: they need no second collection."""


def load_program(reference: str) -> Program:
    """``MODULE:NAME`` of a ``Program``. Raises ``UnknownName``."""
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise UnknownName("program", f"{reference} (expected MODULE:PROGRAM)")
    module = import_user_module(module_name)
    found = getattr(module, attribute, None)  # a module may make it by name
    if not isinstance(found, Program):
        programs = [name for name, value in vars(module).items() if isinstance(value, Program)]
        raise UnknownName("program", reference, [f"{module_name}:{name}" for name in programs])
    return found


def wall_ms() -> int:
    """Milliseconds since 1970: what ``ctx.now`` shows."""
    return time.time_ns() // 1_000_000


def node_options(settings: Settings, number: int, job: TransactionJob, rule: CodeRule) -> NodeOptions:
    """The part of the settings that a node receives; every incarnation of a node has a name of its own."""
    node = settings.node
    return NodeOptions(
        node=f"{number}-{uuid.uuid4().hex[:12]}",
        number=number,
        failure_timeout_ms=node.failure_timeout_ms,
        heartbeat_interval_ms=node.heartbeat_interval_ms,
        checkpoint_interval_ms=node.checkpoint_interval_ms,
        trim_interval_ms=node.merged_checkpoint_interval_ms if node.truncate_internal_topics else 0,
        replicas=node.replicas,
        handover_timeout_ms=node.handover_timeout_ms,
        groups=(job.sequencers, job.program.partitions),  # they cost differently
        rule=rule,
    )


class TransactionProcess(NodeShell):
    """Runs one node until a stop is requested. ``parent``: it leaves when this one has gone (None: who started it)."""

    def __init__(
        self,
        program: Program,
        log: Log,
        settings: Settings,
        number: int,
        sequencers: int,
        *,
        reference: str = "",
        accept_code: bool = False,
        parent: int | None = None,
        loader: ThreadSaver[Any] | None = None,
    ) -> None:
        """``loader``: loads the state of partitions; None: in a thread that has a heap of its own."""
        super().__init__()
        log.prefer_latency(build=True)
        topics = create_topics(log, program, sequencers)
        log.tolerate_loss([topics.heartbeats], essential=[topics.control])
        version = version_of(program)
        key = begin(log, topics, program, sequencers, version)
        config = EpochConfig(
            compress_bytes=settings.node.compress_bytes or WHOLE_BYTES,
            portion_bytes=settings.node.move_portion_bytes,
            answer_key=key,
        )
        spills = spills_of(settings)
        programs = NodePrograms(program, reference, version, accept=accept_code)
        new_store = Store if spills is None else spills.store
        job = TransactionJob(program, topics, sequencers, config, new_store, programs.known)
        options = node_options(settings, number, job, CodeRule(program.name, version, accept=accept_code))
        counted = TransactionMeter()
        self.topics = topics
        self.parent = os.getppid() if parent is None else parent
        patient_log = PatientLog(log, options.node, self._is_to_leave)
        self.log = cast("Log", MeteredTransactionLog(cast("Log", patient_log), topics, counted))
        self._codes: list[str] = []
        self._watch = FunctionWatch(settings.node.function_timeout_ms)
        # A turn may be long: a node that takes over the work of others reads much. No node is to take that for death.
        self._watchdog = self.new_watchdog(
            log,  # its thread appends beside the loop: it has the log as it is
            topics.heartbeats,
            partial(m.encode, m.Heartbeat(FIRST_INCARNATION, options.node, 0)),
            settings.node,
            function_timeout_ms=SILENT_AFTER_MS,
            check=self._watch.check,
        )
        self._store = open_checkpoints(settings)
        patient = PatientCheckpoints(self._store, self.stop)
        around = NodeSurroundings(
            self.log,
            MeteredCheckpoints(patient, counted.plain),
            Clocks(monotonic_ms, wall_ms, time.thread_time_ns),
            plain_log=log,
            new_saver=lambda what: loader if loader is not None and what == "loader" else ThreadSaver(what),
            compact=CompactingChild(settings, patient),
            apart=TriedApart(settings, self._watchdog.turned),
            programs=programs,
            report=partial(logger.warning, "node %s: %s", options.node),
            disk_bytes=lambda store: 0 if spills is None else spills.size_of(store)[1],
        )
        self.driver = composed(job, options, around)
        self.feeding = Feeding(self.log, program, sequencers)
        self.external = ExternalCalls(self.log, program, topics.requests, monotonic_ms, key)
        self._program = 0  # number of the version that feeds and makes external calls
        self._sequencers = sequencers
        counted.plain.stalled_reads = lambda: log.stalls.count
        self.metrics = TransactionMetrics(self.driver, self.external, spills, settings, counted, patient_log)

    def loop(self) -> None:
        """Work until stopped.

        Raises ``RunFailed`` where functions are not deterministic, or exceed their timeout when run again.
        """
        name = self.driver.claiming.node
        self._watch.begin()
        self._watchdog.start()
        try:
            with named_errors(name):
                with self.metrics.serving():
                    turn_until(self._is_over, self._turn, self.log, self._watchdog, self.metrics)
                self.driver.leave()
        except JobMismatch as error:
            self.driver.leave()  # others have its work at once
            raise JobMismatch(f"node {name}: {error}") from error
        except (RerunHangs, CrashesHere, ProgramMissing) as error:
            raise RunFailed(f"node {name}: {error}") from error
        except m.BadMessage as error:
            raise RunFailed(f"node {name}: the control topic holds a record of a newer Holon: {error}") from error
        except Nondeterministic as error:
            job, begun = self.topics.job, self.driver.checkpoints.begun_with
            found = blamed(error, begun, self._store, self.driver.log, self.topics)  # it ends, and waits for no store
            more = f"holon txn replay MODULE:PROGRAM of job {job!r} runs the log again and names function and request"
            found.args = (f"node {name}: {found}\n{more}",)
            raise found from error
        finally:
            self._watchdog.stop()

    def _is_over(self) -> bool:
        if self._is_to_leave():
            self.driver.begin_leaving()
        return self.driver.may_leave

    def _is_to_leave(self) -> bool:
        return self.stop.is_set() or os.getppid() != self.parent

    def _turn(self, ready: Collection[TopicPartition] | None) -> Wait:
        self.driver.turn(ready)
        self._warn_of_codes()
        self._log_raised()
        self._follow_program()
        fed = self.feeding.turn(self.driver.node.owned_sequencers())
        fed |= self.external.turn(self.driver.node.owned_partitions())
        # The effects of all read records have been performed: only the log, or the time, can bring more.
        soon = self.driver.is_waiting or self.external.running
        quiet_s = QUIET_WAIT_S if self.driver.is_quiet else IDLE_WAIT_S
        idle_s = WATCH_WAIT_S if self.driver.watches else quiet_s
        fed |= self.driver.is_sending
        return Wait(self.driver.waits_for() | self.feeding.waits_for(), 0.0 if fed else CUT_WAIT_S if soon else idle_s)

    def _follow_program(self) -> None:
        """Streams and external calls go on by the version of the next epoch."""
        ledger = self.driver.node.ledger
        if (number := ledger.versions.number(ledger.done + 1)) != self._program:
            self._program = number
            program = ledger.versions.program(ledger.done + 1)
            self.feeding = Feeding(self.log, program, self._sequencers)
            self.external.use(program)

    def _log_raised(self) -> None:
        """Where in the program's code was raised what has aborted transactions."""
        for raised in self.driver.node.ledger.raised.take():
            shown = raised.whole if logger.isEnabledFor(logging.DEBUG) else raised.own
            logger.warning("node %s: %s", self.driver.claiming.node, shown)

    def _warn_of_codes(self) -> None:
        """Several versions of the program at once were accepted with an option, and every node logs them."""
        codes = self.driver.claiming.ownership.codes
        if codes is self._codes:
            return
        self._codes = codes
        if len(codes) > 1:
            logger.warning(
                "job %r: nodes with %s versions of its code may work side by side", self.topics.job, len(codes)
            )


def run_transaction_node(
    program: Program,
    settings: Settings,
    *,
    number: int,
    sequencers: int,
    reference: str = "",
    accept_code: bool = False,
    parent: int | None = None,
    stops: StopSignals | None = None,
) -> None:
    """Open the log, join the job, work until a stop is requested (SIGTERM, SIGINT).

    ``reference``: of the program, ``MODULE:PROGRAM``; other nodes can load it by that after an upgrade.
    Raises ``StoppedEarly`` where a stop was requested before the log was open.
    """
    sys.setswitchinterval(SWITCH_S)
    loaders = [ThreadSaver[Any]("loader")]  # of the first run, since what it has loaded is of no other
    begin_in_first_heap(loaders[0].begin)

    def run_once(log: Log, stops: StopSignals) -> None:
        given = {"reference": reference, "accept_code": accept_code, "parent": parent}
        loader = loaders.pop() if loaders else None
        process = TransactionProcess(program, log, settings, number, sequencers, **given, loader=loader)
        stops.concern(process)
        process.loop()

    live(lambda: node_log(settings, GC_THRESHOLDS), run_once, stops=stops)
