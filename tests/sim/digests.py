"""Digests of simulated jobs, by seed: of all that is done to their logs, in order, and of what they met.

    python -m tests.sim.digests KIND:SEED [KIND:SEED ...]

One line each. Equal seeds have equal lines in every process, whatever its hash seed: so a seed that fails fails again.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
from collections.abc import Callable
from random import Random
from typing import Any
from unittest import mock

from nodes.machine.messages import LAYOUTS_VERSION
from nodes.sim import run
from tests.sim import transactions_fleet, transactions_two_releases
from tests.sim.recorded_log import RecordedLog, recorded
from tests.sim.releases import checked_out, last_before
from tests.sim.starved_world import StarvedWorld
from tests.sim.transactions import (
    test_control,
    test_crashing,
    test_external_calls,
    test_standbys,
    test_timeouts,
    test_transactions,
    test_trimmed,
)
from tests.sim.transactions_met import Met
from tests.sim.transactions_oracle import Tally
from tests.sim.transactions_two_releases import STAGE, MixedFleet, TransactionReleases


def _starved(seed: int) -> Any:
    draw = Random(seed)
    shares = [draw.uniform(0.05, 0.2) for _ in range(2)]
    world = StarvedWorld(draw.randrange(1 << 30), shares, a_second=5)
    world.run(45_000)
    return world


def _two_releases(seed: int) -> Any:
    with checked_out(last_before(LAYOUTS_VERSION), STAGE) as folder:
        MixedFleet.releases = TransactionReleases(folder)
        met, became, told = transactions_two_releases.simulate(seed)
    return met, f"{sorted(became.items())} {sorted(told.items())}"


def _streams(seed: int) -> Any:
    """A run of ``holon sim``; its trace has what befell nodes, and what they wrote."""
    with mock.patch("nodes.sim.world.MemoryLog", RecordedLog):
        verdict = run.simulate(seed)
    return verdict.problem or "", verdict.digest


KINDS: dict[str, Callable[[int], Any]] = {
    "fleets": transactions_fleet.simulate,
    "programs": test_transactions.simulate,
    "standbys": test_standbys.simulate,
    "trimmed": test_trimmed.run,
    "external-calls": test_external_calls.simulate,
    "hanging": test_timeouts.run_by_chance,
    "control": test_control.run,
    "crashing": lambda seed: test_crashing.run(seed, again=seed % 2 == 0)[0],
    "starved": _starved,
    "two-releases": _two_releases,
    "streams": _streams,
}
"""Each gives what it met, a world, or both."""


def digest_of(kind: str, seed: int) -> str:
    """Of one run; one that fails has a digest too."""
    with recorded() as logs:
        try:
            found = KINDS[kind](seed)
        except Exception as error:
            found = (f"{type(error).__name__}: {error}",)
    made = hashlib.blake2b(digest_size=16)
    for log in logs:
        made.update(f"{log.written} {log.digest} {log.topics()}\n".encode())
    for each in found if isinstance(found, tuple) else (found,):
        made.update(repr(_shown(each)).encode())
    return made.hexdigest()


def _shown(found: Any) -> object:
    if isinstance(found, (Tally, str)):
        return found
    return found.shown() if isinstance(found, Met) else {n: v for n, v in vars(found).items() if isinstance(v, int)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="KIND:SEED", nargs="+", help=f"kinds: {', '.join(KINDS)}")
    logging.disable(logging.CRITICAL)
    for each in parser.parse_args().runs:
        kind, seed = each.split(":")
        print(each, digest_of(kind, int(seed)), flush=True)


if __name__ == "__main__":
    main()
