"""`holon sink`: the outputs of a job as files, each row once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodes.cli.job_options import JobArgument, job_named
from nodes.cli.options import GivenOptions, JsonOption, new_command, with_log_options
from nodes.cli.output import console, emit_json, fail, note
from nodes.cli.stopping import StopRequests

if TYPE_CHECKING:
    from holon.files import Files
    from holon.job import Job, Output
    from nodes.file_sinks.sink import FileSink
    from nodes.log.contract import Log
    from nodes.settings.settings import Settings

app = new_command()

_POLL_INTERVAL_S = 0.1
_LINE_S = 5.0


@app.command(epilog="Example: holon sink examples.top_items:flow --output top --to 'out/{day}' --format parquet")
@with_log_options
def sink(
    given: GivenOptions,
    job: JobArgument,
    output: Annotated[str | None, typer.Option("--output", help="Which output (default: all with Files).")] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="PATH", help="Folder or URL, with {day}, {hour} or {FIELD} in it.")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", metavar="csv|jsonl|parquet", help="With --to (jsonl).")
    ] = None,
    partition_by: Annotated[
        str | None, typer.Option("--partition-by", metavar="FIELD,...", help="With --to: folders FIELD=VALUE below it.")
    ] = None,
    time_field: Annotated[
        str | None, typer.Option("--time", metavar="FIELD", help="With --to: the time of a row (end of its window).")
    ] = None,
    commit_after: Annotated[
        str | None, typer.Option("--commit-after", metavar="DURATION", help="A row is in a file after so long (1m).")
    ] = None,
    on_error: Annotated[
        str | None,
        typer.Option("--on-error", metavar="fail|dead-letter", help="A row that fits no file (default: as declared)."),
    ] = None,
    bounded: Annotated[
        bool, typer.Option("--bounded", help="Write what the outputs have now, and end; else until the job has ended.")
    ] = False,
    parent: Annotated[int | None, typer.Option("--parent", hidden=True, help="Leave when it has gone.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write outputs of a job to files, exactly once: this process may be killed and started again at any moment.

    Without --to: all outputs that the job declares with Files. Run it beside holon run, or behind it. When the job has
    come to the end of a bounded input, the folders have a file _SUCCESS, and the command ends.
    """
    started_s = time.monotonic()
    settings = given.settings()
    declared = job_named(job, settings)
    options = {"format": format, "partition_by": partition_by, "time": time_field}
    options |= {"commit_after": commit_after, "on_error": on_error}
    chosen = _chosen(declared, job, output, to, {name: value for name, value in options.items() if value is not None})
    from nodes.file_sinks.dead_rows import DEAD_FOLDER
    from nodes.file_sinks.run import JobEnd, run_sinks
    from nodes.file_sinks.sink import summary
    from nodes.runtime.log_opening import open_settings_log

    with StopRequests() as requests, open_settings_log(settings) as log:

        def is_over() -> bool:
            return requests.event.is_set() or parent not in (None, os.getppid())

        def waited() -> bool:
            return is_over() or requests.event.wait(_POLL_INTERVAL_S)

        sinks = _opened(log, declared, chosen, settings, bounded, waited)
        complete = False
        if sinks:
            with _shown(list(sinks.values())) as show:
                complete = run_sinks(
                    list(sinks.values()),
                    JobEnd(log, declared),
                    bounded=bounded,
                    stop=is_over,
                    wait=requests.event.wait,
                    clock_s=time.monotonic,
                    show=show,
                )
    rows = [summary(sink, name, complete=complete) for name, sink in sinks.items()]
    if as_json:
        emit_json({"job": declared.name, "sinks": rows, "complete": complete, "wall_s": time.monotonic() - started_s})
    else:
        for row in rows:
            dead = f", {row['dead']:,} rows fit no file ({DEAD_FOLDER})" if row["dead"] else ""
            print(
                f"{row['to']}: {row['rows']:,} rows in {row['files']:,} files{dead}{', complete' if complete else ''}"
            )
    requests.end_if_interrupted()


def _chosen(
    job: Job, reference: str, output: str | None, to: str | None, options: dict[str, Any]
) -> dict[str, tuple[Output, Files]]:
    """The outputs to write, by name, with how."""
    from holon.errors import JobError
    from holon.files import Files
    from nodes.cli.output import Failure
    from nodes.errors import UnknownName

    if output is not None and output not in job.outputs:
        raise UnknownName(f"output of {reference}", output, job.outputs)
    try:
        if to is not None:
            names = [output] if output is not None else _results(job)
            if len(names) != 1:
                fail(2, f"{reference} has the outputs {', '.join(names)}: choose one with --output")
            fields = options.pop("partition_by", "")
            found = job.outputs[names[0]]
            row = None if found.files is None else found.files.row
            files = Files(to, partition_by=[*filter(None, fields.split(","))], row=row, **options)
            job.check_folders(files)
            return {names[0]: (found, files)}
        changed = {name: options.pop(name) for name in ("commit_after", "on_error") if name in options}
        if options:
            fail(2, f"--{sorted(options)[0].replace('_', '-')} belongs to --to PATH; the job declares the rest itself")
        chosen = {
            name: (each, replace(each.files, **changed))
            for name, each in job.outputs.items()
            if each.files is not None and output in (None, name)
        }
    except JobError as error:
        raise Failure(2, str(error)) from error
    if not chosen:
        which = reference if output is None else f"output {output!r} of {reference}"
        fail(
            2,
            f"{which} declares no files: give --to PATH, or declare them, stream.sink(Files(...)) in a flow, "
            f"Output(topic, files=Files(...)) in a job",
        )
    return chosen


def _results(job: Job) -> list[str]:
    from holon.job import DEAD, LATE, UNSTABLE

    return [name for name in job.outputs if name not in (LATE, DEAD, UNSTABLE)]


def _opened(
    log: Log,
    job: Job,
    chosen: dict[str, tuple[Output, Files]],
    settings: Settings,
    bounded: bool,
    stop: Callable[[], bool],
) -> dict[str, FileSink]:
    """The sinks, once their topics are there; none if the command was stopped before."""
    from nodes.file_sinks.sink import FileSink
    from nodes.file_sinks.stores import open_store

    topics = [each.topic for each, _ in chosen.values()]
    missing = [topic for topic in topics if topic not in log.topics()]
    if missing and bounded:
        log.partitions(missing[0])  # raises the error that names the nearest topics
    if missing:
        note(f"waiting for the topic {missing[0]}: job {job.name!r} has not been started")
    while any(topic not in log.topics() for topic in topics):
        if stop():
            return {}
    return {
        name: FileSink(log, open_store(files.root, settings.files), job.name, each.topic, files)
        for name, (each, files) in chosen.items()
    }


@contextmanager
def _shown(sinks: Sequence[FileSink]) -> Iterator[Any]:
    """Gives what shows the progress: a line that is redrawn on a terminal, else a line now and then."""

    def text() -> str:
        return "; ".join(
            f"{sink.files.path}: {sink.rows:,} rows in {sink.file_count:,} files, {sink.behind():,} to come"
            + (f", {sink.dead:,} fit no file" if sink.dead else "")
            for sink in sinks
        )

    if console().is_terminal:
        with console().status("") as status:
            yield lambda: status.update(text())
        return
    shown: dict[str, Any] = {"text": "", "s": time.monotonic()}

    def line() -> None:
        if time.monotonic() - shown["s"] >= _LINE_S and (now := text()) != shown["text"]:
            shown["s"], shown["text"] = time.monotonic(), now
            note(now)

    yield line
