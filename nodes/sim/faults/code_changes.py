"""Other code of the job while it runs: a deployment, starts with code that was not accepted, or of another job.

Two rules for this file: the other code gives the same results, so that the oracle stays valid; a node that has
read that the job went on with other code than its own works no further.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import msgspec

from holon.job import Job
from nodes.machine.code_check import JobMismatch, is_recorded
from nodes.sim.case import FIRST_SEED
from nodes.sim.faults.registry import of_registry
from nodes.sim.faults.stage import Stage
from nodes.sim.jobs import CASES
from nodes.sim.node_process import InvariantBroken, NodeProcess
from nodes.streams.jobs import open_job

if TYPE_CHECKING:
    from nodes.sim.options import Options

SHARE = 0.2
LEAVES = "has gone on with other code"


class Deployed(Stage, Protocol):
    """A world whose job changes its code."""

    def start_node(self) -> None: ...


def with_code_changes(options: Options) -> Options:
    """A fifth of the new seeds; not where one fault alone is watched, or a failure is remembered for its code."""
    rng = random.Random(f"options {options.seed} {options.case} code")
    plain = not (options.isolation or options.truncation or CASES[options.case].fails)
    if options.seed < FIRST_SEED or not plain or rng.random() >= SHARE:
        return options
    return replace(options, code_changes=rng.choice([0.001, 0.004]))


def job_of(options: Options, revision: int) -> Job:
    """The job; each revision but 0 differs from all others in its code, and in nothing that anybody would notice."""
    job = of_registry(CASES[options.case].make(options), options)
    if revision:
        version = job.program.version
        vars(job.program)["version"] = msgspec.structs.replace(version, code=f"{version.code} revision {revision}")
    return job


class CodeChanges:
    """``revision``: the code that the job goes on with."""

    def __init__(self, world: Deployed) -> None:
        self.world = world
        self.revision = self._newest = self._accepted = 0
        self._rng = random.Random(f"code {world.options.seed} {world.options.case}")

    def check(self) -> None:
        """To be called at every step of the safety phase."""
        world, rng = self.world, self._rng
        if not world.options.code_changes or rng.random() >= world.options.code_changes:
            return
        kind = rng.choice(["deploy", "deploy", "back", "refused", "foreign"])
        if kind in ("deploy", "back"):
            self._deploy(back=kind == "back")
        else:
            self._is_refused(foreign=kind == "foreign")

    def _deploy(self, *, back: bool) -> None:
        """The job goes on with other code; nodes that still have the old one leave when they read of it."""
        world, rng = self.world, self._rng
        if world.folded().all_done():
            return  # no node of a job that has ended is started
        if rng.random() < 0.5 and len(world.processes) < world.options.max_nodes:
            world.start_node()  # with the old code: it reads of the new one before it is a member
        self._newest += not back
        self.revision = rng.randrange(self._newest + 1) if back else self._newest
        job = job_of(world.options, self.revision)
        self._accepted += 1
        world.run = open_job(world.log, job, accept_code=True, command_id=f"code {self._accepted}")
        world.trace.add(world.now_ms, "code-accepted", f"revision {self.revision}")
        if rng.random() < 0.5 and len(world.processes) < world.options.max_nodes:
            world.start_node()

    def _is_refused(self, *, foreign: bool) -> None:
        """A start with code that was not accepted, or with another job's declaration, changes nothing."""
        world, options = self.world, self.world.options
        if foreign:
            made = CASES[options.case].make(replace(options, delay_ms=options.delay_ms + 1))
            job = of_registry(made, options)
            if CASES[options.case].manual:
                return  # it declares no delay
        else:
            job = job_of(options, self._newest + 1)
        before = world.log.end_offset(job.control_topic, 0)
        try:
            open_job(world.log, job, accept_code=foreign)
        except JobMismatch:
            world.trace.add(world.now_ms, "foreign-refused" if foreign else "code-refused")
        else:
            raise InvariantBroken("a node may start with another job's declaration, or code that was never accepted")
        if world.log.end_offset(job.control_topic, 0) != before:
            raise InvariantBroken("a start that was refused has written to the control topic")

    def left_for_code(self, process: NodeProcess, reason: str) -> bool:
        """Whether a node has ended since the job went on with other code, even if it came back to this one since."""
        if LEAVES not in reason or not self._newest:
            return False
        self.world.trace.add(self.world.now_ms, "left-for-code", process.name)
        return True

    def turned(self, process: NodeProcess) -> None:
        """Raises ``InvariantBroken`` where a member works on with code that the job has left behind, and knows it."""
        node, codes = process.node, process.node.ownership.codes
        works = node.left is None and node.member.joined and node.ownership.incarnation == node.run.incarnation
        if works and codes and not is_recorded(node.run.job.program.version, codes):
            raise InvariantBroken(f"{process.name} works on, and has read that the job goes on with other code")
