"""`holon txn call`: one transaction, over the log or through the HTTP gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import emit_json, fail, note

if TYPE_CHECKING:
    from nodes.settings.settings import Settings
    from transactional.requests.requests import WireRequest

EXAMPLE = """Example: holon txn call account alice transfer '{"to": "bob", "amount": 5}'"""


@with_log_options
def call(
    given: GivenOptions,
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Kind of the entity.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="Which entity.")],
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="What to call.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="A list, or an object of named arguments.")] = "null",
    job: Annotated[str | None, typer.Option("--job", help="Name of the program, if the log has several.")] = None,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Request id: a retry with it gets the same reply.")
    ] = None,
    since: Annotated[
        int | None, typer.Option("--since", min=0, help="For a retry: the value that the first try has reported.")
    ] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds to wait for the reply.")] = 30.0,
    gateway: Annotated[
        str | None,
        typer.Option("--gateway", metavar="URL", help="Call `holon txn serve` there, not the log; with its token."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="With --gateway: a file with the token, if not the shared one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Call a function as one transaction and print its result; 1 if it was aborted.

    On a full disk it waits for room, for --timeout in all.
    """
    try:
        args: Any = json.loads(arguments)
    except (ValueError, RecursionError) as error:
        fail(2, f"the arguments are no JSON: {error}")
    if gateway is None and token_file is not None:
        fail(2, "--token-file goes with --gateway URL; the log needs no token")
    if gateway is not None and job is not None:
        fail(2, "--job goes with the log; a gateway serves one job, which its own --job names")
    settings = given.settings()
    from transactional.errors import BadArguments
    from transactional.requests.requests import WireRequest, sendable

    request = WireRequest("" if request_id is None else request_id, operator, key, function, args, since)
    try:
        # Before anything is opened, or waited for.
        sendable(WireRequest("?" if request_id is None else request_id, operator, key, function, args, since))
        if gateway is not None:
            outcome = _through(gateway, token_file, request, timeout_s)
        else:
            outcome = _on_the_log(settings, job, request, request_id, timeout_s)
    except BadArguments as error:
        fail(2, f"nothing was sent: {error}")
    show_outcome(outcome, as_json)


def _on_the_log(
    settings: Settings, job: str | None, request: WireRequest, request_id: str | None, timeout_s: float
) -> Any:
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.clients.client import TransactionClient
    from nodes.transactions.clients.patience import Patience

    with open_settings_log(settings) as log:
        client, patience = TransactionClient(log, job), Patience(timeout_s, note)
        outcome, _ = patience.with_room(  # a refused request is not on the log, and may be made anew under another id
            lambda: client.try_call(
                request.operator,
                request.key,
                request.function,
                request.args,
                request_id=request_id,
                since=request.since,
                timeout_s=patience.left_s,
            )
        )
        return outcome


def _through(url: str, token_file: Path | None, request: WireRequest, timeout_s: float) -> Any:
    from nodes.transactions.gateway.calls import GatewayCalls, is_loopback
    from nodes.transactions.gateway.token_file import given_token, own_token, shared_token_file

    token, shared = None, shared_token_file()
    if token_file is not None:
        token = given_token(token_file)
    elif is_loopback(url) and shared.exists():
        token = own_token(shared)
    return GatewayCalls(url, token).call(request, timeout_s)


def show_outcome(outcome: Any, as_json: bool) -> None:
    """In JSON where that keeps all of it, else as Python writes it; ``as_json`` takes nothing else."""
    from transactional.errors import Aborted
    from transactional.state.values import fits_json

    aborted = isinstance(outcome, Aborted)
    answer: dict[str, Any] = {"result": outcome}
    if aborted:
        answer = {"aborted": outcome.kind, "arguments": list(outcome.plain_arguments)}
        answer |= {"fields": outcome.fields} if outcome.fields else {}
    why = fits_json(answer)
    if as_json and why is not None:
        ended = f"was aborted ({outcome.kind})" if aborted else "has committed"
        fail(1, f"the transaction {ended}; JSON cannot hold the result, without --json it is shown: {why}")
    if as_json:
        emit_json(answer)
    elif not aborted:
        typer.echo(json.dumps(outcome) if why is None else repr(outcome))
    if aborted and as_json:
        raise typer.Exit(1)
    if aborted:
        fail(1, f"aborted: {outcome}")
