"""Other partitions and another program while a measured run goes on: requested as an operator would, one by one.

They are requested beside the loop that sends and receives, so that no request of the run is late for it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

import msgspec

from holon.errors import HolonError
from nodes.errors import RunFailed
from nodes.log import Log
from nodes.log.contract import LogError
from nodes.python_process import child_environment, module_command
from nodes.transactions.bench.reply_times import Interval, Phase, ReplyTimes
from nodes.transactions.layouts.repartitioning import Mode, Repartitioned, Repartitioning, Spread
from nodes.transactions.topics import TransactionTopics
from transactional.workloads.contract import RequestHistory
from transactional.workloads.next_version import is_marked

PATIENCE_S = 600.0


class Repartition(NamedTuple):
    """``share``: of the replies, at which it is requested."""

    share: float
    operators: tuple[str, ...]
    to: int
    spread: Spread
    mode: Mode


class Upgrade(NamedTuple):
    """``share``: of the replies, at which `holon txn upgrade` is started."""

    share: float
    reference: str


class Migrated(NamedTuple):
    """``interval``: from the request until it is known to hold."""

    outcome: Repartitioned
    interval: Interval


class Upgraded(NamedTuple):
    """``interval``: from the start of the command to its end."""

    outcome: dict[str, Any]
    interval: Interval


class ElasticChanges:
    """Of one run. ``open_log``: the log once more, for the thread that requests. ``options``: of commands."""

    def __init__(self, topics: TransactionTopics, open_log: Callable[[], Log] | None, options: Sequence[str]) -> None:
        self._topics = topics
        self._open_log = open_log
        self._options = options
        self._queue: SimpleQueue[tuple[Repartition | Upgrade, Future[Migrated | Upgraded]]] = SimpleQueue()
        self._started: list[Future[Migrated | Upgraded]] = []

    def start(self, change: Repartition | Upgrade) -> None:
        """Returns at once. It begins when those before it have ended."""
        if not self._started:
            # A daemon: a run that fails does not wait for what its nodes will never do.
            Thread(target=self._work, name="elastic-changes", daemon=True).start()
        self._started.append(Future())
        self._queue.put((change, self._started[-1]))

    def ended(self) -> list[Migrated | Upgraded]:
        """All, in their order, after waiting for them. Raises what one of them raised: ``RunFailed``, ``LogError``."""
        return [each.result(2 * PATIENCE_S) for each in self._started]

    def _work(self) -> None:
        while True:
            change, future = self._queue.get()
            try:
                future.set_result(self._run(change))
            except (HolonError, LogError, OSError, ValueError) as error:
                future.set_exception(error)
            finally:
                if not future.done():
                    future.set_exception(RunFailed(f"{change} ended as none should: see standard error"))

    def _run(self, change: Repartition | Upgrade) -> Migrated | Upgraded:
        return self._repartition(change) if isinstance(change, Repartition) else self._upgrade(change)

    def _repartition(self, change: Repartition) -> Migrated:
        assert self._open_log is not None, "a run that moves keys is given its log once more"
        with self._open_log() as log:
            requests = Repartitioning(log, self._topics)
            begin_s = time.monotonic()
            made, told = requests.request(change.operators, change.to, change.spread, change.mode)
            told = requests.wait(made, told, PATIENCE_S)
            return Migrated(told, Interval(begin_s, time.monotonic()))

    def _upgrade(self, change: Upgrade) -> Upgraded:
        command = [*module_command("nodes.cli", "txn", "upgrade", change.reference), "--json", *self._options]
        command += ["--timeout-s", f"{PATIENCE_S:g}"]
        begin_s = time.monotonic()
        done = subprocess.run(command, env=child_environment(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RunFailed(f"holon txn upgrade {change.reference} ended with {done.returncode}: {done.stderr.strip()}")
        return Upgraded(msgspec.json.decode(done.stdout), Interval(begin_s, time.monotonic()))


def elastic_figures(ended: Sequence[Migrated | Upgraded], times: ReplyTimes) -> dict[str, object]:
    """As ``docs/cli.md`` describes them."""
    migrated = [each for each in ended if isinstance(each, Migrated)]
    migrations = [_migration(each, times) for each in migrated]
    shares = [each["least_share"] for each in migrations]
    known = [share for share in shares if isinstance(share, float)]
    phases = times.phases([each.interval for each in migrated])
    return {
        "migrations": migrations,
        **{name: _plain(phase) for name, phase in phases.items()},
        "least_share": min(known, default=None),
        "upgrades": [_upgrade(each, times) for each in ended if isinstance(each, Upgraded)],
    }


def _migration(each: Migrated, times: ReplyTimes) -> dict[str, object]:
    told, interval = each
    return {
        "operators": told.operators,
        "from": told.from_partitions,
        "to": told.to,
        "mode": told.mode,
        "spread": told.spread,
        "keys": told.keys,
        "bytes": told.bytes,
        "replies": told.replies,
        "took_s": interval.end_s - interval.begin_s,
        "downtime_ms": times.downtime_ms(interval),
        "epochs_stopped_ms": told.downtime_ms,
        "least_share": times.least_share(interval),
        "resumed": told.resumed,
    }


def _upgrade(each: Upgraded, times: ReplyTimes) -> dict[str, object]:
    told, interval = each
    return {
        "from": told["before"]["code"],
        "to": told["after"]["code"],
        "since_epoch": told["since_epoch"],
        "took_s": told["took_s"],
        "downtime_ms": times.downtime_ms(interval),
        "least_share": times.least_share(interval),
        "during": _plain(times.phase(interval)),
    }


def _plain(phase: Phase | None) -> dict[str, float] | None:
    return None if phase is None else phase._asdict()


def of_wrong_version(history: RequestHistory, epochs: Mapping[str, int], since_epoch: int) -> list[str]:
    """A sentence for each reply that another version of the program gave than that of its epoch."""
    wrong: list[str] = []
    for request, outcome in history.committed():
        by_next, epoch = is_marked(outcome), epochs[request.id]
        if by_next != (epoch >= since_epoch):
            version = "next" if by_next else "first"
            wrong.append(
                f"{request.id} of epoch {epoch} has a reply of the {version} version, and the next one holds "
                f"from epoch {since_epoch} on"
            )
    return wrong
