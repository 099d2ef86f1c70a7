"""The simulated jobs by key, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodes.sim.case import FIFTH_SEED, SIXTH_SEED, Case
from nodes.sim.keyed.jobs import keyed, sharded

if TYPE_CHECKING:
    from holon import Job
    from nodes.sim.options import Options

SHARDED = ("sharded", "sharded-backlog", "sharded-idle", "sharded-late")


def cases_by_key(job: Callable[[Options, Any], Job]) -> dict[str, Case]:
    """``job`` makes one of a processing function."""
    of_shards = Case(lambda options: job(options, sharded(options)), further_windows=(3,), since=SIXTH_SEED)
    return {
        "keyed": Case(lambda options: job(options, keyed(options)), further_windows=(5,), since=FIFTH_SEED),
        "sharded": of_shards,
        "sharded-backlog": replace(of_shards, idle=True, backlog=True),
        "sharded-idle": replace(of_shards, idle=True),
        "sharded-late": replace(of_shards, late_by=1),
    }
