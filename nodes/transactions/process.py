"""A transactional node as an operating-system process."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import uuid
from functools import partial
from types import FrameType
from typing import cast

from nodes.checkpoints_opening import open_checkpoints
from nodes.code_check import JobMismatch
from nodes.errors import RunFailed, UnknownName
from nodes.guardian import Guardian, Place, Watched
from nodes.lives import live
from nodes.lock_watch import LockWatch
from nodes.log import Log, LogError, LogInterrupted, UnknownTopic
from nodes.machine import messages as m
from nodes.machine.claiming import Claiming
from nodes.machine.code_rule import CodeRule
from nodes.meter import MeteredCheckpoints
from nodes.patience import PatientCheckpoints
from nodes.process_start import IDLE_WAIT_S, monotonic_ms, node_log
from nodes.saver import ThreadSaver
from nodes.settings import Settings
from nodes.stop_signals import INTERRUPTED_EXIT, StopSignals
from nodes.transactions.beginning import begin
from nodes.transactions.blame import blamed
from nodes.transactions.checkpointing import TransactionCheckpoints
from nodes.transactions.compaction import CompactingChild
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.feeding import Feeding
from nodes.transactions.meter import MeteredTransactionLog, TransactionMeter
from nodes.transactions.metrics import TransactionMetrics
from nodes.transactions.outside import Outside
from nodes.transactions.spill import spills_of
from nodes.transactions.topics import FIRST_INCARNATION, create_topics
from nodes.transactions.trimming import Trimming
from nodes.transactions.trying import TriedApart
from nodes.transactions.watch import FunctionWatch
from nodes.user_modules import import_user_module, modules_near
from transactional.crashing import CrashesHere
from transactional.describing import version_of
from transactional.errors import RerunHangs
from transactional.nondeterminism import Nondeterministic
from transactional.operators import Program
from transactional.pieces import WHOLE_BYTES
from transactional.sequencer import EpochConfig
from transactional.store import Store

logger = logging.getLogger(__name__)

CUT_WAIT_S = 0.001
QUIET_WAIT_S = 0.04
"""Where nothing is in work: half the time between heartbeats, which is as often as others have to be looked after."""
WATCH_WAIT_S = 0.005
"""Between two looks whether the owner of something is late that a standby has ready."""
SWITCH_S = 0.0005
"""So long another thread (that saves checkpoints) runs on while the loop wants to: Python's 5 ms are an epoch."""
DEAF_AFTER_MS = 1_000
GC_THRESHOLDS = (2_000, 1_000, 50)
"""Cycles are looked for among few objects at a time, while the cache still has them: at 20,000, 30 ms stood still.
What a transaction makes that lives on is remembered for long, and is in no cycle: it need not be looked at again."""


def load_program(reference: str) -> Program:
    """``MODULE:NAME`` of a ``Program``. Raises ``UnknownName``."""
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise UnknownName("program", f"{reference} (expected MODULE:PROGRAM)")
    try:
        module = import_user_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise UnknownName("module", module_name, modules_near(module_name)) from error
    programs = {name: value for name, value in vars(module).items() if isinstance(value, Program)}
    if attribute not in programs:
        raise UnknownName("program", reference, [f"{module_name}:{name}" for name in programs])
    return programs[attribute]


def _hung(place: Place, stack: str) -> None:
    """Never called: only streaming jobs' code has a place."""


def wall_ms() -> int:
    """Milliseconds since 1970: what ``ctx.now`` shows."""
    return time.time_ns() // 1_000_000


def _claiming(number: int, groups: tuple[int, int], settings: Settings, rule: CodeRule) -> Claiming:
    """Every life of a node has a name of its own."""
    return Claiming(
        f"{number}-{uuid.uuid4().hex[:12]}",
        number,
        FIRST_INCARNATION,
        sum(groups),
        suspect_after_ms=settings.node.suspect_after_ms,
        groups=groups,
        rule=rule,
    )


class TransactionProcess:
    """Runs one node until it is told to stop. ``parent``: it leaves when this one has gone (None: who started it)."""

    def __init__(
        self,
        program: Program,
        log: Log,
        settings: Settings,
        number: int,
        sequencers: int,
        *,
        accept_code: bool = False,
        parent: int | None = None,
    ) -> None:
        log.prefer_latency(build=True)
        self.topics = create_topics(log, program, sequencers)
        log.tolerate_loss([self.topics.heartbeats], essential=[self.topics.control])
        version = version_of(program)
        key = begin(log, self.topics, program, sequencers, version)
        counted = TransactionMeter()
        # The guardian's thread appends beside the loop: it has the log as it is.
        plain_log, log = log, cast("Log", MeteredTransactionLog(log, self.topics, counted))
        self.log = log
        self.parent = os.getppid() if parent is None else parent
        groups = sequencers, program.partitions  # they cost differently
        claiming = _claiming(number, groups, settings, CodeRule(program.name, version, accept=accept_code))
        node = claiming.node
        self._codes: list[str] = []
        self._stop = threading.Event()
        spills = spills_of(settings)
        checkpoints = self._checkpoints(settings, program.name, claiming, sequencers, counted)
        config = EpochConfig(compress_bytes=settings.node.compress_bytes or WHOLE_BYTES, answer_key=key)
        trimming = Trimming(
            plain_log,
            self.topics,
            checkpoints,
            id_window=config.id_window,
            interval_ms=settings.node.merge_interval_ms if settings.node.trim else 0,
            saver=ThreadSaver("trimmer"),
            report=partial(logger.warning, "node %s: %s", node),
        )
        self.driver = TransactionDriver(
            program,
            self.topics,
            log,
            claiming,
            checkpoints,
            monotonic_ms,
            wall_ms,
            sequencers=sequencers,
            config=config,
            heartbeat_interval_ms=settings.node.heartbeat_interval_ms,
            new_store=Store if spills is None else spills.store,
            copies=settings.node.replicas,
            trimming=trimming,
        )
        self._watch = FunctionWatch(settings.node.function_timeout_ms)
        # A turn may be long: who takes over the work of others reads much. Nobody is to take that for death.
        self._guardian = Guardian(
            Watched(
                plain_log,
                self.topics.heartbeats,
                partial(m.encode, m.Heartbeat(FIRST_INCARNATION, node, 0)),
                settings.node.heartbeat_interval_ms,
                settings.node.hang_after_ms,
                max(2 * settings.node.suspect_after_ms, DEAF_AFTER_MS),
                _hung,
                self._stop.set,
                look=self._watch.look,
                lock=LockWatch(2 * settings.node.function_timeout_ms),
            )
        )
        self.driver.apart = TriedApart(settings, self._guardian.turned)
        self.feeding = Feeding(log, program, sequencers)
        self.outside = Outside(log, program, self.topics.requests, monotonic_ms, key)
        self.metrics = TransactionMetrics(self.driver, self.outside, spills, settings, counted)

    def _checkpoints(
        self, settings: Settings, job: str, claiming: Claiming, sequencers: int, counted: TransactionMeter
    ) -> TransactionCheckpoints:
        """They are saved and merged beside the loop, with patience for a store that does not answer."""
        store = open_checkpoints(settings)
        patient = PatientCheckpoints(store, self._stop)
        return TransactionCheckpoints(
            store,
            job,
            claiming.node,
            claiming.ownership,
            sequencers=sequencers,
            interval_ms=settings.node.checkpoint_interval_ms,
            saver=ThreadSaver("saver"),
            merger=ThreadSaver("merger"),
            compact=CompactingChild(settings, patient),
            saving_store=MeteredCheckpoints(patient, counted.plain),
            reads_back=settings.node.trim,
        )

    def request_stop(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Leave after this turn; a second time at once."""
        if self._stop.is_set():
            os._exit(INTERRUPTED_EXIT)
        self._stop.set()

    def loop(self) -> None:
        """Work until stopped. Raises ``RunFailed`` where functions are not deterministic, or hang when run again."""
        name = self.driver.claiming.node
        self._watch.begin()
        self._guardian.start()
        try:
            with self.metrics.serving():
                self._turns()
            self.driver.leave()
        except JobMismatch as error:
            self.driver.leave()  # others have its work at once
            raise JobMismatch(f"node {name}: {error}") from error
        except (RerunHangs, CrashesHere) as error:
            raise RunFailed(f"node {name}: {error}") from error
        except m.BadMessage as error:
            raise RunFailed(f"node {name}: the control topic holds a record of a newer Holon: {error}") from error
        except Nondeterministic as error:
            job, began = self.topics.job, self.driver.checkpoints
            found = blamed(error, began.begun_with, began.store, self.driver.log, self.topics)
            more = f"holon txn replay MODULE:PROGRAM of job {job!r} runs the log again and names function and request"
            found.args = (f"node {name}: {found}\n{more}",)
            raise found from error
        except UnknownTopic as error:  # they were there: a broker that loads, or they are missing when a life begins
            raise LogInterrupted(f"node {name}: {error}") from error
        except LogError as error:
            error.args = (f"node {name}: {error}",)
            raise
        finally:
            self._guardian.stop()

    def _turns(self) -> None:
        ready = None
        while not self._stop.is_set() and os.getppid() == self.parent:
            self._guardian.turned()
            self.driver.turn(ready)
            self._remark_codes()
            self._tell_raised()
            fed = self.feeding.turn(self.driver.node.owned_sequencers())
            fed |= self.outside.turn(self.driver.node.owned_partitions())
            # What follows from what was read has been done: only the log, or the time, can bring more.
            soon = self.driver.is_waiting or self.outside.running
            quiet_s = QUIET_WAIT_S if self.driver.is_quiet else IDLE_WAIT_S
            idle_s = WATCH_WAIT_S if self.driver.watches else quiet_s
            wait_s = 0.0 if fed else CUT_WAIT_S if soon else idle_s
            self.metrics.turned()
            with self.metrics.idle():
                ready = self.log.wait(self.driver.waits_for() | self.feeding.waits_for(), wait_s)

    def _tell_raised(self) -> None:
        """Where in the program's code was raised what has aborted transactions."""
        for told in self.driver.node.ledger.raised.take():
            shown = told.whole if logger.isEnabledFor(logging.DEBUG) else told.own
            logger.warning("node %s: %s", self.driver.claiming.node, shown)

    def _remark_codes(self) -> None:
        """Several versions of the program at once are somebody's wish, and are said to everybody."""
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
    accept_code: bool = False,
    parent: int | None = None,
    stops: StopSignals | None = None,
) -> None:
    """Open the log, join the job, work until told to stop (SIGTERM, SIGINT).

    Raises ``StoppedEarly`` where ``stops`` were asked before the log was open.
    """
    sys.setswitchinterval(SWITCH_S)

    def one_life(log: Log, stops: StopSignals) -> None:
        process = TransactionProcess(program, log, settings, number, sequencers, accept_code=accept_code, parent=parent)
        stops.concern(process)
        process.loop()

    live(lambda: node_log(settings, GC_THRESHOLDS), one_life, stops=stops)
