"""Simulated fleets in which some nodes run the code of an earlier release, with faults and rolling upgrades.

    .venv/bin/python -m tests.sim.two_releases --seeds 40 [--case sharded] [--before REF] [--seed S] [--json]

``--before`` (default: the last commit with the wire format before this one) has to be in the history of the checkout,
and its modules where they are now. Nodes start as either release at random while faults last. Behind these only this
release starts, and in half of the fleets nodes of the earlier one are gone. Results, replicas and bounds of time are
checked as in every simulated run. A node of the earlier release may stop by name, at a record that it does not know.

Two rules for this file. The earlier release's modules are others of the same names: ``Releases`` says which ones are
imported at a moment. The log, the store and their errors are common to both.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import msgspec

import nodes.log.checks
import nodes.log.memory  # noqa: F401
from nodes.machine import effects
from nodes.machine.envelope import FORMAT_VERSION
from nodes.sim import node_process, run, world
from nodes.sim.drawing import draw
from nodes.sim.jobs import CASES
from nodes.sim.many import explain, fresh_base_seed
from nodes.sim.node_process import InvariantBroken, NodeProcess

PACKAGES = ("holon", "nodes", "wcrdt")
COMMON = ("nodes.log", "nodes.errors", "nodes.sim.store")
COMMON += tuple(f"nodes.checkpoints.{name}" for name in ("errors", "file_names", "format", "store"))
"""Both releases use the same ones."""
ENVELOPE = "nodes/machine/envelope.py"
NAMED = "newer Holon", "no intact delta of partition"
"""How a node of the earlier release ends: the second one where it began anew behind deltas that it does not know."""
Modules = dict[str, ModuleType]


class Releases:
    """The modules of two releases: those of this one, and those below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._modules: dict[bool, Modules] = {False: _imported()}
        self._earlier = False
        with self.using(earlier=True):
            sys.path.insert(0, str(folder))
            # An ending of a node is the same to the simulation, whichever release it is of.
            vars(importlib.import_module("nodes.machine.effects"))["Ending"] = effects.Ending
            self.processes = importlib.import_module("nodes.sim.node_process")
            self.config = importlib.import_module("nodes.machine.config")
            self.changes = importlib.import_module("nodes.sim.faults.code_changes")
            self.registry = importlib.import_module("nodes.sim.faults.registry")
            self.inputs = importlib.import_module("nodes.streams.io.inputs")
            self.format = importlib.import_module("nodes.machine.messages").FORMAT_VERSION
            sys.path.remove(str(folder))
        for module in (self.processes, self.config, self.changes, self.registry, self.inputs):
            assert str(module.__file__).startswith(str(folder)), module
        for name in ("Crash", "InvariantBroken"):
            vars(self.processes)[name] = vars(node_process)[name]

    @contextmanager
    def using(self, *, earlier: bool) -> Iterator[None]:
        """Imports meanwhile are those of one release: also those that a function makes when it is called."""
        before = self._earlier
        self._use(earlier)
        try:
            yield
        finally:
            self._use(before)

    def _use(self, earlier: bool) -> None:
        if earlier == self._earlier:
            return
        self._modules[self._earlier] = _imported()
        for name in self._modules[self._earlier]:
            if not name.startswith(COMMON):
                del sys.modules[name]
        sys.modules.update(self._modules.get(earlier, {}))
        self._earlier = earlier


def _imported() -> Modules:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in PACKAGES}


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

    releases: Releases

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


def release_before() -> str:
    """The last commit of the wire format before this one's."""
    newest = f"FORMAT_VERSION = {FORMAT_VERSION}"
    found = _git("log", "-1", "--format=%h", "-S", newest, "--", ENVELOPE).decode().strip()
    if not found:
        raise SystemExit(f"the history of this checkout does not have the commit that began format {FORMAT_VERSION}")
    return f"{found}~1"


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], capture_output=True, check=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=None)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", default="sharded", help="jobs whose names have this in them")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    before = options.before or release_before()
    base = fresh_base_seed() if options.seed is None else options.seed
    cases, failed, met = sorted(name for name in CASES if options.case in name), list[int](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(_git("archive", before, *PACKAGES))) as files:
            files.extractall(folder, filter="data")
        MixedWorld.releases = releases = Releases(Path(folder))
        worlds = list[MixedWorld]()

        def new_world(*args: Any) -> MixedWorld:
            worlds.append(MixedWorld(*args))
            return worlds[-1]

        vars(world)["NodeProcess"] = lambda around, name, number: around.made(name, number)
        vars(run)["World"] = new_world
        for seed in range(base, base + options.seeds):
            verdict = run.run(draw(seed, max_nodes=10, case=cases[seed % len(cases)]))
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
