"""`holon sim`: whole fleets with faults in one process and virtual time, each decided by its seed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.options import JsonOption, new_command
from nodes.cli.output import emit_json, note
from nodes.errors import UnknownName

if TYPE_CHECKING:
    from nodes.sim.run import Verdict

app = new_command()


@app.command(epilog="Example: holon sim --seed 7 --trace")
def sim(
    seed: Annotated[int | None, typer.Option("--seed", help="Run this one seed.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.")] = 100,
    base_seed: Annotated[int | None, typer.Option("--base-seed", help="The first seed (default: a new one).")] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="At most so many nodes in a fleet.")] = 6,
    case: Annotated[str | None, typer.Option("--case", help="Only this job (default: drawn).")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", min=1, help="Copies (default: drawn).")] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Processes to share the seeds.")] = 2,
    trace: Annotated[bool, typer.Option("--trace", help="With --seed: show everything that happens.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Simulate fleets: crashes, pauses, stealing, damaged checkpoints and deltas, then demand the right answers.

    The real node runs on a log in memory with a virtual clock. A seed that fails is printed with the command that
    does the same again.
    """
    from nodes.sim.jobs import CASES

    if case is not None and case not in CASES:
        raise UnknownName("simulated job", case, CASES)
    one = seed is not None
    verdicts = (
        [_one(seed, nodes, case, replicas, trace)] if one else _many(seeds, base_seed, nodes, case, replicas, processes)
    )
    failed = [verdict for verdict in verdicts if not verdict.ok]
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        counts.update(verdict.counts)
    if as_json:
        emit_json(_summary(verdicts, failed, counts))
    else:
        note("happened: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
        note(f"{len(verdicts)} seeds, {len(failed)} failed")
    if failed:
        raise typer.Exit(1)


def _one(seed: int, nodes: int, case: str | None, replicas: int | None, trace: bool) -> Verdict:
    from nodes.sim.many import explain
    from nodes.sim.options import draw
    from nodes.sim.run import simulate

    note(f"seed {seed}: {draw(seed, nodes, case, replicas=replicas).describe()}")
    verdict = simulate(seed, max_nodes=nodes, case=case, replicas=replicas, sink=note if trace else None)
    note(f"trace digest {verdict.digest}, {verdict.now_ms} ms of virtual time in {verdict.steps} steps")
    if not verdict.ok:
        note(explain(verdict))
    return verdict


def _many(
    seeds: int, base_seed: int | None, nodes: int, case: str | None, replicas: int | None, processes: int
) -> list[Verdict]:
    from nodes.sim.many import explain, fresh_base_seed, simulate_all

    first = fresh_base_seed() if base_seed is None else base_seed
    note(f"seeds {first} to {first + seeds - 1}, fleets of at most {nodes} nodes")
    verdicts = []
    for verdict in simulate_all(
        range(first, first + seeds), max_nodes=nodes, case=case, replicas=replicas, processes=processes
    ):
        verdicts.append(verdict)
        if not verdict.ok:
            note(explain(verdict))
    return verdicts


def _summary(verdicts: list[Verdict], failed: list[Verdict], counts: Counter[str]) -> dict[str, object]:
    return {
        "seeds": len(verdicts),
        "first_seed": verdicts[0].seed,
        "failed": [{"seed": v.seed, "problem": v.problem, "replay": v.replay} for v in failed],
        "digest": verdicts[0].digest if len(verdicts) == 1 else None,
        "virtual_ms": sum(v.now_ms for v in verdicts),
        "counts": dict(sorted(counts.items())),
    }
