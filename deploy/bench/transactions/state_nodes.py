"""The effect of a checkpoint each second on transactions at a steady rate, where nodes hold many keys.

The accounts are not filled one by one, which would take longer than the measurement: nodes begin with checkpoints
that hold them. Nor are all read in the end; other tests check the sum of all balances.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.log import Log, open_log
from nodes.log.kafka.log import KafkaLog
from nodes.transactions.bench.first_checkpoints import begin_with
from nodes.transactions.bench.fleet import Change
from nodes.transactions.bench.run import BenchPlan, run_bench
from transactional.state.values import encode
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.ycsb_t import INITIAL_BALANCE, account_key, workload

NEVER_MS = 3_600_000
INTERVALS_MS = {"without checkpoints": NEVER_MS, "a checkpoint each second": 1_000}
SEQUENCERS = NODES = 2
WARMUP_S = 5.0


@dataclass(frozen=True, slots=True)
class Steady:
    """``bootstrap`` None: on an embedded log."""

    keys: int
    rate: int
    seconds: int
    rounds: int
    bootstrap: str | None


def nodes(plan: Steady) -> dict[str, Any]:
    """p50 and p99 with a checkpoint each second, and with none, in turn, each on a log of its own; their medians."""
    report: dict[str, list[dict[str, Any]]] = {name: [] for name in INTERVALS_MS}
    for _ in range(plan.rounds):
        for name, interval_ms in INTERVALS_MS.items():
            report[name].append(measured(plan, [f"node.checkpoint_interval_ms={interval_ms}"]))
            print(name, report[name][-1]["latency_ms"], report[name][-1]["cpu_us_per_transaction"], flush=True)
    found: dict[str, Any] = {}
    for name, runs in report.items():
        found |= {f"{each}, {name}, ms": median(run["latency_ms"][each] for run in runs) for each in ("p50", "p99")}
        found[f"CPU of the nodes, {name}, us each"] = median(run["cpu_us_per_transaction"] for run in runs)
    plain, saved = (found[f"p99, {name}, ms"] for name in INTERVALS_MS)
    return found | {"p99 is raised by, %": 100 * (saved / plain - 1)}


def measured(plan: Steady, settings: Sequence[str] = (), changes: tuple[Change, ...] = ()) -> dict[str, Any]:
    """Figures of ``run_bench`` over accounts that the nodes begin with, on a log of its own."""
    with tempfile.TemporaryDirectory() as folder, log_for_run(folder, plan.bootstrap) as (log, place):
        checkpoints = f"{folder}/checkpoints"
        load_accounts(log, ObjectCheckpoints(checkpoints), plan.keys)
        bench = BenchPlan(
            workload,
            WorkloadShape(plan.keys, 0.5),
            plan.rate * plan.seconds,
            plan.rate,
            NODES,
            SEQUENCERS,
            changes,
            options=tuple(
                part for each in (*place, f"checkpoints.url={checkpoints}", *settings) for part in ("-D", each)
            ),
            warmup_s=WARMUP_S,
            loaded=True,
        )
        return run_bench(log, bench).figures


@contextmanager
def log_for_run(folder: str, bootstrap: str | None) -> Iterator[tuple[Log, list[str]]]:
    """A log for one run, and the settings that name it."""
    if bootstrap is None:
        with open_log(f"embedded:{folder}/log") as log:
            yield log, [f"log.path={folder}/log"]
        return
    prefix = f"txn-{secrets.token_hex(4)}."
    with open_log(f"kafka:{bootstrap}", prefix=prefix) as log:
        assert isinstance(log, KafkaLog)
        try:
            yield log, ["log.kind=kafka", f"log.bootstrap={bootstrap}", f"log.prefix={prefix}"]
        finally:
            log.delete_topics(list(log.topics()))


def load_accounts(log: Log, store: ObjectCheckpoints, keys: int) -> None:
    """Begin the job, with a checkpoint of every partition before its first epoch."""
    accounts = (("account", account_key(number)) for number in range(keys))
    begin_with(log, store, workload.program, SEQUENCERS, accounts, lambda _: encode(INITIAL_BALANCE))
