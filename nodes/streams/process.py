"""A node as an operating-system process: the driver's loop, a watchdog thread, signals and crash points."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import partial
from types import FrameType

from holon.formats.registry import FoundSchema, schemas_of
from holon.job import Job
from holon.tracks.job_code import FunctionCall
from nodes.checkpoints.opening import open_checkpoints
from nodes.checkpoints.saver import ThreadSaver
from nodes.checkpoints.store import CheckpointStore
from nodes.checkpoints.store_retries import PatientCheckpoints
from nodes.errors import RunFailed
from nodes.log import Log, LogError, LogTruncated, TopicPartition
from nodes.machine import messages as m
from nodes.machine.config import JobRun, NodeConfig
from nodes.machine.effects import Ending
from nodes.machine.events import StopRequested
from nodes.machine.node import Node
from nodes.machine.workload import PID, WINDOWS_LEFT
from nodes.metrics.counters import MeteredCheckpoints
from nodes.metrics.node import NodeMetrics
from nodes.runtime.in_process_restarts import live
from nodes.runtime.log_opening import outputs_in_transactions
from nodes.runtime.node_process import NodeShell, named_errors
from nodes.runtime.process_start import IDLE_WAIT_S, monotonic_ms, node_log
from nodes.runtime.stop_signals import StopEvent, StopSignals
from nodes.runtime.turns import Wait, turn_until
from nodes.settings.schema_registry import RegistrySettings
from nodes.settings.settings import Settings
from nodes.streams.control_history import JobControlHistory
from nodes.streams.crashing_records import RecordsApart
from nodes.streams.driver import Driver
from nodes.streams.io.awaited_schemas import Answered, AwaitedSchemas, FoundIds
from nodes.streams.io.inputs import use_columns, use_parts
from nodes.streams.io.joining import FellBehind
from nodes.streams.jobs import heartbeat_topic, open_history, with_policy
from nodes.streams.mapped_columns import mapped_columns
from nodes.streams.topic_watch import POLL_INTERVAL_S, TopicWatch
from nodes.streams.upstream import UpstreamWatch
from wcrdt.column_memory import install_column_memory
from wcrdt.lattices.keyed.int_index import install_secret

logger = logging.getLogger(__name__)

LOADING_WAIT_S = 0.002
"""A loaded checkpoint wakes no thread, and the partition's results wait for it: so the node polls often at first."""
LOADING_WAITS = 500
FAILED_EXIT = 1
JOIN_ATTEMPTS = 5
CRASHPOINT_VARIABLE = "CRASHPOINT"
"""``name:n`` in the environment kills the process, as ``kill -9`` does, at the n-th passing of that point."""


def node_config(settings: Settings, number: int, expected: int, until: Sequence[int] = ()) -> NodeConfig:
    """The part of the settings that the state machine uses; every incarnation of a node has a name of its own."""
    node = settings.node
    return NodeConfig(
        node=f"{number}-{uuid.uuid4().hex[:12]}",
        number=number,
        heartbeat_interval_ms=node.heartbeat_interval_ms,
        failure_timeout_ms=node.failure_timeout_ms,
        broadcast_interval_ms=node.broadcast_interval_ms,
        broadcast_max_per_s=node.broadcast_max_per_s,
        checkpoint_interval_ms=node.checkpoint_interval_ms,
        max_watermark_drift_ms=node.max_watermark_drift_ms,
        merged_checkpoint_interval_ms=node.merged_checkpoint_interval_ms,
        trims=node.truncate_internal_topics,
        max_uncheckpointed_bytes=node.max_uncheckpointed_mb << 20,
        expected=expected,
        until=tuple(until),
        replicas=node.replicas,
        standby_after_ms=node.standby_after_ms,
    )


def awaited_schemas(node: Node, log: Log, settings: RegistrySettings) -> AwaitedSchemas | None:
    """The schemas that the job's input names; None where it names none."""
    run = node.run
    if not any(schemas_of(source.format) for source in run.job.sources):
        return None
    from nodes.schema_registry.client import RegistryClient  # HTTP and TLS: 20 ms of a start that few nodes need

    def fetch(url: str, id: int) -> FoundSchema:
        return RegistryClient(url, settings).fetch(id)

    def write(found: FoundIds) -> None:
        log.send(run.job.control_topic, 0, [m.encode(m.SchemasFound(run.incarnation, node.config.node, *found))])

    own, saver = node.ownership, partial(ThreadSaver[Answered], "schemas")
    return AwaitedSchemas(run.layout, fetch, lambda: own.schemas, write, logger.warning, saver)


class NodeProcess(NodeShell):
    """Runs one node until its job is done, a stop is requested, or it cannot go on.

    ``parent``: the process that it belongs to; when that has gone the node leaves as on a request to stop.
    """

    def __init__(
        self,
        run: JobRun,
        log: Log,
        checkpoints: CheckpointStore,
        config: NodeConfig,
        settings: Settings,
        parent: int | None = None,
        history: JobControlHistory | None = None,
    ) -> None:
        super().__init__()
        install_secret(secrets.randbits(64))
        columns = mapped_columns(settings, logger.warning)
        install_column_memory(columns)
        use_columns(log, run.job, build_for_objects=settings.log.kind == "kafka")
        use_parts(log, run.job)
        self.run = run
        self.log = log
        self.config = config
        self.settings = settings
        history = JobControlHistory(log, run.job) if history is None else history
        self._parent = parent
        self._leaving = StopEvent()
        self._stop_requested = False  # the node has got its ``StopRequested``
        self._turns_loading = 0
        self._watchdog = self.new_watchdog(
            log,
            heartbeat_topic(run.job),
            self._heartbeat,
            settings.node,
            function_timeout_ms=settings.node.function_timeout_ms,
            hung=self._hung,
            parent=parent,
        )
        apart = RecordsApart(settings, self._watchdog.turned)
        self.node = Node(config, run, history.ownership, code_hash=history.failure_key(run.job), apart=apart)
        self.metrics = NodeMetrics(
            self.node,
            settings,
            lambda figures: self.driver.report_figures(figures),
            lambda: self._watchdog.slow_but_moving,
        )
        if columns is not None:
            self.metrics.meter.state_columns = columns.sizes
        patient = PatientCheckpoints(
            checkpoints, self._leaving, leave_s=settings.checkpoints.shutdown_timeout_ms / 1000
        )
        schemas = awaited_schemas(self.node, log, settings.schema_registry)
        if schemas is not None:
            self.metrics.meter.awaiting_schema = schemas.count
        self.driver = Driver(
            self.node,
            self.metrics.metered(log),
            MeteredCheckpoints(patient, self.metrics.meter),
            monotonic_ms,
            batch_max_records=settings.node.batch_max_records,
            crashpoint=crashpoint_from(os.environ.get(CRASHPOINT_VARIABLE, "")),
            report=logger.warning,
            saver=ThreadSaver("saver"),
            loader=ThreadSaver("loader"),
            merger=ThreadSaver("merger"),
            schemas=schemas,
            control_at=history.offset,
        )
        self.driver.report_figures({PID: os.getpid()})
        topics = self.driver.topics
        log.tolerate_loss([topics.heartbeats, topics.group_heartbeats], essential=[topics.control])
        self._topics = TopicWatch(log, run)
        self._upstream = UpstreamWatch(log, run, self._counted_jobs, logger.warning)
        self._upstream_at_ms = 0

    def _counted_jobs(self) -> set[str]:
        return {job for runner in self.node.work.running() for job in runner.task.records.duplicates.jobs()}

    def _check_upstream(self) -> None:
        if self.run.upstream and not 0 <= monotonic_ms() - self._upstream_at_ms < 1000 * POLL_INTERVAL_S:
            self._upstream_at_ms = monotonic_ms()
            there = self._topics.topics()
            if there is not None:
                self._upstream.poll(there)

    def _heartbeat(self) -> bytes:
        """While the loop is inside of a long step: what can be read of it from another thread."""
        try:
            stats = {WINDOWS_LEFT: float(self.node.work.windows_left())}
        except (IndexError, RuntimeError):  # the loop has changed what was being read
            stats = {}
        return m.encode(m.Heartbeat(self.run.incarnation, self.config.node, 0, {}, stats))

    def request_stop(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Drain, checkpoint, release, leave; a second time at once."""
        super().request_stop(signum, frame)
        self._leaving.set()

    def loop(self) -> Ending:
        """Work until the node leaves. Raises ``RunFailed`` with the reason where it could not go on.

        Errors of the log and of the checkpoint store are raised with the node and its positions.
        """
        self._watchdog.start()
        self._topics.start()
        try:
            with named_errors(self.config.node, self._position_text, but=(LogTruncated,)):
                turn_until(self._has_left, self._turn, self.log, self._watchdog, self.metrics)
                self.driver.finish()
        except LogTruncated as error:
            raise self.driver.truncation.record_loss(error) from error.__cause__
        finally:
            self._watchdog.stop()
            self._topics.stop()
        left = self.node.left
        assert left is not None
        if self.node.failing:
            logger.debug("node %s: %s", self.config.node, self.node.failing)
        if left.ending is Ending.FAILED:  # the whole text is shown once, by the process that all its nodes belong to
            raise RunFailed(left.reason if self._parent is None else left.reason.partition("\n")[0])
        return left.ending

    def _turn(self, ready: Collection[TopicPartition] | None) -> Wait | None:
        if self._topics.problem is not None:
            raise RunFailed(f"node {self.config.node}: {self._topics.problem}")
        if self.stop.is_set() or self.node.work.stopping:
            self._leaving.set()
        if self.stop.is_set() and not self._stop_requested:
            self._stop_requested = True
            self.driver.dispatch(StopRequested())
            return None
        moved = self.driver.turn(ready or None)
        self._turns_loading = self._turns_loading + 1 if not moved and self.driver.loading else 0
        self._check_upstream()
        if self.driver.hurry or self.node.left is not None:
            return None
        wait_s = LOADING_WAIT_S if 0 < self._turns_loading < LOADING_WAITS else IDLE_WAIT_S
        return Wait(self.driver.waits_for(), min(wait_s, self.node.work.replicas.patience_ms / 1000))

    def _has_left(self) -> bool:
        return self.node.left is not None

    def _position_text(self) -> str:
        """Where the node was, and what to do next: for the text of an error."""
        runners = self.node.work.running()
        at = ", ".join(f"{runner.task.input.place} offset {runner.task.next_offset}" for runner in runners)
        return f"stopped at {at or 'no partition'}; nothing is lost: once this is mended, holon run resumes the job"

    def _hung(self, place: FunctionCall, stack: str) -> None:
        """Report it to the fleet as a failure and end the process: a call cannot be left from outside."""
        topic, number = self.run.layout[place.partition].place
        text = (
            f"job {self.run.job.name!r}: a call of the job's code has not returned for "
            f"{self.settings.node.function_timeout_ms} ms (node.function_timeout_ms) on partition {number} "
            f"at {place.at} of topic {topic!r}\n"
            f"Its stack:\n{stack}"
        )
        failed = m.Failed(
            self.run.incarnation, self.config.node, place.partition, place.offset, self.node.code_hash, text
        )
        try:
            self.log.append(self.run.job.control_topic, 0, [m.encode(failed)])
        except LogError as error:
            logger.error(
                "node %s: could not write to the control topic that the job's code hangs: %s", self.config.node, error
            )
        logger.error("node %s: %s", self.config.node, text)
        os._exit(FAILED_EXIT)


def run_node(
    job: Job,
    settings: Settings,
    *,
    number: int,
    expected: int = 1,
    until: Sequence[int] = (),
    accept_code: bool = False,
    parent: int | None = None,
    stops: StopSignals | None = None,
) -> tuple[Ending, Node]:
    """Open the log, join the job, work until it is over; signals SIGTERM and SIGINT drain.

    Raises ``StoppedEarly`` if a signal came before the log was open.
    """

    def run_once(log: Log, stops: StopSignals) -> tuple[Ending, Node]:
        attempts = 0
        while True:
            attempts += 1
            run, history = open_history(log, with_policy(job, settings.node.on_error), accept_code=accept_code)
            store, config = open_checkpoints(settings), node_config(settings, number, expected, until)
            if settings.log.transactional_outputs and attempts == 1:
                outputs_in_transactions(log, run, config.node, settings.log.transaction_timeout_ms)
            process = NodeProcess(run, log, store, config, settings, parent, history)
            try:
                return _run(process, stops), process.node
            except FellBehind:
                if process.node.member.joined or attempts == JOIN_ATTEMPTS:
                    raise
                logger.info("the job's own topics were trimmed while this node began to read them; once more")

    return live(lambda: node_log(settings), run_once, stops=stops)


def _run(process: NodeProcess, stops: StopSignals) -> Ending:
    stops.concern(process)
    with process.metrics.serving():
        return process.loop()


def crashpoint_from(text: str) -> Callable[[str], None]:
    """The crash point that ``name:n`` describes; an empty text never crashes."""
    name, _, times = text.partition(":")
    if not name:
        return lambda point: None
    remaining = [int(times or 1)]

    def crash(point: str) -> None:
        if point == name:
            remaining[0] -= 1
            if remaining[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return crash
