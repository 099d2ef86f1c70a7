"""The fixture ``holon_sim`` of pytest, a user's job in simulated fleets; pytest loads this file wherever Holon is.

One rule for this file: at its top it imports nothing but pytest, so that suites of others pay nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from holon.dataflow.flow import Flow
    from holon.job import Job
    from nodes.sim.user_jobs.records import OfTopic

FIRST_SEED = 1 << 41
MOST_NODES = 6


class HolonSim:
    """The fixture ``holon_sim``: a job or flow in simulated fleets, with crashes, netsplits and slow stores."""

    def __call__(
        self,
        job: Job[Any] | Flow,
        data: OfTopic | Mapping[str, OfTopic],
        *,
        seeds: int = 200,
        base_seed: int = FIRST_SEED,
        seed: int | None = None,
        nodes: int = MOST_NODES,
        partitions: int | None = None,
        replicas: int | None = None,
    ) -> dict[str, int]:
        """Fail the test where a fleet with faults gives other results than one plain pass over the records.

        Args:
            data: a file with a record a line, or the records: bytes as they are, anything else as JSON. Of a job of
                several topics a mapping from each topic to its own.
            seeds: how many runs, from ``base_seed`` on. They are the same each time, until another one is given.
            seed: run this one alone, as the message of a failure says.
            nodes: at most so many in a fleet. ``partitions`` (of each topic), ``replicas``: None is drawn.

        Returns how often each thing happened in all runs, faults among them.
        """
        __tracebackhide__ = True
        from holon.job import Job
        from nodes.errors import RunFailed, SettingsError, UnknownName
        from nodes.sim.many import brief
        from nodes.sim.user_jobs.plain_pass import data_facts
        from nodes.sim.user_jobs.records import lines_by_topic
        from nodes.sim.user_jobs.simulated import Drawn, UserJob

        declared = job if isinstance(job, Job) else job.job
        try:
            lines = lines_by_topic(declared, data)
            facts = data_facts(declared, lines)
        except (RunFailed, SettingsError, UnknownName) as error:
            pytest.fail(str(error), pytrace=False)
        given = {"nodes": None if nodes == MOST_NODES else nodes, "partitions": partitions, "replicas": replicas}
        more = "".join(f", {name}={value}" for name, value in given.items() if value is not None)
        runs = UserJob(
            declared,
            lines,
            Drawn(nodes, partitions, replicas),
            facts,
            lambda failed: f"holon_sim(..., seed={failed}{more})",
        )
        happened: dict[str, int] = {}
        for number in range(base_seed, base_seed + seeds) if seed is None else [seed]:
            verdict = runs.simulate(number)
            if not verdict.ok:
                pytest.fail(f"job {declared.name!r}: {brief(verdict)}", pytrace=False)
            for name, count in verdict.counts.items():
                happened[name] = happened.get(name, 0) + count
        return happened


@pytest.fixture(scope="session")
def holon_sim() -> HolonSim:
    """Run a job or flow in simulated fleets: crashes, netsplits, slow stores. See ``HolonSim``."""
    return HolonSim()
