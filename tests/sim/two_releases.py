"""Simulated fleets in which some nodes run the code of an earlier release, with faults and rolling upgrades.

    .venv/bin/python -m tests.sim.two_releases --seeds 40 [--case sharded] [--before REF] [--seed S] [--json]

``--before`` (default: the last commit with the wire format before this one) has to be in the history of the checkout,
and its modules where they are now. Nodes start as either release at random while faults last. Behind these only this
release starts, and in half of the fleets nodes of the earlier one are gone. Results, replicas and bounds of time are
checked as in every simulated run. A node of the earlier release may stop by name, at a record that it does not know.
``tests/sim/transactions_two_releases.py`` has transactional fleets.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from nodes.machine import effects
from nodes.machine.envelope import FORMAT_VERSION
from nodes.sim import node_process, run, world
from nodes.sim.drawing import draw
from nodes.sim.jobs import CASES
from nodes.sim.many import explain, fresh_base_seed
from nodes.sim.node_process import InvariantBroken, NodeProcess
from tests.sim.releases import Releases, checked_out, last_before

NAMED = "newer Holon", "no intact delta of partition"
"""How a node of the earlier release ends: the second one where it began anew behind deltas that it does not know."""


class StreamReleases(Releases):
    """The modules of both that the simulation of streams takes apart."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # An ending of a node is the same to the simulation, whichever release it is of.
        vars(self.earlier("nodes.machine.effects"))["Ending"] = effects.Ending
        self.processes = self.earlier("nodes.sim.node_process")
        self.config = self.earlier("nodes.machine.config")
        self.changes = self.earlier("nodes.sim.faults.code_changes")
        self.registry = self.earlier("nodes.sim.faults.registry")
        self.inputs = self.earlier("nodes.streams.io.inputs")
        self.format = self.earlier("nodes.machine.messages").FORMAT_VERSION
        for name in ("Crash", "InvariantBroken"):
            vars(self.processes)[name] = vars(node_process)[name]


class EarlierSurroundings:
    """The world, as a node of the earlier release has it: its job is of that release's types."""

    def __init__(self, around: MixedWorld) -> None:
        vars(self)["world"] = around
        vars(self)["runs"] = dict[int, Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.world, name, value)

    def go_on_without(self, duration_ms: int) -> None:
        with self.world.releases.using(earlier=False):
            self.world.go_on_without(duration_ms)

    @property
    def run(self) -> Any:
        """The incarnation of now."""
        now = self.world.run
        if id(now) not in self.runs:
            with self.world.releases.using(earlier=True):
                self.runs[id(now)] = now, self._run()  # both are kept, so that the number stays its own
        return self.runs[id(now)][1]

    def _run(self) -> Any:
        around, releases = self.world, self.world.releases
        now, options = around.run, around.options
        job = releases.changes.job_of(options, around.code_changes.revision)
        job = releases.registry.of_registry(job, options)
        releases.inputs.use_parts(around.log, job)
        version = type(job.program.version).decode(now.job.program.version.encode())
        vars(job.program)["version"] = version  # releases may hash code differently
        given = {name: getattr(now, name) for name in now.__slots__}
        continued = now.continued
        if continued is not None:
            continued = releases.config.ContinuedIncarnation(**msgspec.structs.asdict(continued))
        return releases.config.JobRun(**given | {"job": job, "continued": continued})


class MixedWorld(world.World):
    """``met``: of nodes of either release, what became of them."""

    releases: StreamReleases

    def __init__(self, *args: Any) -> None:
        self.mixing = Random(f"releases {args[0].seed}")
        self.share = self.mixing.choice([0.3, 0.5, 0.8])
        self.ends_earlier = self.mixing.random() < 0.5
        self.met: Counter[str] = Counter()
        super().__init__(*args)

    def made(self, name: str, number: int) -> NodeProcess:
        """A new node."""
        if self.healed or self.mixing.random() >= self.share:
            self.met["started"] += 1
            return NodeProcess(self, name, number)
        with self.releases.using(earlier=True):
            process = self.releases.processes.NodeProcess(EarlierSurroundings(self), name, number)
        self.met["earlier started"] += 1
        return process

    def is_earlier(self, process: NodeProcess) -> bool:
        return not isinstance(process, NodeProcess)

    def start_node(self) -> None:
        try:
            super().start_node()
        except Exception as error:  # of either release's types
            if type(error).__name__ not in ("BadMessage", "JobMismatch") or "newer" not in str(error):
                raise
            self.met["earlier refused"] += 1
            self.trace.add(self.now_ms, "earlier-refused", str(error))

    def step(self) -> None:
        with self.releases.using(earlier=False):
            super().step()

    def _turn(self, process: NodeProcess) -> None:
        if not self.is_earlier(process):
            super()._turn(process)
            return
        try:
            with self.releases.using(earlier=True):
                super()._turn(process)
        except InvariantBroken as error:
            if not any(text in str(error) for text in NAMED):
                raise
            assert self.gone.pop()[0] is process, "the job itself has not failed"
            process.dead = True
            self.met["earlier stopped"] += 1

    def heal(self) -> None:
        super().heal()
        left = [each for each in self.processes if self.is_earlier(each) and each not in self.on_stack]
        self.met["earlier at the end of faults"] += len(left)
        for process in left if self.ends_earlier else ():
            self._end(process, "replaced by this release")

    def current(self) -> list[NodeProcess]:
        """Those of this release: replicas of the other one have other types."""
        return [process for process in super().current() if not self.is_earlier(process)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=None)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", default="sharded", help="jobs whose names have this in them")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = options.before or last_before(FORMAT_VERSION)
    base = fresh_base_seed() if options.seed is None else options.seed
    cases, failed, met = sorted(name for name in CASES if options.case in name), list[int](), Counter[str]()
    with checked_out(before) as folder:
        MixedWorld.releases = releases = StreamReleases(folder)
        worlds = list[MixedWorld]()

        def new_world(*args: Any) -> MixedWorld:
            worlds.append(MixedWorld(*args))
            return worlds[-1]

        vars(world)["NodeProcess"] = lambda around, name, number: around.made(name, number)
        vars(run)["World"] = new_world
        for seed in range(base, base + options.seeds):
            drawn = draw(seed, max_nodes=10, case=cases[seed % len(cases)])
            # Columns of so few keys as seeds with columns in files have are in no record of a real node of any release.
            verdict = run.run(replace(drawn, columns_in_memory=None))
            met += worlds.pop().met if worlds else Counter()
            if not verdict.ok:
                failed.append(seed)
                print(explain(verdict), file=sys.stderr)
    told = {"before": before, "formats": [releases.format, FORMAT_VERSION], "seed": base, "seeds": options.seeds}
    told |= {"wrong": failed, "met": dict(met)}
    print(json.dumps(told) if options.json else "\n".join(f"{name:<10}{value}" for name, value in told.items()))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
