"""`holon sim`: whole fleets with faults in one process and virtual time, each decided by its seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.job_options import imported
from nodes.cli.options import JsonOption, new_command
from nodes.cli.output import Failure, emit_json, note
from nodes.errors import UnknownName

if TYPE_CHECKING:
    from nodes.sim.many import Simulated
    from nodes.sim.tally import SeedPlan, Tally
    from nodes.sim.user_jobs.plain_pass import DataFacts

app = new_command()
MOST_FAILURES = 3
"""Of a user's job: further seeds would show the same."""


@app.command(epilog="Example: holon sim examples.top_items:flow --data examples/items.jsonl --seeds 200")
def sim(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[MODULE:JOB]", help="Your Job or Flow, with --data (default: jobs of the simulation)."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", metavar="[TOPIC=]FILE", help="Its input, one record a line; of each topic (repeat)."),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option("--records", min=1, help="With --data: at most so many of each file. [default: 1000]"),
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="With --data: of each topic (default: drawn).")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Run this one seed.")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds to run.")] = 100,
    base_seed: Annotated[int | None, typer.Option("--base-seed", help="The first seed (default: a new one).")] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="At most so many nodes in a fleet.")] = 6,
    case: Annotated[
        str | None, typer.Option("--case", help="Only this job of the simulation (default: drawn).")
    ] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", min=1, help="Replicas (default: drawn).")] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, help="Processes to share the seeds.")] = 2,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="FILE", help="Keep the progress there, and go on from it.")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="With --seed: show everything that happens.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Simulate fleets: crashes, netsplits, slow stores, damaged checkpoints and deltas, then demand the right answers.

    The real node runs on a log in memory with a virtual clock. A seed that fails is printed with the command that
    does the same again. With MODULE:JOB it runs your own job, whose results must be those of one plain pass over the
    records. With ``--resume`` an interrupted run of many seeds goes on where it was.
    """
    from nodes.runtime.process_start import collect_rarely
    from nodes.sim.many import fresh_base_seed
    from nodes.sim.tally import SeedPlan, Tally, resumed
    from nodes.sim.user_jobs.simulated import DEFAULT_RECORDS

    _check_usage(job, data, case, records, partitions)
    first = fresh_base_seed() if seed is None and base_seed is None else seed if seed is not None else base_seed
    assert first is not None
    read = 0 if data is None else records or DEFAULT_RECORDS
    named = None if data is None else tuple(data)
    plan = SeedPlan(first, seeds if seed is None else 1, nodes, case, replicas, job, named, read, partitions)
    tally = resumed(resume, plan) if resume is not None and seed is None else Tally(plan)
    runs, facts = _runs(tally.plan)
    collect_rarely()
    if seed is not None:
        _one(tally, runs, trace)
    else:
        _many(tally, runs, processes, resume)
    if as_json:
        emit_json(tally.summary() | ({} if facts is None else {"plain_pass": facts._asdict()}))
    else:
        note("happened: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.counts.items())))
        note(f"{tally.done} seeds, {len(tally.failed)} failed")
    if tally.failed:
        raise typer.Exit(1)


def _check_usage(
    job: str | None, data: list[str] | None, case: str | None, records: int | None, partitions: int | None
) -> None:
    from nodes.sim.jobs import CASES

    if case is not None and case not in CASES:
        raise UnknownName("simulated job", case, CASES)
    if (job is None) != (not data):
        raise Failure(2, "--data FILE is the input of MODULE:JOB; give both, or none of them")
    if job is not None and case is not None:
        raise Failure(2, "--case names a job of the simulation itself, so it excludes MODULE:JOB")
    if job is None and (records is not None or partitions is not None):
        raise Failure(2, "--records and --partitions belong to --data FILE")


def _runs(plan: SeedPlan) -> tuple[Simulated, DataFacts | None]:
    """The runs of a plan; of a user's job also what one plain pass has shown."""
    from nodes.sim.many import DrawnJobs

    if plan.job is None or plan.data is None:
        return DrawnJobs(plan.nodes, plan.case, plan.replicas), None
    from nodes.sim.user_jobs.plain_pass import data_facts
    from nodes.sim.user_jobs.records import files_by_topic, read_files
    from nodes.sim.user_jobs.simulated import Drawn, NamedUserJob
    from nodes.streams.jobs import load_job

    reference = plan.job
    declared = imported(reference, lambda: load_job(reference))
    files = files_by_topic(declared, plan.data)
    for file in files.values():
        if not file.is_file():
            raise Failure(2, f"--data {file}: there is no such file")
    lines = read_files(declared, files, plan.records + 1)
    for topic, given in lines.items():
        if len(given) > plan.records:
            note(f"only the first {plan.records:,} records of {files[topic]} are taken; --records takes more")
    facts = data_facts(declared, {topic: given[: plan.records] for topic, given in lines.items()})
    each = " of each topic" * (len(lines) > 1)
    note(
        f"job {declared.name}: {facts.records:,} records, of which {facts.accepted:,} accepted, {facts.filtered:,} "
        f"filtered, {facts.late:,} late, {facts.dead:,} dead in one partition{each}; {facts.results:,} results"
    )
    drawn = Drawn(plan.nodes, plan.partitions, plan.replicas)
    return NamedUserJob(reference, plan.data, plan.records, drawn, facts), facts


def _one(tally: Tally, runs: Simulated, trace: bool) -> None:
    from nodes.sim.many import explain

    seed = tally.plan.first_seed
    note(f"seed {seed}: {runs.options(seed).describe()}")
    verdict = runs.simulate(seed, note if trace else None)
    note(f"trace digest {verdict.digest}, {verdict.now_ms} ms of virtual time in {verdict.steps} steps")
    if not verdict.ok:
        note(explain(verdict))
    tally.add(verdict)


def _many(tally: Tally, runs: Simulated, processes: int, resume: Path | None) -> None:
    from nodes.sim.many import brief, explain, simulate_all
    from nodes.sim.tally import SAVE_EVERY

    plan, left = tally.plan, tally.left
    note(f"seeds {left.start} to {left.stop - 1}, fleets of at most {plan.nodes} nodes")
    for failure in tally.failed:
        note(f"failed before: {failure.replay}")
    for verdict in simulate_all(left, runs, processes=processes):
        tally.add(verdict)
        if not verdict.ok:
            note(explain(verdict) if plan.job is None else brief(verdict))
        if resume is not None and (tally.done % SAVE_EVERY == 0 or not tally.left or not verdict.ok):
            tally.save(resume)
        if plan.job is not None and len(tally.failed) >= MOST_FAILURES and tally.left:
            note(f"{MOST_FAILURES} seeds failed; {len(tally.left)} are left out")
            break
