"""A node as an operating-system process: the driver's loop, a guardian thread, signals and crash points."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable
from types import FrameType

from holon.job import Job
from nodes.checkpoints import CheckpointStore, ObjectCheckpoints
from nodes.driver import Driver
from nodes.errors import RunFailed
from nodes.jobs import heartbeat_topic, open_job
from nodes.log import Log, LogError, open_log
from nodes.machine import messages as m
from nodes.machine.config import JobRun, NodeConfig
from nodes.machine.effects import Ending
from nodes.machine.events import StopRequested
from nodes.machine.node import Node
from nodes.settings import Settings

logger = logging.getLogger(__name__)

IDLE_WAIT_S = 0.02
CRASHPOINT_VARIABLE = "CRASHPOINT"
"""``name:n`` in the environment kills the process, as ``kill -9`` does, at the n-th passing of that point."""


def monotonic_ms() -> int:
    """The node's clock: it only has to run."""
    return time.monotonic_ns() // 1_000_000


def open_job_log(settings: Settings) -> Log:
    """The log that the settings name."""
    if settings.log.kind != "embedded":
        raise RunFailed(f"log.kind = {settings.log.kind}: this release runs jobs on the embedded log")
    return open_log(
        f"embedded:{settings.log.path}", fsync=settings.log.fsync, fsync_interval_ms=settings.log.fsync_interval_ms
    )


def node_config(settings: Settings, number: int, expected: int) -> NodeConfig:
    """The part of the settings that the state machine uses; every life of a node has a name of its own."""
    node = settings.node
    return NodeConfig(
        node=f"{number}-{uuid.uuid4().hex[:12]}",
        number=number,
        heartbeat_interval_ms=node.heartbeat_interval_ms,
        suspect_after_ms=node.suspect_after_ms,
        broadcast_interval_ms=node.broadcast_interval_ms,
        checkpoint_interval_ms=node.checkpoint_interval_ms,
        watermark_max_ahead_ms=node.watermark_max_ahead_ms,
        expected=expected,
    )


class NodeProcess:
    """Runs one node until its job is done, it is told to stop, or it cannot go on."""

    def __init__(self, run: JobRun, log: Log, checkpoints: CheckpointStore, config: NodeConfig, settings: Settings):
        self.run = run
        self.log = log
        self.config = config
        self.settings = settings
        self.node = Node(config, run)
        self.driver = Driver(
            self.node,
            log,
            checkpoints,
            monotonic_ms,
            batch_max_records=settings.node.batch_max_records,
            crashpoint=crashpoint_from(os.environ.get(CRASHPOINT_VARIABLE, "")),
            report=logger.warning,
        )
        self._stop = threading.Event()
        self._over = threading.Event()
        self._turned_ms = monotonic_ms()

    def request_stop(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Drain, checkpoint, release, leave; a second time at once."""
        if self._stop.is_set():
            os._exit(130)
        self._stop.set()

    def loop(self) -> Ending:
        """Work until the node leaves. Raises ``RunFailed`` with the reason where it could not go on."""
        guardian = threading.Thread(target=self._guard, name="holon-guardian", daemon=True)
        guardian.start()
        asked = False
        try:
            while self.node.left is None:
                self._turned_ms = monotonic_ms()
                if self._stop.is_set() and not asked:
                    asked = True
                    self.driver.tell(StopRequested())
                elif not self.driver.turn():
                    self.log.wait(self.driver.waits_for(), IDLE_WAIT_S)
        finally:
            self._over.set()
            guardian.join(timeout=2)
        left = self.node.left
        if left.ending is Ending.FAILED:
            raise RunFailed(left.reason)
        return left.ending

    def _guard(self) -> None:
        """Signs of life while a long call of the user's function keeps the loop from turning, up to a bound.

        A node that hangs for longer is given up: the silence lets others take its partitions.
        """
        interval_s = self.config.heartbeat_interval_ms / 1000
        topic = heartbeat_topic(self.run.job)
        beat = m.encode(m.Heartbeat(self.run.incarnation, self.config.node, 0))
        while not self._over.wait(interval_s):
            late_ms = monotonic_ms() - self._turned_ms
            if self.config.heartbeat_interval_ms < late_ms < self.settings.node.hang_after_ms:
                try:
                    self.log.append(topic, 0, [beat])
                except LogError as error:
                    logger.warning("node %s: no sign of life: %s", self.config.node, error)


def run_node(
    job: Job, settings: Settings, *, number: int, expected: int = 1, accept_code: bool = False
) -> tuple[Ending, Node]:
    """Open the log, join the job, work until it is over; signals SIGTERM and SIGINT drain."""
    with open_job_log(settings) as log:
        run = open_job(log, job, accept_code=accept_code)
        store = ObjectCheckpoints(settings.checkpoint_url())
        process = NodeProcess(run, log, store, node_config(settings, number, expected), settings)
        for number_of_signal in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number_of_signal, process.request_stop)
        gc.collect()
        gc.freeze()  # what the imports made need not be looked at again
        return process.loop(), process.node


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
