"""`holon txn serve`: the HTTP gateway of a transactional job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import emit_json, fail, note
from nodes.runtime.stop_signals import INTERRUPTED_EXIT

EXAMPLE = "Example: holon txn serve --port 8765 --log-dir ./holon-log"


@with_log_options
def serve(
    given: GivenOptions,
    host: Annotated[str, typer.Option("--host", help="Where to listen; beyond this machine only with a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one.")] = 8765,
    job: Annotated[str | None, typer.Option("--job", help="Name of the program, if the log has several.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="A file with what callers show as Authorization: Bearer TOKEN."),
    ] = None,
    is_open: Annotated[
        bool, typer.Option("--open", help="Require no token: every user of this machine may call.")
    ] = False,
    connections: Annotated[int, typer.Option("--connections", min=1, help="Connections at once.")] = 1_000,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="NAME", help="Answer this Host name too.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Open the HTTP gateway of a transactional job, until SIGTERM or Ctrl-C; /openapi.json describes its answers.

    Callers show a token: that of --token-file, or this user's own, in a file that only this user can read.
    """
    if is_open and token_file is not None:
        fail(2, "--open requires no token, --token-file names one: give one of the two")
    settings = given.settings()
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.gateway.serving import refuse_open_host
    from nodes.transactions.gateway.serving import serve as run
    from nodes.transactions.gateway.token_file import given_token, shared_token, shared_token_file

    token, file = None, None
    if token_file is not None:
        token, file = given_token(token_file), token_file
    elif not is_open:
        file = shared_token_file()
        refuse_open_host(host, None)
        token = shared_token(file)

    def listening(url: str) -> None:
        if as_json:
            emit_json({"url": url, "token_file": None if file is None else str(file)})
        else:
            typer.echo(url)
            if file is not None:
                note(f"callers show the token in {file}: holon txn call --gateway {url} ..., or Authorization: Bearer")

    interrupted = run(
        lambda: open_settings_log(settings),
        job,
        host=host,
        port=port,
        token=token,
        names=allow_host or [],
        connections=connections,
        listening=listening,
    )
    if interrupted:
        raise typer.Exit(INTERRUPTED_EXIT)
