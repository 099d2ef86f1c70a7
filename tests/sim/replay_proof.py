"""The replay proof at any size: random transactional programs under crashes, each judged by the plain loop.

    .venv/bin/python -m tests.sim.replay_proof --programs 5000 [--fleets] [--seed S] [--processes 2] [--json]

A program is a run of `transactions/test_transactions.py`: random call graphs, aborts, hot keys and crashes, all from
its seed. With ``--fleets`` of `tests/sim/transactions_fleet.py`: whole nodes with standbys, slow stores and kills.
Prints how many were judged and what they met; exit 1 with the seeds that failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from typing import Any

from nodes.sim.many import fresh_base_seed
from tests.sim import transactions_fleet
from tests.sim.transactions import test_transactions
from tests.sim.transactions_met import Met
from tests.sim.transactions_oracle import Tally


def judged(seed: int, *, fleets: bool) -> tuple[int, Any, str]:
    """One program; None and why where it is wrong."""
    try:
        return seed, (transactions_fleet if fleets else test_transactions).simulate(seed), ""
    except Exception as error:
        return seed, None, f"{type(error).__name__}: {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2_000)
    parser.add_argument("--fleets", action="store_true")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    base = fresh_base_seed() if options.seed is None else options.seed
    print(f"programs {base} to {base + options.programs - 1}", file=sys.stderr)
    tally: Any = Met() if options.fleets else Tally()
    failed, began_s = dict[int, str](), time.monotonic()
    with get_context("spawn").Pool(options.processes) as pool:
        for seed, found, why in pool.imap_unordered(
            partial(judged, fleets=options.fleets), range(base, base + options.programs), chunksize=20
        ):
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
        "met": tally.shown() if isinstance(tally, Met) else asdict(tally),
    }
    print(json.dumps(result) if options.json else "\n".join(f"{name:<16}{value}" for name, value in result.items()))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
