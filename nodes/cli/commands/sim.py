"""`holon sim`: whole fleets with faults in one process and virtual time, each decided by its seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.options import JsonOption, new_command
from nodes.cli.output import emit_json, note
from nodes.errors import UnknownName

if TYPE_CHECKING:
    from nodes.sim.run import Verdict
    from nodes.sim.tally import Tally

app = new_command()


@app.command(epilog="Example: holon sim --seed 7 --trace")
def sim(
    seed: Annotated[int | None, typer.Option("--seed", help="Run this one seed.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.")] = 100,
    base_seed: Annotated[int | None, typer.Option("--base-seed", help="The first seed (default: a new one).")] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="At most so many nodes in a fleet.")] = 6,
    case: Annotated[str | None, typer.Option("--case", help="Only this job (default: drawn).")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", min=1, help="Replicas (default: drawn).")] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Processes to share the seeds.")] = 2,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="FILE", help="Keep the progress there, and go on from it.")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="With --seed: show everything that happens.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Simulate fleets: crashes, pauses, stealing, damaged checkpoints and deltas, then demand the right answers.

    The real node runs on a log in memory with a virtual clock. A seed that fails is printed with the command that
    does the same again. With ``--resume`` an interrupted run of many seeds goes on where it was.
    """
    from nodes.sim.jobs import CASES
    from nodes.sim.many import fresh_base_seed
    from nodes.sim.tally import SeedPlan, Tally, resumed

    if case is not None and case not in CASES:
        raise UnknownName("simulated job", case, CASES)
    if seed is not None:
        tally = Tally(SeedPlan(seed, 1, nodes, case, replicas))
        tally.add(_one(seed, nodes, case, replicas, trace))
    else:
        plan = SeedPlan(fresh_base_seed() if base_seed is None else base_seed, seeds, nodes, case, replicas)
        tally = Tally(plan) if resume is None else resumed(resume, plan)
        _many(tally, processes, resume)
    if as_json:
        emit_json(tally.summary())
    else:
        note("happened: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.counts.items())))
        note(f"{tally.done} seeds, {len(tally.failed)} failed")
    if tally.failed:
        raise typer.Exit(1)


def _one(seed: int, nodes: int, case: str | None, replicas: int | None, trace: bool) -> Verdict:
    from nodes.sim.drawing import draw
    from nodes.sim.many import explain
    from nodes.sim.run import simulate

    note(f"seed {seed}: {draw(seed, nodes, case, replicas=replicas).describe()}")
    verdict = simulate(seed, max_nodes=nodes, case=case, replicas=replicas, sink=note if trace else None)
    note(f"trace digest {verdict.digest}, {verdict.now_ms} ms of virtual time in {verdict.steps} steps")
    if not verdict.ok:
        note(explain(verdict))
    return verdict


def _many(tally: Tally, processes: int, resume: Path | None) -> None:
    from nodes.sim.many import explain, simulate_all
    from nodes.sim.tally import SAVE_EVERY

    plan, left = tally.plan, tally.left
    note(f"seeds {left.start} to {left.stop - 1}, fleets of at most {plan.nodes} nodes")
    for failure in tally.failed:
        note(f"failed before: {failure.replay}")
    for verdict in simulate_all(
        left, max_nodes=plan.nodes, case=plan.case, replicas=plan.replicas, processes=processes
    ):
        tally.add(verdict)
        if not verdict.ok:
            note(explain(verdict))
        if resume is not None and (tally.done % SAVE_EVERY == 0 or not tally.left or not verdict.ok):
            tally.save(resume)
