"""Metrics and health of one node process, put together from its settings: counting, serving, being found."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import msgspec

from nodes.log.contract import Log
from nodes.machine.node import Node
from nodes.metrics.counters import Meter, MeteredLog
from nodes.metrics.exposition import exposition, require_client
from nodes.metrics.figures import Desk, FigureDesk
from nodes.metrics.health import Health, HealthLimits, live, ready
from nodes.metrics.server import MetricsServer, Pages
from nodes.settings.settings import Settings
from nodes.streams.jobs import JobTopics

logger = logging.getLogger(__name__)

PORT_STAT = "metrics_port"
LOG_SILENT_S = 2.0
"""Heartbeats are appended ten times a second: a log that has acknowledged none for so long does not answer."""


class Idle:
    """Counts how long its block takes; a class, since each turn of a node's loop enters it."""

    __slots__ = ("_began_s", "_meter")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._began_s = 0.0

    def __enter__(self) -> None:
        self._began_s = time.monotonic()

    def __exit__(self, *exception: object) -> None:
        self._meter.idle_s += time.monotonic() - self._began_s


class ServedMetrics:
    """The part that a node process of any kind holds. ``meter`` and ``desk`` belong to the node's own thread.

    ``report`` takes figures for the node's heartbeats: its port is one. ``moving``: inside of a long call that gets on.
    """

    def __init__(
        self,
        settings: Settings,
        job: str,
        node: str,
        number: int,
        meter: Meter,
        desk: Desk,
        report: Callable[[Mapping[str, float]], None],
        moving: Callable[[], bool],
    ) -> None:
        self.settings = settings
        self.meter = meter
        self._idle = Idle(meter)
        self.desk: Desk = desk
        self._job, self._name, self._number = job, node, number
        self._report = report
        self._moving = moving
        config = settings.metrics
        self._limits = HealthLimits(
            settings.node.function_timeout_ms / 1000,
            max(LOG_SILENT_S, 10 * settings.node.heartbeat_interval_ms / 1000),
            config.ready_lag_ms / 1000,
        )

    def idle(self) -> Idle:
        """Count a wait for something to do."""
        return self._idle

    @contextmanager
    def serving(self) -> Iterator[MetricsServer | None]:
        """Serve while the node runs; None where ``metrics.enabled`` is false.

        Raises ``RunFailed`` where the port is taken, ``MissingDependency`` where the settings enable metrics and the
        package is not there. Where they are only on by default, health is served without it.
        """
        config = self.settings.metrics
        if not config.enabled:
            yield None
            return
        if self.settings.origin("metrics.enabled") != "default":
            require_client()
        number = max(0, self._number)
        token = None if config.token is None else config.token.get_secret_value()
        pages = Pages(self._metrics, self._live, self._ready)
        server = MetricsServer(
            pages, config.host, config.port + number if config.port else 0, token, config.host_names()
        )
        server.start()
        self._report({PORT_STAT: float(server.address[1])})
        logger.info("node %s: metrics on %s/metrics", self._name, server.url)
        target = self._write_target(server)
        try:
            yield server
        finally:
            server.close()
            if target is not None:
                target.unlink(missing_ok=True)

    def _metrics(self, accept: str) -> tuple[bytes, str]:
        figures = self.desk.request()
        return exposition(figures, time.monotonic(), self.meter.turned_s, accept)

    def _live(self) -> Health:
        stalled_s = 0.0 if self._moving() else time.monotonic() - self.meter.turned_s
        return live(stalled_s, self._limits)

    def _ready(self) -> Health:
        figures = self.desk.request()
        return ready(self._live(), figures, time.monotonic() - self.meter.answered_s, self._limits)

    def _write_target(self, server: MetricsServer) -> Path | None:
        """The node's address, where Prometheus discovers it (``file_sd_configs``)."""
        folder = self.settings.metrics.targets_dir
        if folder is None:
            return None
        where = Path(folder, f"{self._job}-{self._name}.json")
        labels = {"holon_job": self._job, "node": str(self._number)}
        text = msgspec.json.encode([{"targets": [server.url.removeprefix("http://")], "labels": labels}])
        where.parent.mkdir(parents=True, exist_ok=True)
        written = where.with_suffix(f".{os.getpid()}.part")
        written.write_bytes(text)
        written.replace(where)
        return where


class NodeMetrics(ServedMetrics):
    """Of a node of a streaming job."""

    def __init__(
        self,
        node: Node,
        settings: Settings,
        report: Callable[[Mapping[str, float]], None],
        moving: Callable[[], bool],
    ) -> None:
        meter = Meter()
        desk = FigureDesk(node, meter)
        name, number = node.config.node, node.config.number
        super().__init__(settings, node.run.job.name, name, number, meter, desk, report, moving)
        self.node = node

    def metered(self, log: Log) -> Log:
        """The log, with what the node reads and appends counted."""
        self.meter.stalled_reads = lambda: log.stalls.count
        return cast("Log", MeteredLog(log, JobTopics.of(self.node.run), self.meter))

    def turned(self) -> None:
        """After every turn of the node's loop."""
        self.meter.turn(self.node)
        self.desk.serve()
