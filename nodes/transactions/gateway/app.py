"""The HTTP gateway of a transactional job, for clients in any language: ``POST /v1/call``.

Two rules for this file. A request without the token, whose Host was not allowed, or that a web page makes, is refused
before anything else is read. A request that is repeated under the same id gets the same reply, since the id goes to the
log as it is (docs/transactions.md, "Request ids").
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Collection
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from nodes.errors import RunFailed, Unreachable
from nodes.log import LogError
from nodes.runtime.failed_tokens import FailedTokens
from nodes.transactions.clients.asyncio_client import AsyncTransactionClient
from nodes.transactions.clients.client import BadReply, never_ran
from nodes.transactions.clients.request_ids import NoReply
from nodes.transactions.gateway.openapi import OPENAPI
from transactional.errors import Aborted, BadArguments
from transactional.requests.requests import TOO_OLD, WRONG_PARTITION
from transactional.state.values import fits_json

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 1 << 20
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
_STATUS = {
    "UnknownFunction": 404,
    "BadArguments": 422,
    "BadValue": 422,
    "MalformedRequest": 422,
    "RequestIdReused": 422,
    WRONG_PARTITION: 422,
    TOO_OLD: 410,
    "RequestExpired": 410,
}


class CallBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a call. ``timeout_s``: how long to wait for the reply. ``since``: of an id that was tried before."""

    operator: str
    key: str
    function: str
    args: Any = None
    id: str | None = None
    since: int | None = None
    timeout_s: float = 30.0


_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_AWAY = (Unreachable, LogError, RunFailed)
_body_decoder = msgspec.json.Decoder(CallBody)


class HttpGateway:
    """Answers over ``client``. ``token`` is required as ``Authorization: Bearer TOKEN``; None requires nothing.

    ``names`` are Host names that are answered beside this machine's own; where a token is required, all are.
    """

    def __init__(self, client: AsyncTransactionClient, *, token: str | None, names: Collection[str] = ()) -> None:
        self._client = client
        self._token = token
        self._names = frozenset(name.lower() for name in (*LOCAL_NAMES, *names))
        self.failed_tokens = FailedTokens()
        self._routes = Starlette(
            routes=[
                Route("/v1/call", self.call, methods=["POST"]),
                Route("/v1/id", self.make_id, methods=["POST"]),
                Route("/openapi.json", self.describe, methods=["GET"]),
                Route("/healthz", self.live, methods=["GET"]),
            ]
        )
        self._routes.router.redirect_slashes = False  # it would repeat whatever Host was sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, for an ASGI server."""
        if scope["type"] != "http":
            return
        try:
            refused = await self._refusal(Request(scope))
            await (refused or self._routes)(scope, receive, send)
        except ClientDisconnect:
            logger.info("a client at %s has left before its request was whole", scope.get("client"))

    async def live(self, request: Request) -> Response:
        """Whether calls can be answered: the log is there, and took what was written last."""
        problem = await self._client.check()
        status = {"status": "ok" if problem is None else "failing", "problems": [] if problem is None else [problem]}
        return _json(200 if problem is None else 503, status)

    async def describe(self, request: Request) -> Response:
        """The gateway's requests, as OpenAPI 3.1."""
        return _json(200, OPENAPI)

    async def make_id(self, request: Request) -> Response:
        """An id for a call and its retries, for callers that want to know it before they call."""
        try:
            return _json(200, {"id": await self._client.new_id()})
        except _AWAY as error:
            return _error(503, str(error))

    async def call(self, request: Request) -> Response:
        """One transaction."""
        return self._not_json(request) or await self._answer(request)

    async def _answer(self, request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _error(413, f"a body has at most {MAX_BODY_BYTES} bytes")
        try:
            call = _body_decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return _error(422, f"the body is no call: {error}")
        if not 0 < call.timeout_s <= 300:
            return _error(422, f"timeout_s lies between 0 and 300, and is {call.timeout_s:g}")
        key = request.headers.get("Idempotency-Key")
        if key is not None and call.id not in (None, key):
            return _error(422, "Idempotency-Key and id differ")
        given = key if call.id is None else call.id
        while True:
            try:
                name = await self._client.new_id(call.timeout_s) if given is None else given
            except _AWAY as error:
                return _error(503, f"nothing was sent: {error}")
            try:
                outcome = await self._client.try_call(
                    call.operator,
                    call.key,
                    call.function,
                    call.args,
                    request_id=name,
                    since=call.since,
                    timeout_s=call.timeout_s,
                )
            except NoReply as error:
                return _json(504, {"id": name, "since": error.since, "error": str(error)})
            except BadReply as error:
                return _json(502, {"id": name, "error": str(error)})
            except _AWAY as error:
                return _json(504, {"id": name, "error": str(error)})
            except BadArguments as error:
                outcome = Aborted("BadArguments", (str(error),))
            if given is not None or not never_ran(outcome):
                return _ended(request, name, outcome)

    async def _refusal(self, request: Request) -> Response | None:
        if "Transfer-Encoding" in request.headers and "Content-Length" in request.headers:
            # A proxy between may take the body to end elsewhere, and the rest for a request.
            return _closing(400, "Content-Length and Transfer-Encoding contradict each other")
        host = request.headers.get("Host", "").lower()
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        if self._token is None and name not in self._names:
            return _error(421, "this Host is not served (--allow-host)")
        if request.headers.get("Origin") is not None:
            return _error(403, "no web page may call here")
        if self._token is not None:
            shown = request.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(shown, b"Bearer " + self._token.encode()):
                await asyncio.sleep(self.failed_tokens.wait_s())
                response = _closing(401, "Authorization: Bearer TOKEN is needed")
                response.headers["WWW-Authenticate"] = "Bearer"
                return response
        return None

    def _not_json(self, request: Request) -> Response | None:
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        return None if kind == "application/json" else _error(415, "Content-Type is application/json")


async def _body(request: Request) -> bytes | None:
    """None if it is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _ended(request: Request, name: str, outcome: Any) -> Response:
    """The outcome in JSON, where that keeps it, or in MessagePack, where the caller takes that."""
    status, content, ended = 200, {"id": name, "result": outcome}, "has committed, and its result"
    if isinstance(outcome, Aborted):
        status, ended = _STATUS.get(outcome.kind, 409), f"was aborted ({outcome.kind}), and the reason"
        content = {"id": name, "aborted": outcome.kind, "arguments": list(outcome.plain_arguments)}
        if outcome.fields:
            content["fields"] = outcome.fields
    if "application/msgpack" in request.headers.get("Accept", ""):
        return Response(msgspec.msgpack.encode(content), status, _HEADERS, "application/msgpack")
    why = fits_json(content)
    if why is None:
        return _json(status, content)
    text = f"the transaction {ended} cannot be expressed in JSON: {why}. Retry with this id"
    return _json(406, {"id": name, "error": f"{text} and Accept: application/msgpack"})


def _json(status: int, content: Any) -> Response:
    return Response(msgspec.json.encode(content), status, _HEADERS, "application/json")


def _error(status: int, why: str) -> Response:
    return _json(status, {"error": why})


def _closing(status: int, why: str) -> Response:
    """An error after which nothing more is read of the connection."""
    response = _error(status, why)
    response.headers["Connection"] = "close"
    return response
