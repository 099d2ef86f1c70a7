"""The replay proof at any size: random transactional programs under crashes, each judged by the plain loop.

    .venv/bin/python -m tests.sim.replay_proof --programs 5000 [--seed S] [--processes 2] [--json]

A program is a run of `tests/sim/test_transactions.py`: random call graphs, aborts, hot keys and crashes, all drawn from
its seed. Prints how many were judged and what they met; exit 1 with the seeds that failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from multiprocessing import get_context

from nodes.sim.many import fresh_base_seed
from tests.sim.test_transactions import simulate
from tests.sim.transactions_oracle import Tally


def judged(seed: int) -> tuple[int, Tally | None, str]:
    """One program; None and why where it is wrong."""
    try:
        return seed, simulate(seed), ""
    except AssertionError as error:
        return seed, None, str(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    base = fresh_base_seed() if options.seed is None else options.seed
    print(f"programs {base} to {base + options.programs - 1}", file=sys.stderr)
    tally, failed, began_s = Tally(), dict[int, str](), time.monotonic()
    with get_context("spawn").Pool(options.processes) as pool:
        for seed, found, why in pool.imap_unordered(judged, range(base, base + options.programs), chunksize=20):
            if found is None:
                failed[seed] = why
                print(f"seed {seed}: {why}", file=sys.stderr)
            else:
                tally.add(found)
    wall_s = round(time.monotonic() - began_s, 1)
    result = {
        "programs": options.programs,
        "seed": base,
        "wrong": sorted(failed),
        "wall_s": wall_s,
        "met": asdict(tally),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{name:<16}{value}" for name, value in result.items()))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
