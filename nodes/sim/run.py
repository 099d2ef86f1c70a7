"""One simulated run from its seed to its verdict: faults, heal, convergence, checks."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from holon.errors import HolonError
from holon.outputs.identity import IdentityError
from nodes.checkpoints.errors import CheckpointError
from nodes.errors import RunFailed
from nodes.log.contract import LogError
from nodes.machine.effects import Ending
from nodes.machine.membership.pace import MOST_TIMES
from nodes.machine.messages import BadMessage
from nodes.sim.case import Case
from nodes.sim.checks import check_results
from nodes.sim.drawing import draw
from nodes.sim.faults.stress import LONGEST_TURN_MS
from nodes.sim.node_process import InvariantBroken, NodeProcess
from nodes.sim.options import Options
from nodes.sim.process_wide.compiled_loops import compiled_loops
from nodes.sim.process_wide.spilled_columns import spilled_columns
from nodes.sim.replica_checks import check_idle_progress, check_owners, check_replicas
from nodes.sim.trace import Trace
from nodes.sim.world import World
from wcrdt.codec import DecodeError

MAX_NODES = 6
FINDINGS = (
    *(AssertionError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    *(BadMessage, CheckpointError, DecodeError, HolonError, IdentityError, LogError, RunFailed, msgspec.MsgspecError),
)
"""Whatever escapes a node is a finding."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run ended.

    ``problem`` is None if all held; ``counts`` holds how often each thing happened, ``replay`` is the command that does
    the same again.
    """

    seed: int
    options: dict[str, Any]
    problem: str | None
    digest: str
    now_ms: int
    steps: int
    counts: dict[str, int]
    tail: list[str]
    replay: str

    @property
    def ok(self) -> bool:
        """True if every check held."""
        return self.problem is None


def simulate(
    seed: int,
    *,
    max_nodes: int = MAX_NODES,
    case: str | None = None,
    calm: bool = False,
    replicas: int | None = None,
    sink: Callable[[str], None] | None = None,
) -> Verdict:
    """Run one seed, ``calm`` without faults; ``max_nodes``, ``case``, ``replicas``: what has to be given again."""
    replay = f"holon sim --seed {seed}" + (f" --nodes {max_nodes}" if max_nodes != MAX_NODES else "")
    replay += (f" --case {case}" if case is not None else "") + (f" --replicas {replicas}" if replicas else "")
    return run(draw(seed, max_nodes, case, calm, replicas), sink, replay)


def run(
    options: Options, sink: Callable[[str], None] | None = None, replay: str = "", case: Case | None = None
) -> Verdict:
    """Run these options, or a user's job with them; whatever breaks is in the verdict."""
    with compiled_loops(options), spilled_columns(options):
        return _run(options, Trace(sink), replay, case)


def _run(options: Options, trace: Trace, replay: str, case: Case | None) -> Verdict:
    problem, world = None, None
    try:
        world = World(options, trace, case)
        live(world)
    except FINDINGS as error:
        problem = f"{type(error).__name__}: {error}"
        if not isinstance(error, InvariantBroken):
            problem += "\n" + "".join(traceback.format_exception(error)[-6:])
        trace.add(0 if world is None else world.now_ms, "problem", problem.splitlines()[0])
    now_ms, steps = (0, 0) if world is None else (world.now_ms, world.steps)
    return Verdict(
        options.seed,
        options.describe(),
        problem,
        trace.digest(),
        now_ms,
        steps,
        dict(sorted(trace.counts.items())),
        list(trace.tail),
        replay,
    )


def live(world: World) -> None:
    """From the first step to the last check. Raises ``InvariantBroken`` and whatever escapes a node."""
    while True:
        _to_the_end(world)
        if world.truncating.was_reported:
            return  # the job has ended with a named error, which later nodes have reported too
        is_over = world.all_done()
        if is_over:
            _check(world)
        if not world.continuing.go_on():
            break
    if not is_over:  # it is not continued, and nodes are still there
        _wait(world, world.all_done, world.now_ms + _bound_ms(world.options), "done")
        _check(world)


def _to_the_end(world: World) -> None:
    """Until the job has come to the end of its input, and mostly until all nodes have left."""
    options = world.options

    def done() -> bool:
        return world.all_done() or world.continuing.may_begin_early()

    world.run_until(lambda: done() or world.healed, world.calm_from_ms + 20_000)
    fed_ms = max((feed.at_ms for feed in world.feeds), default=0)
    until_ms = max(world.now_ms, options.feed_ms, fed_ms) + _bound_ms(options)
    if not world.input_ended:
        _wait(world, world.quiet, until_ms, "quiescence")
        if not (world.failed or world.truncating.refuses):
            world.trace.add(world.now_ms, "quiet")
            check_replicas(world, world.current())
            check_owners(world, world.current())
            check_idle_progress(world)
        world.end_input()
        until_ms = world.now_ms + _bound_ms(options)
    _wait(world, done, until_ms, "done")


def _wait(world: World, until: Callable[[], bool], until_ms: int, what: str) -> None:
    if not world.run_until(until, until_ms):
        raise InvariantBroken(f"no {what} {_bound_ms(world.options)} ms after the faults: {_where(world)}")


def _check(world: World) -> None:
    """All nodes have left."""
    (world.case.check or check_results)(world)
    if not world.failed:
        check_replicas(world, _done(world), behind=True)


def _done(world: World) -> list[NodeProcess]:
    """Those that have left because everything is answered."""
    return [process for process, ending, _ in world.gone if ending is Ending.DONE and process.node.run == world.run]


def _bound_ms(options: Options) -> int:
    """Liveness: within so much virtual time after the last fault, everything is done."""
    stall_ms = 2 * LONGEST_TURN_MS if options.faults.pressure else 0
    waits_ms = 20 * (options.load_ms + 2 * options.save_ms * options.partitions)
    patience = 60 + 2 * MOST_TIMES  # a node that was taken for dead by mistake is believed for longer
    once_ms = patience * options.failure_timeout_ms + 20 * options.checkpoint_interval_ms + 20 * options.records
    idle_ms = 10 * options.idle_timeout_ms
    return 5_000 + once_ms + waits_ms + stall_ms + idle_ms


def _where(world: World) -> str:
    return "; ".join(
        f"{process.name} frontier {process.node.replica.frontier_ms} "
        + ", ".join(
            f"[{r.partition}] {r.lifecycle.stage.value} {r.task.next_offset}"
            for r in process.node.work.runners.values()
        )
        for process in world.processes
    )
