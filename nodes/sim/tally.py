"""The totals of many seeds: sums and failures, small however many there were, and kept in a file to go on from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nodes.errors import RunFailed

if TYPE_CHECKING:
    from nodes.sim.run import Verdict

SAVE_EVERY = 50


class Failure(msgspec.Struct):
    """One seed that failed."""

    seed: int
    problem: str | None
    replay: str


class SeedPlan(msgspec.Struct, frozen=True):
    """The inputs that decide every run: the seeds and the arguments of their draws.

    ``job``: a user's, on the first ``records`` lines of each file of ``data``.
    """

    first_seed: int
    seeds: int
    nodes: int
    case: str | None = None
    replicas: int | None = None
    job: str | None = None
    data: tuple[str, ...] | None = None
    records: int = 0
    partitions: int | None = None


class Tally(msgspec.Struct):
    """``done`` seeds of the plan, in their order, are in it."""

    plan: SeedPlan
    done: int = 0
    failed: list[Failure] = []
    digest: str | None = None
    virtual_ms: int = 0
    counts: dict[str, int] = {}

    def add(self, verdict: Verdict) -> None:
        """The next seed's."""
        self.done += 1
        self.virtual_ms += verdict.now_ms
        self.digest = verdict.digest
        for name, count in verdict.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        if not verdict.ok:
            self.failed.append(Failure(verdict.seed, verdict.problem, verdict.replay))

    @property
    def left(self) -> range:
        """The seeds that are still to be run."""
        first = self.plan.first_seed
        return range(first + self.done, first + self.plan.seeds)

    def summary(self) -> dict[str, object]:
        """For ``--json``."""
        return {
            "seeds": self.done,
            "first_seed": self.plan.first_seed,
            "failed": [msgspec.structs.asdict(failure) for failure in self.failed],
            "digest": self.digest if self.done == 1 else None,
            "virtual_ms": self.virtual_ms,
            "counts": dict(sorted(self.counts.items())),
        } | ({} if self.plan.job is None else {"job": self.plan.job, "data": _named(self.plan.data or ())})

    def save(self, path: Path) -> None:
        """Replace the file as a whole, so that an interruption leaves the old or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".new")
        beside.write_bytes(msgspec.json.encode(self))
        beside.replace(path)


def _named(data: tuple[str, ...]) -> str | list[str]:
    return data[0] if len(data) == 1 else list(data)


def resumed(path: Path, plan: SeedPlan) -> Tally:
    """The tally of the file; a new one if there is none. The first seed is the file's. Raises ``RunFailed``."""
    if not path.exists():
        return Tally(plan)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Tally)
    except (msgspec.MsgspecError, ValueError) as error:
        raise RunFailed(f"{path} holds no progress of holon sim ({error}); remove it to begin anew") from error
    if not found.left:
        return Tally(plan)  # that run was finished
    if msgspec.structs.replace(plan, first_seed=found.plan.first_seed) != found.plan:
        raise RunFailed(f"{path} is the progress of other runs: {found.plan}; remove it to begin anew")
    return found
