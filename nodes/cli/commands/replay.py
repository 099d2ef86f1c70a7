"""`holon replay`: does a job give the same twice?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.job_options import JobArgument, OnErrorOption, job_named, node_definitions
from nodes.cli.options import GivenOptions, JsonOption, new_command, with_log_options
from nodes.cli.output import emit_json, note

if TYPE_CHECKING:
    from holon.input_layout import InputLayout

app = new_command()


def _at(layout: InputLayout, partition: int, offset: int | None) -> str:
    place, several = layout[partition].place, len(layout.sources) > 1
    return f"at {place} offset {offset}" if several else f"at partition {partition} offset {offset}"


@app.command(epilog="Example: holon replay examples.query1:job --check --log-dir ./holon-log")
@with_log_options
def replay(
    given: GivenOptions,
    job: JobArgument,
    check: Annotated[bool, typer.Option("--check", help="Compare two replays (what this command does).")] = True,
    records: Annotated[int, typer.Option("--records", min=1, help="Of each partition, from its start on.")] = 1000,
    on_error: OnErrorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job twice over the beginning of its input, and show the first record at which the two runs part.

    The second run has another hash seed and time zone, and loses its state now and then. Nothing is written to the log.
    Exit code 1 if the job is not deterministic, or if its function fails.
    """
    settings = given.settings(*node_definitions(on_error, None))
    declared = job_named(job, settings)
    from nodes.errors import RunFailed
    from nodes.replay.comparison import counted_upstream, judge, prefix, replay_twice, without_duplicates
    from nodes.runtime.log_opening import open_settings_log
    from nodes.schema_registry.commands import fetching, known_schemas
    from nodes.streams.control_history import schema_verdicts
    from nodes.streams.io.inputs import use_parts
    from nodes.streams.jobs import input_layout
    from nodes.streams.judged_schemas import JudgedSchemas

    with open_settings_log(settings) as log:
        layout = input_layout(log, declared)
        use_parts(log, declared)
        read = prefix(log, layout, records)
        places = without_duplicates(read, counted_upstream(log, declared))
        judged = JudgedSchemas(layout, schema_verdicts(log, declared), fetching(settings.schema_registry))
    judge(places, layout.partitions, judged)
    for line in judged.remarks():
        note(line)
    schemas = known_schemas(declared.formats)
    found = replay_twice(job, declared.name, settings.node.on_error, layout.topics, places, schemas)
    found.duplicates = len(read) - len(places)
    found.dead_by_schema, found.undecided_schemas = judged.refused, judged.undecided
    if as_json:
        emit_json(found)
    elif found.deterministic and found.error is None:
        print(f"job {found.job}: {found.records:,} records of {layout.partitions} partitions gave the same twice")
        if found.duplicates:
            print(f"{found.duplicates:,} duplicates of other jobs' outputs were passed over, as nodes do")
    if found.error is not None:
        raise RunFailed(f"the job's function fails in both runs, so only what is before was compared: {found.error}")
    if found.divergence is not None:
        at = found.divergence
        where = "at the end of the input" if at.partition is None else _at(layout, at.partition, at.offset)
        raise RunFailed(
            f"job {found.job!r} is not deterministic: two runs part {where}, in {at.what}\n"
            f"first:  {at.first}\nsecond: {at.second}\n"
            f"Results may depend on records and declared states alone: no clock, no random numbers, no order of a set, "
            f"no variable that is not a declared state"
        )
