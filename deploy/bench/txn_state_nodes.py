"""What a checkpoint each second does to transactions at a steady rate, where nodes hold many keys.

The accounts are not asked for one by one, which would take longer than the measurement: nodes begin with checkpoints
that hold them. Nor are all asked in the end, so the sum of all balances is what other tests look at.
"""

from __future__ import annotations

import tempfile
from typing import Any

from nodes.checkpoints_objects import ObjectCheckpoints
from nodes.log import Log, open_log
from nodes.machine import messages as m
from nodes.transactions.beginning import begin
from nodes.transactions.bench.run import BenchPlan, run_bench
from nodes.transactions.chains import save_file
from nodes.transactions.topics import FIRST_INCARNATION, create_topics
from transactional.ledger import Ledger
from transactional.snapshots import FORMAT_VERSION, PartitionState, Snapshot
from transactional.values import encode
from transactional.workloads.contract import Shape
from transactional.workloads.ycsb_t import INITIAL_BALANCE, account_key, workload
from wcrdt.slots import WINDOW_START

NEVER_MS = 3_600_000
SEQUENCERS = NODES = 2
WARMUP_S = 5.0


def nodes(keys: int, rate: int, seconds: int) -> dict[str, float]:
    """p50 and p99 with a checkpoint each second, and with none, each on a log of its own."""
    found: dict[str, float] = {}
    for name, interval_ms in (("without checkpoints", NEVER_MS), ("a checkpoint each second", 1_000)):
        said = _measured(keys, rate, seconds, interval_ms)
        found |= {f"{each}, {name}, ms": said["latency_ms"][each] for each in ("p50", "p99")}
        found[f"CPU of the nodes, {name}, us each"] = said["cpu_us_per_transaction"]
    plain, saved = (found[f"p99, {name}, ms"] for name in ("without checkpoints", "a checkpoint each second"))
    return found | {"p99 is raised by, %": 100 * (saved / plain - 1)}


def _measured(keys: int, rate: int, seconds: int, interval_ms: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = f"{folder}/checkpoints"
        options = ("--log-dir", f"{folder}/log", "-D", f"checkpoints.url={checkpoints}")
        options += ("-D", f"node.checkpoint_interval_ms={interval_ms}")
        with open_log(f"embedded:{folder}/log") as log:
            _load(log, ObjectCheckpoints(checkpoints), keys)
            shape = Shape(keys, 0.5)
            plan = BenchPlan(
                workload,
                shape,
                rate * seconds,
                rate,
                NODES,
                SEQUENCERS,
                options=options,
                warmup_s=WARMUP_S,
                loaded=True,
            )
            return run_bench(log, plan).figures


def _load(log: Log, store: ObjectCheckpoints, keys: int) -> None:
    """Begin the job, with a checkpoint of every partition before its first epoch."""
    program = workload.program
    topics = create_topics(log, program, SEQUENCERS)
    begin(log, topics, program, SEQUENCERS)
    rows: list[dict[tuple[str, str], bytes | None]] = [{} for _ in range(program.partitions)]
    for number in range(keys):
        key = "account", account_key(number)
        rows[program.place(*key)][key] = encode(INITIAL_BALANCE)
    ledger, (answered, stage) = Ledger(program, SEQUENCERS).snapshot(), WINDOW_START
    for partition, each in enumerate(rows):
        unit = SEQUENCERS + partition
        made = Snapshot(PartitionState(FORMAT_VERSION, partition, 0, 0, 0, ledger, [], [], []), each)
        part = save_file(store, f"{program.name}-txn", unit, (0, 0), (), made.encoded())
        said = m.CheckpointSaved(FIRST_INCARNATION, "-", unit, 0, part.name, 0, 0, answered, stage)
        log.append(topics.control, 0, [m.encode(said)])
