"""`holon txn`: nodes of a transactional job, and calls of its functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from nodes.cli.job_options import AcceptCodeOption, ReplicasOption, node_definitions, note_unknown, program_named
from nodes.cli.options import Given, JsonOption, new_group, with_log_options
from nodes.cli.output import emit_json, fail, note
from nodes.cli.stopping import end_early, end_if_interrupted
from nodes.cli.txn_bench_command import EXAMPLE, bench
from nodes.cli.txn_doctor_command import EXAMPLE as DOCTOR_EXAMPLE
from nodes.cli.txn_doctor_command import doctor
from nodes.cli.txn_replay_command import EXAMPLE as REPLAY_EXAMPLE
from nodes.cli.txn_replay_command import replay
from nodes.python_process import module_command
from nodes.stop_signals import INTERRUPTED_EXIT, StoppedEarly

app = new_group(
    "Run transactional functions, and call them.",
    """holon txn call account alice transfer '{"to": "bob", "amount": 5}'""",
)

ProgramArgument = Annotated[str, typer.Argument(metavar="MODULE:PROGRAM", help="A transactional Program.")]
SequencersOption = Annotated[
    int, typer.Option("--sequencers", min=1, help="Partitions of the requests; stays as it was at the first start.")
]


@app.command("node", epilog="Example: holon txn node examples.bank:program --log-dir ./holon-log")
@with_log_options
def node(
    given: Given,
    program: ProgramArgument,
    number: Annotated[int, typer.Option("--number", help="Number of the node, for people.")] = -1,
    sequencers: SequencersOption = 4,
    replicas: ReplicasOption = None,
    accept_code: AcceptCodeOption = False,
) -> None:
    """Work on a transactional job as one more node, until SIGTERM or Ctrl-C."""
    settings = given.settings(*node_definitions(None, replicas), node=number)
    loaded = program_named(program)
    from nodes.transactions.process import run_transaction_node

    stops = given.root.stops
    try:
        run_transaction_node(
            loaded, settings, number=number, sequencers=sequencers, accept_code=accept_code, stops=stops
        )
    except StoppedEarly:
        end_early(stops)
    note(f"node {number}: stopped")
    end_if_interrupted(stops)


@app.command("run", epilog="Example: holon txn run examples.bank:program --nodes 2 --log-dir ./holon-log")
@with_log_options
def run(
    given: Given,
    program: ProgramArgument,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Node processes.")] = 2,
    sequencers: SequencersOption = 4,
    replicas: ReplicasOption = None,
    accept_code: AcceptCodeOption = False,
) -> None:
    """Start node processes and stay with them; one that crashes is started again. Ctrl-C stops them."""
    settings = given.settings(*node_definitions(None, replicas))
    loaded = program_named(program)
    from nodes.transactions.running import TransactionFleet, stay
    from transactional.describing import code_of

    note_unknown(code_of(loaded).unknown)
    command = module_command("nodes.cli", "txn", "node", program, "--sequencers", str(sequencers))
    command += ["--accept-code"] if accept_code else []
    fleet = TransactionFleet(command, nodes, settings.environment())
    note(f"{nodes} nodes: {', '.join(str(member.process.pid) for member in fleet.members)}")
    failed, interrupted = stay(fleet, note)
    if failed:
        fail(1, f"{failed} of {nodes} nodes ended with an error")
    if interrupted:
        raise typer.Exit(INTERRUPTED_EXIT)


@app.command("call", epilog="""Example: holon txn call account alice transfer '{"to": "bob", "amount": 5}'""")
@with_log_options
def call(
    given: Given,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Kind of the entity.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="Which entity.")],
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="What to call.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="A list, or an object of named arguments.")] = "null",
    job: Annotated[str | None, typer.Option("--job", help="Name of the program, if the log has several.")] = None,
    request_id: Annotated[str | None, typer.Option("--id", help="Request id: asked again, the same reply.")] = None,
    since: Annotated[
        int | None, typer.Option("--since", min=0, help="Of an id that was tried before: as its first try has said.")
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds to wait for the reply.")] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Call a function as one transaction and print its result; 1 if it was aborted."""
    try:
        args: Any = json.loads(arguments)
    except ValueError as error:
        fail(2, f"the arguments are no JSON: {error}")
    settings = given.settings()
    from nodes.opening import open_settings_log
    from nodes.transactions.client import TransactionClient
    from transactional.errors import BadArguments

    with open_settings_log(settings) as log:
        client = TransactionClient(log, job)
        try:
            outcome = client.call(
                operator, key, function, args, request_id=request_id, since=since, timeout_s=timeout_s
            )
        except BadArguments as error:
            fail(2, f"nothing was asked: {error}")
    _show(outcome, as_json)


def _show(outcome: Any, as_json: bool) -> None:
    """In JSON where that keeps all of it, else as Python writes it; ``as_json`` takes nothing else."""
    from transactional.errors import Aborted
    from transactional.values import fits_json

    aborted = isinstance(outcome, Aborted)
    said: dict[str, Any] = {"result": outcome}
    if aborted:
        said = {"aborted": outcome.kind, "arguments": list(outcome.plain_arguments)}
        said |= {"fields": outcome.fields} if outcome.fields else {}
    why = fits_json(said)
    if as_json and why is not None:
        ended = f"was aborted ({outcome.kind})" if aborted else "has committed"
        fail(1, f"the transaction {ended}; JSON cannot say more, without --json it is shown: {why}")
    if as_json:
        emit_json(said)
    elif not aborted:
        typer.echo(json.dumps(outcome) if why is None else repr(outcome))
    if aborted and as_json:
        raise typer.Exit(1)
    if aborted:
        fail(1, f"aborted: {outcome}")


@app.command("id", epilog="Example: holon txn id --log-dir ./holon-log")
@with_log_options
def make_id(
    given: Given,
    job: Annotated[str | None, typer.Option("--job", help="Name of the program, if the log has several.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make an id for one call and all its retries: one that comes too late is refused, and never runs twice."""
    settings = given.settings()
    from nodes.opening import open_settings_log
    from nodes.transactions.client import TransactionClient

    with open_settings_log(settings) as log:
        name = TransactionClient(log, job).new_id()
    if as_json:
        emit_json({"id": name})
    else:
        typer.echo(name)


@app.command("serve", epilog="Example: holon txn serve --port 8765 --log-dir ./holon-log")
@with_log_options
def serve(
    given: Given,
    host: Annotated[str, typer.Option("--host", help="Where to listen; beyond this machine only with a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one.")] = 8765,
    job: Annotated[str | None, typer.Option("--job", help="Name of the program, if the log has several.")] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="A file with what callers show as Authorization: Bearer TOKEN.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="Answer this Host name too.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Open the HTTP front door of a transactional job, until SIGTERM or Ctrl-C; /openapi.json says what it answers."""
    settings = given.settings()
    token = None if token_file is None else token_file.read_text().strip()
    if token == "":
        fail(2, f"--token-file {token_file} is empty")
    from nodes.opening import open_settings_log
    from nodes.transactions.serving import serve as run

    def listening(url: str) -> None:
        if as_json:
            emit_json({"url": url})
        else:
            typer.echo(url)

    interrupted = run(
        lambda: open_settings_log(settings),
        job,
        host=host,
        port=port,
        token=token,
        names=allow_host or [],
        listening=listening,
    )
    if interrupted:
        raise typer.Exit(INTERRUPTED_EXIT)


app.command("bench", epilog=EXAMPLE)(bench)
app.command("doctor", epilog=DOCTOR_EXAMPLE)(doctor)
app.command("replay", epilog=REPLAY_EXAMPLE)(replay)
