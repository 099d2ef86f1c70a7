"""`holon run`: a fleet of nodes on this machine runs a job."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from nodes.cli.job_options import (
    AcceptCodeOption,
    JobArgument,
    OnErrorOption,
    ReplicasOption,
    job_named,
    node_definitions,
    note_unknown,
)
from nodes.cli.options import GivenOptions, JsonOption, new_command, with_log_options
from nodes.cli.output import console, emit_json, note, note_as_it_is

if TYPE_CHECKING:
    from nodes.fleet.account import RunAccount
    from nodes.fleet.end_of_input import Bounds
    from nodes.fleet.monitor import Monitor
    from nodes.fleet.run import RunOptions
    from nodes.fleet.screen import Screen
    from nodes.fleet.sink_process import SinkProcess
    from nodes.log.contract import Log
    from nodes.machine.config import JobRun
    from nodes.settings.settings import Settings

app = new_command()

BoundedOption = Annotated[
    bool,
    typer.Option(
        "--bounded",
        help="The input ends where it ends now; end when all of it is answered. A job that is started so has no skew "
        "guard but a declared one.",
    ),
]
ResetOption = Annotated[
    bool, typer.Option("--reset", help="Start the job's next incarnation from empty state, at the start of the input.")
]
ContinueOption = Annotated[
    bool, typer.Option("--continue", help="If the job has come to the end of its input: go on with what came later.")
]
RetryOption = Annotated[
    bool, typer.Option("--retry", help="Try again where the job's function failed, with the same code.")
]


@app.command(epilog="Example: holon run examples.query1:job --nodes 3 --log-dir ./holon-log")
@with_log_options
def run(
    given: GivenOptions,
    job: JobArgument,
    nodes: Annotated[int, typer.Option("--nodes", min=1, max=1000, help="Node processes to start.")] = 1,
    bounded: BoundedOption = False,
    continues: ContinueOption = False,
    reset: ResetOption = False,
    accept_code: AcceptCodeOption = False,
    on_error: OnErrorOption = None,
    replicas: ReplicasOption = None,
    retry: RetryOption = False,
    no_view: Annotated[bool, typer.Option("--no-view", help="Lines now and then instead of the live view.")] = False,
    no_files: Annotated[
        bool, typer.Option("--no-files", help="Leave the files of outputs to holon sink; else it runs beside.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a job on a fleet of nodes, or resume it where it was. Files that its outputs declare are written beside.

    Ctrl-C or SIGTERM: the nodes finish what is in hand, checkpoint and leave; a second time ends them at once.
    """
    started_s = time.monotonic()
    settings = given.settings(*node_definitions(on_error, replicas))
    declared = job_named(job, settings)
    note_unknown(declared.program.code.unknown)
    from nodes.fleet.run import RunOptions
    from nodes.runtime.log_opening import open_settings_log
    from nodes.streams.jobs import open_job, request_retry

    with open_settings_log(settings) as log:
        opened = open_job(log, declared, reset=reset, accept_code=accept_code, bounded=bounded)
        if retry:
            request_retry(log, opened)
        ran = _Ran(log, settings, RunOptions(job, nodes, accept_code), bounded, started_s, not no_files, opened)
        result = ran.to_the_end(continues, no_view)
    _report(result, as_json)
    _end(result, ran.opened)


@dataclass
class _Ran:
    """A run of the command: more than one of the job, where that goes on behind an earlier end of its input."""

    log: Log
    settings: Settings
    options: RunOptions
    bounded: bool
    started_s: float
    files: bool
    opened: JobRun

    def to_the_end(self, continues: bool, no_view: bool) -> RunAccount:
        """Until the job is done, or a node or a user has ended it; with ``continues`` until nothing is unread."""
        from nodes.checkpoints.opening import open_checkpoints
        from nodes.fleet.account import RunEnding
        from nodes.fleet.end_of_input import Bounds
        from nodes.fleet.monitor import Monitor
        from nodes.streams.continuing import continue_job
        from nodes.streams.jobs import open_job

        while True:
            opened = self.opened
            monitor = Monitor(self.log, opened)
            monitor.poll()
            bounds = Bounds(self.log, opened, monitor)
            if monitor.done and continues and (bounds.unread or not self.bounded):
                continue_job(self.log, opened.job, open_checkpoints(self.settings), bounded=self.bounded)
                self.opened = open_job(self.log, opened.job, accept_code=self.options.accept_code)
                continue
            with self._files_beside(opened) as beside:
                result = self._once(opened, monitor, bounds, no_view)
                if beside is not None and result.ending is RunEnding.DONE:
                    beside.finish()
            if result.ending is RunEnding.DONE:
                result.unread = bounds.unread
            if not (continues and result.unread):
                return result

    def _once(self, opened: JobRun, monitor: Monitor, bounds: Bounds, no_view: bool) -> RunAccount:
        from nodes.fleet.account import RunEnding, account
        from nodes.fleet.run import FleetRun

        nodes = self.options.nodes
        if monitor.done:
            note(f"{_name(opened)} is finished already (--reset starts it anew)")
            result = account(self.log, opened, monitor, nodes, RunEnding.DONE, self._wall_s())
            result.already_done = True
            return result
        _refuse_failed(opened, monitor)
        screen, end = _screen(no_view, self.settings), bounds if self.bounded else None
        running = FleetRun(self.log, opened, monitor, self.settings, self.options, screen, end)
        ending = running.execute()
        return account(self.log, opened, monitor, nodes, ending, self._wall_s(), running.supervisor.restarts)

    def _files_beside(self, opened: JobRun) -> AbstractContextManager[SinkProcess | None]:
        """The process that writes the files of the job's outputs, if it declares any."""
        from nodes.fleet.sink_process import SinkProcess

        if not self.files or all(output.files is None for output in opened.job.outputs.values()):
            return nullcontext()
        return SinkProcess(self.options.reference, self.settings, note)

    def _wall_s(self) -> float:
        return time.monotonic() - self.started_s


def _screen(no_view: bool, settings: Settings) -> Screen:
    from nodes.fleet.screen import JsonScreen, LineScreen, LiveScreen

    if settings.logging.format == "json":
        return JsonScreen(note, note_as_it_is)
    return LineScreen(note) if no_view or not console().is_terminal else LiveScreen(console())


def _refuse_failed(opened: JobRun, monitor: Monitor) -> None:
    """The failure is on the log, and no node would claim the partition again: better reported before any starts."""
    from nodes.errors import RunFailed

    if monitor.failure is not None:
        raise RunFailed(
            f"{_name(opened)} has failed with this code before: mend the function and use --accept-code; --retry, if "
            f"it was no fault of the function; --on-error dead-letter to set such records aside; or --reset\n"
            f"{monitor.failure.rstrip()}"
        )


def _report(result: RunAccount, as_json: bool) -> None:
    if as_json:
        emit_json(result)
        return
    from holon.tracks.admission import AdmissionCounts
    from nodes.fleet.live_view import identity
    from nodes.streams.held_frontier import held_text

    outcomes = (result.accepted, result.filtered, result.late, result.dead, result.duplicates)
    counts = AdmissionCounts(*outcomes, result.late_inserts, result.late_by_state)
    topics = ", ".join(f"{topic} {count:,}" for topic, count in result.outputs_by_topic.items())
    verdict = "holds on the log" if result.conserved else "DOES NOT HOLD on the log"
    slow = f"{result.slow_records:,} records were read one by one, by no compiled loop (holon profile shows some)"
    letters = f"dead letters: the first is {result.first_dead}" if result.first_dead else None
    for line in (
        f"job {result.job} incarnation {result.incarnation}: {result.ending.value} after {result.wall_s:.1f} s; "
        f"{result.nodes} nodes, {result.partitions} partitions",
        f"outputs {result.outputs:,} ({topics or 'no output topic'}); {result.repeats_dropped:,} duplicates dropped",
        f"{identity(result.taken, counts)}: {verdict}",
        f"steals {result.steals}, suppressed {result.suppressed}, restarts {result.restarts}",
        letters,
        f"{result.dead_rows:,} dead letters are about complete windows" if result.dead_rows else None,
        slow if result.slow_records else None,
        None if result.frontier_held is None else held_text(result.frontier_held),
    ):
        if line is not None:
            print(line, flush=True)


def _end(result: RunAccount, opened: JobRun) -> None:
    """The exit code, and why."""
    from nodes.fleet.account import RunEnding

    if result.ending is RunEnding.FAILED:
        _fail(
            f"the job has failed, at the record named here; nothing before it is lost\n{(result.error or '').rstrip()}"
        )
    if not result.conserved:
        _fail(
            f"job {result.job!r}: the records taken by the log's offsets ({result.taken}) are not those that the job "
            f"has counted: this is a fault of Holon, please report it with the log"
        )
    if result.all_dead and result.ending is RunEnding.DONE:
        _fail(
            f"job {result.job!r}: nothing of {', '.join(opened.job.topics)} could be used: all {result.dead:,} records "
            f"are dead letters; the first is {result.first_dead}; holon dlq list names the others"
        )
    if result.unread:
        from nodes.fleet.end_of_input import unread_text

        _fail(unread_text(opened, result.unread))
    if result.ending is RunEnding.INTERRUPTED:
        raise typer.Exit(130)


def _fail(message: str) -> NoReturn:
    from nodes.errors import RunFailed

    raise RunFailed(message)


def _name(opened: JobRun) -> str:
    return f"job {opened.job.name!r} (incarnation {opened.incarnation})"
