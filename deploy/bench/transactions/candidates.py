"""Two ways of online moves beside each other: keys that are requested when they are needed, and copies made ahead.

    .venv/bin/python deploy/bench/transactions/candidates.py [--records 200000] [--rate 1000] [--warehouses 12]
        [--scale 0.1] [--tpcc-rate 60] [--workloads ycsb-m,ycsb-m@0.99,ycsb-e,tpcc-full] [--partitions 12,16]
        [--nodes 2] [--ways stop,copies,keys,groups] [--rounds 3] [--batch-kb 256] [--portion-mb 32] [--trip-ms 2]
        [--mb-s 200] [--json]

`copies` and `stop` are the modes of `holon txn repartition`; `copies` is candidate (b) of docs/design/migration.md. By
`keys` and by `groups` all keys change home at once (candidate (a)). A transaction whose key is not there requests it,
or all keys with the same first part. `none` moves nothing.

The nodes are the real state machines in virtual time (deploy/bench/candidates/virtual_fleet.py). A step takes the CPU
time that it takes here; a record is read ``--trip-ms`` after it was appended, and a node appends ``--mb-s``. So other
work of the machine and the log's own CPU are in no figure. After each run the workload's invariants are checked over
all replies and all keys. Behind `@` is the Zipf exponent. Shown are medians of the rounds; progress is on standard
error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from statistics import median
from typing import Any

from deploy.bench.candidates.moves import WAYS, Setting, first_rows, measured
from deploy.bench.candidates.virtual_fleet import LogTimes
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.partitioned import with_partitions

HEAD = {
    "workload": "workload", "way": "way", "moved_MB": "batches, MB", "requested_MB": "requested, MB",
    "requests": "requests", "took_s": "took, s", "silence_ms": "longest silence, ms",
    "worst_second": "worst second, %", "p50_before": "p50 before, ms", "p50_during": "during",
    "p99_before": "p99 before, ms", "p99_during": "during", "rounds_before": "rounds before",
    "rounds_during": "during", "most_rounds": "most", "again_before": "ran again before, %", "again_during": "during",
}  # fmt: skip
"""Names of figures, and what the table says."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rate", type=float, default=1_000, help="requests a second of YCSB")
    parser.add_argument("--warehouses", type=int, default=12)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--tpcc-rate", type=float, default=60)
    parser.add_argument("--workloads", default="ycsb-m,ycsb-m@0.99,ycsb-e,tpcc-full")
    parser.add_argument("--partitions", default="12,16", help="from the first to the second, which is larger")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--ways", default="stop,copies,keys,groups", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-kb", type=int, default=256, help="of rows that a node sends in a round, by request")
    parser.add_argument("--portion-mb", type=int, default=32, help="of copies that a node moves at once")
    parser.add_argument("--trip-ms", type=float, default=2.0)
    parser.add_argument("--mb-s", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=3.0, help="of load before the move, and after it")
    parser.add_argument("--most-s", type=float, default=30.0, help="of a move; one that takes longer has no time")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    first, second = map(int, options.partitions.split(","))
    if second <= first:
        parser.error(f"keys that are requested need their former homes: {second} partitions are no more than {first}")
    if unknown := [each for each in options.ways.split(",") if each not in WAYS]:
        parser.error(f"unknown ways {unknown}: there are {', '.join(WAYS)}")
    runs = [run for name in options.workloads.split(",") for run in measured_all(name, options)]
    print(json.dumps(runs) if options.json else table(medians(runs)))


def measured_all(name: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All ways of one workload, round by round."""
    workload_name, _, zipf = name.partition("@")
    first, second = map(int, options.partitions.split(","))
    workload = with_partitions(WORKLOADS[workload_name], first)
    is_tpcc = workload_name.startswith("tpcc")
    size, rate = (options.warehouses, options.tpcc_rate) if is_tpcc else (options.records, options.rate)
    found: list[dict[str, Any]] = []
    shape = WorkloadShape(size, float(zipf or 0), scale=options.scale)
    rows = first_rows(workload, shape)
    for number in range(options.rounds):
        for way in options.ways.split(","):
            setting = Setting(
                workload, WorkloadShape(size, shape.zipf, 1 + number, options.scale), rate, way, (first, second),
                options.nodes, options.seconds, options.seconds, options.most_s,
                options.batch_kb << 10, options.portion_mb << 20, LogTimes(options.trip_ms, options.mb_s),
            )  # fmt: skip
            found.append({"workload": name, **measured(setting, workload.program, rows)})
            print(f"round {number + 1}:", found[-1], file=sys.stderr, flush=True)
    return found


def medians(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each figure, over the runs of one workload in one way that know it."""
    by_name: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        by_name.setdefault((run["workload"], run["way"]), []).append(run)
    found = []
    for (workload, way), mine in by_name.items():
        known = {name: [run[name] for run in mine if run[name] is not None] for name in HEAD if name in mine[0]}
        figures = {
            name: median(each) if each else None for name, each in known.items() if name not in ("workload", "way")
        }
        found.append({"workload": workload, "way": way, **figures})
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each workload and way."""
    lines = [f"| {' | '.join(HEAD.values())} |", f"|{'---|' * len(HEAD)}"]
    lines += [f"| {' | '.join(_cell(row[name]) for name in HEAD)} |" for row in rows]
    return "\n".join(lines)


def _cell(figure: Any) -> str:
    if figure is None:
        return "-"
    return figure if isinstance(figure, str) else f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:,.1f}"


if __name__ == "__main__":
    main()
