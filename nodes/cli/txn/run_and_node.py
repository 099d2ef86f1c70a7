"""`holon txn`: nodes of a transactional job, and calls of its functions."""

from __future__ import annotations

from typing import Annotated

import typer

from nodes.cli.job_options import AcceptCodeOption, ReplicasOption, node_definitions, note_unknown, program_named
from nodes.cli.node_runs import run_program_node
from nodes.cli.options import GivenOptions, JsonOption, new_group, with_log_options
from nodes.cli.output import emit_json, fail, note
from nodes.cli.stopping import end_early, end_if_interrupted
from nodes.cli.txn.autoscale import EXAMPLE as AUTOSCALE_EXAMPLE
from nodes.cli.txn.autoscale import autoscale
from nodes.cli.txn.bench import EXAMPLE, bench
from nodes.cli.txn.call import EXAMPLE as CALL_EXAMPLE
from nodes.cli.txn.call import call
from nodes.cli.txn.doctor import EXAMPLE as DOCTOR_EXAMPLE
from nodes.cli.txn.doctor import doctor
from nodes.cli.txn.layout import LAYOUT_EXAMPLE, REPARTITION_EXAMPLE, layout, repartition
from nodes.cli.txn.replay import EXAMPLE as REPLAY_EXAMPLE
from nodes.cli.txn.replay import replay
from nodes.cli.txn.serve import EXAMPLE as SERVE_EXAMPLE
from nodes.cli.txn.serve import serve
from nodes.cli.txn.split import EXAMPLE as SPLIT_EXAMPLE
from nodes.cli.txn.split import split
from nodes.cli.txn.upgrade import EXAMPLE as UPGRADE_EXAMPLE
from nodes.cli.txn.upgrade import upgrade
from nodes.runtime.child_node import ProgramNode
from nodes.runtime.stop_signals import INTERRUPTED_EXIT, StoppedEarly

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
    given: GivenOptions,
    program: ProgramArgument,
    number: Annotated[int, typer.Option("--number", help="Number of the node, for people.")] = -1,
    sequencers: SequencersOption = 4,
    replicas: ReplicasOption = None,
    accept_code: AcceptCodeOption = False,
) -> None:
    """Work on a transactional job as one more node, until SIGTERM or Ctrl-C."""
    settings = given.settings(*node_definitions(None, replicas), node=number)
    program_node = ProgramNode(program=program, number=number, sequencers=sequencers, accept_code=accept_code)
    stops = given.root.stops
    try:
        run_program_node(program_node, settings, stops)
    except StoppedEarly:
        end_early(stops)
    note(f"node {number}: stopped")
    end_if_interrupted(stops)


@app.command("run", epilog="Example: holon txn run examples.bank:program --nodes 2 --log-dir ./holon-log")
@with_log_options
def run(
    given: GivenOptions,
    program: ProgramArgument,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Node processes.")] = 2,
    sequencers: SequencersOption = 4,
    replicas: ReplicasOption = None,
    accept_code: AcceptCodeOption = False,
) -> None:
    """Start node processes and stay with them; one that crashes is started again. Ctrl-C stops them."""
    settings = given.settings(*node_definitions(None, replicas))
    loaded = program_named(program)
    from nodes.runtime.log_opening import check_at_next_opening
    from nodes.transactions.fleet import TransactionFleet, stay
    from transactional.describing import code_of

    note_unknown(code_of(loaded).unknown)
    fleet = TransactionFleet(program, nodes, settings.environment(), sequencers=sequencers, accept_code=accept_code)
    failed, interrupted = stay(fleet, note, check_at_next_opening(settings))
    if failed:
        fail(1, f"{failed} of {nodes} nodes ended with an error")
    if interrupted:
        raise typer.Exit(INTERRUPTED_EXIT)


@app.command("id", epilog="Example: holon txn id --log-dir ./holon-log")
@with_log_options
def make_id(
    given: GivenOptions,
    job: Annotated[str | None, typer.Option("--job", help="Name of the program, if the log has several.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make an id for one call and all its retries: one that comes too late is refused, and never runs twice."""
    settings = given.settings()
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.clients.client import TransactionClient

    with open_settings_log(settings) as log:
        name = TransactionClient(log, job).new_id()
    if as_json:
        emit_json({"id": name})
    else:
        typer.echo(name)


app.command("call", epilog=CALL_EXAMPLE)(call)
app.command("serve", epilog=SERVE_EXAMPLE)(serve)
app.command("bench", epilog=EXAMPLE)(bench)
app.command("repartition", epilog=REPARTITION_EXAMPLE)(repartition)
app.command("split", epilog=SPLIT_EXAMPLE)(split)
app.command("layout", epilog=LAYOUT_EXAMPLE)(layout)
app.command("autoscale", epilog=AUTOSCALE_EXAMPLE)(autoscale)
app.command("doctor", epilog=DOCTOR_EXAMPLE)(doctor)
app.command("replay", epilog=REPLAY_EXAMPLE)(replay)
app.command("upgrade", epilog=UPGRADE_EXAMPLE)(upgrade)
