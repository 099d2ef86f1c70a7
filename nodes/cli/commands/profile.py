"""`holon profile`: where the processor time of a job goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.job_options import JobArgument, job_named
from nodes.cli.options import GivenOptions, JsonOption, new_command, with_log_options
from nodes.cli.output import Failure, emit_json, note

if TYPE_CHECKING:
    from nodes.profiling.profile import Profile

app = new_command()


@app.command(epilog="Example: holon profile examples.top_items:job --data examples/items.jsonl")
@with_log_options
def profile(
    given: GivenOptions,
    job: JobArgument,
    data: Annotated[
        Path | None,
        typer.Option("--data", exists=True, dir_okay=False, readable=True, help="One record a line (JSON lines)."),
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Of the log; default: the job's own input.")] = None,
    records: Annotated[int, typer.Option("--records", min=1, help="At most so many, from the beginning.")] = 200_000,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.0, help="Processor time to measure; the records come again until then.")
    ] = 2.0,
    flamegraph: Annotated[
        Path | None, typer.Option("--flamegraph", dir_okay=False, help="Write the stacks as a picture (SVG).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Process records in this process alone, and show the cost of each stage, the slow records, and what would help.

    No fleet, broker or store takes part, and nothing is written to a log. Stages are shares of samples of the
    processor time, so that measuring costs little.
    """
    if data is not None and topic is not None:
        raise Failure(2, "--data and --topic exclude each other")
    settings = given.settings()
    declared = job_named(job, settings)
    from holon.input_layout import InputLayout
    from nodes.machine.ownership.schemas import SchemaFold
    from nodes.profiling.profile import profiled
    from nodes.profiling.records import FileRecords, ProfiledRecords, TopicRecords, without_refused
    from nodes.profiling.sampling import flame_graph
    from nodes.runtime.log_opening import open_settings_log
    from nodes.schema_registry.commands import fetching
    from nodes.streams.control_history import schema_verdicts
    from nodes.streams.io.inputs import load_loops, use_parts
    from nodes.streams.judged_schemas import JudgedSchemas

    if len(declared.sources) > 1 and (data is not None or topic is not None):
        raise Failure(2, f"job {declared.name!r} reads several topics: leave --data and --topic out, to read these")
    load_loops(declared, build_for_objects=settings.log.kind == "kafka")

    def measure(records: ProfiledRecords, verdicts: SchemaFold) -> None:
        layout = InputLayout(declared.sources, records.partitions)
        judged = JudgedSchemas(layout, verdicts, fetching(settings.schema_registry))
        found = without_refused(records, judged, settings.node.batch_max_records)
        for line in judged.remarks():
            note(line)
        note(f"processing records for {seconds:g} s of processor time")
        result, sampler = profiled(declared, found, settings.node.batch_max_records, seconds)
        result.dead_by_schema, result.undecided_schemas = judged.refused, judged.undecided
        if flamegraph is not None:
            flamegraph.write_text(flame_graph(sampler.stacks, f"{declared.name}, {result.events:,} events"), "utf-8")
        if as_json:
            emit_json(result)
        else:
            _show(result)

    if data is not None:
        measure(FileRecords(data, records, declared.formats[0]), SchemaFold())
        return
    with open_settings_log(settings) as log:
        log.use_columns()
        use_parts(log, declared, topic)
        verdicts = schema_verdicts(log, declared) if topic is None else SchemaFold()  # of another topic there are none
        measure(TopicRecords(log, declared.topics if topic is None else [topic], records), verdicts)


def _show(found: Profile) -> None:
    """For people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(
        f"job {found.job}: {found.events_per_cpu_s:,.0f} events a CPU-second ({found.us_per_event:.2f} µs each; "
        f"{found.events:,} events, {found.rounds} times, {found.outputs:,} outputs)"
    )
    table = Table("stage", "share", "µs an event", box=None)
    for cost in found.stages:
        table.add_row(cost.stage, f"{cost.share:.0%}", f"{cost.us_per_event:.3f}")
    console.print(table)
    for compiled, by in ((True, "compiled loops"), (False, "msgspec")):
        names = [column.name for column in found.columns if column.compiled is compiled]
        if names:
            console.print(f"columns by {by}: {', '.join(names)}")
    for one in found.process:
        if one.by_columns:
            console.print(f"process is followed: records of {one.topic} go by columns where many come at once")
    if found.slow_records is not None:
        console.print(f"records that msgspec read as a whole: {found.slow_records:,} of {found.records:,}")
    for example in found.slow_examples:
        reason = example.reason or "it is right, but no loop takes it"
        of = f" of {example.topic}" if example.topic else ""
        console.print(f"  partition {example.partition}{of} offset {example.offset}: {reason}: {example.record}")
    for line in found.advice:
        console.print(f"help: {line}")
