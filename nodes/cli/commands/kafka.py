"""`holon kafka`: real Kafka brokers on this machine, with one command and without Docker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.options import ConfigOption, DefineOption, JsonOption, LogLevelOption, begin, new_group
from nodes.cli.output import emit_json, note

if TYPE_CHECKING:
    from nodes.local_kafka.broker import Broker
    from nodes.local_kafka.process import BrokerMember

app = new_group("Start and stop Kafka on this machine.", "holon kafka up")

DirOption = Annotated[
    Path | None, typer.Option("--dir", metavar="DIR", help="Folder of the brokers (default: in ~/.local/state/holon).")
]


@app.command("up", epilog="Example: holon kafka up --port 9092; or three at once: holon kafka up --brokers 3")
def up(
    ctx: typer.Context,
    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="Of the first broker (default: a free one, kept)."),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", min=1, max=9, help="How many, as one cluster (default: those of DIR, or 1)."),
    ] = None,
    heap_mb: Annotated[
        int | None,
        typer.Option("--heap-mb", min=128, help="Java heap of each broker (default: 512, of several 384)."),
    ] = None,
    folder: DirOption = None,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start Kafka on loopback, or find it running, and print its address. Its records stay until down --delete.

    With --brokers 3 topics have three replicas, of which two must be in sync. A broker that was killed is started
    again. The first time it fetches Kafka's jars (43 MB) into the cache. Kafka runs on after this command.
    """
    begin(ctx, config, define, log_level)
    from nodes.local_kafka import broker as kafka_broker

    place = folder or kafka_broker.default_folder()
    broker = kafka_broker.up(place, port=port, brokers=brokers, heap_mb=heap_mb)
    if as_json:
        emit_json(_shown(broker) | {"fresh": broker.fresh})
        return
    typer.echo(broker.bootstrap)
    processes = ", ".join(str(member.pid) for member in broker.members)
    note(
        f"Kafka {broker.version} {'is up' if broker.fresh else 'was up already'} "
        f"({'process' if len(broker.members) == 1 else 'processes'} {processes}); use it: "
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
    """Stop all brokers of DIR. Nothing to do is no error."""
    begin(ctx, config, define, log_level)
    from nodes.local_kafka import broker as kafka_broker

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
    """Print the address; ends with 4 if a broker of DIR does not run or does not answer."""
    begin(ctx, config, define, log_level)
    from nodes.errors import Unreachable
    from nodes.local_kafka import broker as kafka_broker
    from nodes.local_kafka.process import answers

    kafka_broker.require_client()
    place = folder or kafka_broker.default_folder()
    broker = kafka_broker.status(place)
    silent = (
        []
        if broker is None
        else [member for member in broker.members if member.pid is None or not answers(member.bootstrap, timeout_s=5.0)]
    )
    all_answer = broker is not None and not silent
    if as_json:
        shown = {"running": False, "answers": False, "dir": str(place)}
        emit_json(shown if broker is None else _shown(broker) | {"running": True, "answers": all_answer})
    elif broker is not None and all_answer:
        typer.echo(broker.bootstrap)
    if broker is None:
        raise Unreachable(f"no Kafka broker runs in {place}; start one: holon kafka up")
    if silent:
        raise Unreachable("; ".join(map(_silence, silent)))


def _silence(member: BrokerMember) -> str:
    log = member.folder / "broker.log"
    if member.pid is None:
        return f"Kafka broker {member.id} ({member.bootstrap}) does not run; start it: holon kafka up; see {log}"
    return f"Kafka broker {member.id} runs (process {member.pid}) but does not answer on {member.bootstrap}; see {log}"


def _shown(broker: Broker) -> dict[str, object]:
    brokers = [
        {"id": member.id, "bootstrap": member.bootstrap, "pid": member.pid, "dir": str(member.folder)}
        for member in broker.members
    ]
    return {
        "bootstrap": broker.bootstrap,
        "pid": broker.pid,
        "version": broker.version,
        "dir": str(broker.folder),
        "brokers": brokers,
    }
