"""`holon kafka`: a real Kafka broker on this machine, with one command and without Docker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.options import ConfigOption, DefineOption, JsonOption, LogLevelOption, begin, new_group
from nodes.cli.output import emit_json, note

if TYPE_CHECKING:
    from nodes.kafka_broker import Broker

app = new_group("Start and stop a Kafka broker on this machine.", "holon kafka up")

DirOption = Annotated[
    Path | None, typer.Option("--dir", metavar="DIR", help="Folder of the broker (default: in ~/.local/state/holon).")
]


@app.command("up", epilog="Example: holon kafka up --port 9092")
def up(
    ctx: typer.Context,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Default: a free one, kept.")] = None,
    heap_mb: Annotated[int, typer.Option("--heap-mb", min=128, help="Memory of its Java heap.")] = 512,
    folder: DirOption = None,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a broker on loopback, or find it running, and print its address. Its records stay until down --delete.

    The first time it fetches Kafka's jars (43 MB) into the cache. It runs on after this command.
    """
    begin(ctx, config, define, log_level)
    from nodes import kafka_broker

    broker = kafka_broker.up(folder or kafka_broker.default_folder(), port=port, heap_mb=heap_mb)
    if as_json:
        emit_json(_shown(broker) | {"fresh": broker.fresh})
        return
    typer.echo(broker.bootstrap)
    note(
        f"Kafka {broker.version} {'is up' if broker.fresh else 'was up already'} (process {broker.pid}); use it: "
        f"-D log.kind=kafka -D log.bootstrap={broker.bootstrap}; stop it: holon kafka down"
    )


@app.command("down", epilog="Example: holon kafka down --delete")
def down(
    ctx: typer.Context,
    delete: Annotated[bool, typer.Option("--delete", help="Drop all its topics and records too.")] = False,
    folder: DirOption = None,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop the broker. Nothing to do is no error."""
    begin(ctx, config, define, log_level)
    from nodes import kafka_broker

    place = folder or kafka_broker.default_folder()
    stopped = kafka_broker.down(place, delete=delete)
    if as_json:
        emit_json({"stopped": stopped, "deleted": delete, "dir": str(place)})
    else:
        note(f"{'stopped' if stopped else 'no broker ran'}{'; its records are deleted' if delete else ''} ({place})")


@app.command("status", epilog="Example: holon kafka status --json")
def status(
    ctx: typer.Context,
    folder: DirOption = None,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the broker's address; ends with 4 if it does not run or does not answer."""
    begin(ctx, config, define, log_level)
    from nodes import kafka_broker
    from nodes.errors import Unreachable

    kafka_broker.require_client()
    place = folder or kafka_broker.default_folder()
    broker = kafka_broker.status(place)
    answers = broker is not None and kafka_broker.answers(broker.bootstrap, timeout_s=5.0)
    if as_json:
        shown = {"running": False, "answers": False, "dir": str(place)}
        emit_json(shown if broker is None else _shown(broker) | {"running": True, "answers": answers})
    elif broker is not None and answers:
        typer.echo(broker.bootstrap)
    if broker is None:
        raise Unreachable(f"no Kafka broker runs in {place}; start one: holon kafka up")
    if not answers:
        raise Unreachable(
            f"the Kafka broker of {place} runs (process {broker.pid}) but does not answer on {broker.bootstrap}; "
            f"see {broker.folder / 'broker.log'}"
        )


def _shown(broker: Broker) -> dict[str, object]:
    return {"bootstrap": broker.bootstrap, "pid": broker.pid, "version": broker.version, "dir": str(broker.folder)}
