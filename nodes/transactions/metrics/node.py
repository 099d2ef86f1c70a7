"""Metrics and health of one transactional node process."""

from __future__ import annotations

import time

from nodes.log.patient import PatientLog, WaitForRoom
from nodes.metrics.figures import Desk, Labels, MetricFigures, Rates, histogram_of, of_time
from nodes.metrics.node import ServedMetrics
from nodes.settings.settings import Settings
from nodes.transactions.checkpoints.spill import Spills
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.external_calls import ExternalCalls
from nodes.transactions.layouts.cpu import CPU_STAT, HOT_STAT
from nodes.transactions.layouts.portions import about_bytes
from nodes.transactions.metrics.catalogue import TRANSACTION_METRICS
from nodes.transactions.metrics.counters import TransactionMeter
from nodes.transactions.topics import FIRST_INCARNATION

BUSY_STAT = "busy"
"""In heartbeats: the share of the last second or more in which the node's loop was at work, from 0 to 1."""
BUSY_INTERVAL_S = 1.0


class TransactionDesk(Desk):
    """Figures of a transactional node."""

    def __init__(
        self,
        driver: TransactionDriver,
        external: ExternalCalls,
        spills: Spills | None,
        meter: TransactionMeter,
        log: PatientLog | None = None,
    ) -> None:
        super().__init__()
        self.driver = driver
        self.external = external
        self.spills = spills
        self.meter = meter
        self._log = log
        self._rates = Rates()

    def _take(self) -> MetricFigures:
        now_s, wall_ms = time.monotonic(), time.time_ns() // 1_000_000
        driver, meter = self.driver, self.meter
        owned = driver.node.owned_partitions()
        age_s = max((now_s - began_s for began_s in meter.opened_s.values()), default=0.0)
        behind = [number for number, each in owned.items() if each.epoch <= driver.node.ledger.done]
        lags = {number: self._lag_s(number, wall_ms) for number in driver.node.owned_sequencers()}
        values = of_time(meter.plain, self._rates, now_s) | self._plain(now_s, age_s) | self._labelled()
        values["holon_lag_seconds"] = {(str(number),): lag_s for number, lag_s in lags.items()}
        return MetricFigures(
            now_s,
            driver.claiming.joined,
            tuple(sorted({*behind, *driver.loading_owned()})),
            max([age_s, *lags.values()]),
            values,
            {
                "holon_txn_epoch_duration_seconds": histogram_of(meter.epoch_durations),
                "holon_txn_epoch_rounds": histogram_of(meter.rounds),
                "holon_checkpoint_duration_seconds": histogram_of(meter.plain.checkpoint_durations),
            },
            TRANSACTION_METRICS,
            () if self._waiting is None else (f"it waits until there is room on the log: {self._waiting.reason}",),
        )

    @property
    def _waiting(self) -> WaitForRoom | None:
        return None if self._log is None else self._log.waiting

    def _lag_s(self, sequencer: int, wall_ms: int) -> float:
        """Requests that wait are about as old as the newest that was read."""
        through_ms = self.meter.requests_through_ms.get(sequencer)
        if through_ms is None or not self.driver.node.sequencers[sequencer].waiting:
            return 0.0
        return max(0, wall_ms - through_ms) / 1000

    def _plain(self, now_s: float, age_s: float) -> dict[str, dict[Labels, float]]:
        driver, node, meter, external = self.driver, self.driver.node, self.meter, self.external
        tally, claiming, owned = driver.steps.tally, driver.claiming, driver.node.owned_partitions()
        copied_bytes, left = node.ledger.copies.progress()
        found: dict[str, float] = {
            "holon_txn_epochs": meter.epochs,
            "holon_txn_epoch_age_seconds": age_s,
            "holon_txn_committed": tally.committed,
            "holon_txn_rerun": tally.rerun,
            "holon_txn_postponed": tally.postponed,
            "holon_txn_replies": tally.replies,
            "holon_txn_external_requests": tally.external_requests,
            "holon_txn_external_calls": external.made,
            "holon_txn_external_answered": external.answered,
            "holon_txn_external_failed": external.failed,
            "holon_txn_external_waiting": external.running,
            "holon_unacknowledged_writes": meter.plain.in_flight,
            "holon_stalled_reads": meter.plain.stalled_reads(),
            "holon_bad_messages": node.bad_messages + node.ledger.bad_messages + claiming.member.bad_messages,
            "holon_partitions_owned": len(owned),
            "holon_partitions_standby": len(node.partitions) - len(owned),
            "holon_standby_results_published": driver.standbys.published,
            "holon_promotions": driver.units.promotions,
            "holon_txn_copies_left": left,
            "holon_txn_copied_bytes": copied_bytes,
            "holon_txn_program_number": node.ledger.versions.number(node.ledger.done + 1),
            "holon_members": len(claiming.ownership.members),
            "holon_steals": claiming.sharing.steals,
            "holon_checkpoints": meter.plain.checkpoints,
            "holon_uptime_seconds": now_s - meter.plain.began_s,
        }
        return {name: {(): float(value)} for name, value in found.items()}

    def _labelled(self) -> dict[str, dict[Labels, float]]:
        driver, meter = self.driver, self.meter
        owned, info = driver.node.owned_partitions(), driver.claiming
        sizes, aborted = meter.plain.checkpoint_bytes, driver.steps.tally.aborted
        sequencers = driver.node.sequencers
        values: dict[str, dict[Labels, float]] = {
            "holon_node_info": {(driver.job.program.name, info.node, str(info.number), str(FIRST_INCARNATION)): 1.0},
            "holon_txn_aborted": {(reason,): float(count) for reason, count in sorted(aborted.items())},
            "holon_txn_requests_waiting": {
                (str(number),): float(sequencers[number].pending) for number in driver.node.owned_sequencers()
            },
            "holon_txn_request_ids": {(str(number),): float(len(each.replies)) for number, each in owned.items()},
            "holon_txn_partition_committed": {(str(number),): float(each.committed) for number, each in owned.items()},
            "holon_checkpoint_size_bytes": {
                (str(number),): float(sizes[driver.job.sequencers + number])
                for number in owned
                if driver.job.sequencers + number in sizes
            },
            "holon_txn_log_records": {},
            "holon_txn_log_bytes": {},
            "holon_txn_state_keys": {},
            "holon_txn_state_bytes": {},
            "holon_txn_log_full_seconds": {},
            "holon_txn_partition_cpu_seconds": {
                (str(number),): spent_s for number, spent_s in cpu_seconds(driver).items()
            },
        }
        if (waiting := self._waiting) is not None:
            where = waiting.topic, str(waiting.partition)
            values["holon_txn_log_full_seconds"][where] = time.monotonic() - waiting.since_s
        for direction, by_topic in (("read", meter.read), ("sent", meter.sent)):
            for topic, traffic in sorted(by_topic.items()):
                values["holon_txn_log_records"][topic, direction] = float(traffic.records)
                values["holon_txn_log_bytes"][topic, direction] = float(traffic.size_bytes)
        for number, partition in sorted(owned.items()):
            tables = partition.store.tables
            spilled = (0, 0) if self.spills is None else self.spills.size_of(partition.store)
            memory = sum(map(len, tables)), sum(map(about_bytes, tables))
            for place, (keys, size_bytes) in (("memory", memory), ("disk", spilled)):
                values["holon_txn_state_keys"][str(number), place] = float(keys)
                values["holon_txn_state_bytes"][str(number), place] = float(size_bytes)
        return values


def cpu_seconds(driver: TransactionDriver) -> dict[int, float]:
    """CPU of this node by owned partition, since the node began; from a sample."""
    owned, cpu = driver.node.owned_partitions(), driver.steps.cpu
    return {} if cpu is None else {number: spent / 1e9 for number, spent in cpu.ns.items() if number in owned}


def cpu_stats(driver: TransactionDriver) -> dict[str, float]:
    """For heartbeats, once a second: CPU by owned partition, and the buckets that have much of it lately."""
    found = {f"{CPU_STAT}{number}": round(spent_s, 4) for number, spent_s in cpu_seconds(driver).items()}
    if (cpu := driver.steps.cpu) is not None:
        for number in driver.node.owned_partitions():
            for (operator, bucket), part in sorted(cpu.hot(number).items()):
                found[f"{HOT_STAT}{number}/{operator}/{bucket}"] = round(part, 4)
        cpu.fade()
    return found


class TransactionMetrics(ServedMetrics):
    """Of one node process. ``counted`` is what its log and its checkpoints count with; ``log``: the one that waits.

    A node that waits for room is served from there, and is alive: a restart does not help against a full disk.
    """

    def __init__(
        self,
        driver: TransactionDriver,
        external: ExternalCalls,
        spills: Spills | None,
        settings: Settings,
        counted: TransactionMeter,
        log: PatientLog | None = None,
    ) -> None:
        desk = TransactionDesk(driver, external, spills, counted, log)
        claiming = driver.claiming
        super().__init__(
            settings,
            driver.job.program.name,
            claiming.node,
            claiming.number,
            counted.plain,
            desk,
            driver.report_figures,
            lambda: log is not None and log.waiting is not None,
        )
        if log is not None:
            log.while_waiting = desk.serve
        self.driver = driver
        self.counted = counted
        self._rates = Rates()
        self._reported_s = counted.plain.began_s

    def turned(self) -> None:
        """After every turn of the node's loop."""
        self.counted.turn(self.driver)
        self.desk.serve()
        if (now_s := self.counted.plain.turned_s) - self._reported_s >= BUSY_INTERVAL_S:
            self._reported_s = now_s
            busy = self._rates.take(now_s, self.counted.plain)[0]
            # Partitions that it owns no longer are those of other nodes.
            self.driver.report_figures({BUSY_STAT: busy, **cpu_stats(self.driver)}, (CPU_STAT, HOT_STAT))
