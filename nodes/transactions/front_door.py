"""The HTTP front door of a transactional job, for clients in any language: ``POST /v1/call``.

Two rules for this file: a request whose Host nobody allowed, or that a web page makes, is refused; and whoever repeats
a request under the same id gets the same reply, since the id goes to the log as it is (docs/transactions.md,
"Request ids").
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nodes.errors import Unreachable
from nodes.transactions.aio import AsyncTransactionClient
from nodes.transactions.client import never_ran
from nodes.transactions.openapi import OPENAPI
from nodes.transactions.request_ids import NoReply
from transactional.errors import Aborted, BadArguments
from transactional.requests import TOO_OLD, WRONG_PARTITION
from transactional.values import fits_json

MAX_BODY_BYTES = 1 << 20
MOST_AT_ONCE = 10_000
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


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a call. ``timeout_s``: how long to wait for the reply. ``since``: of an id that was tried before."""

    operator: str
    key: str
    function: str
    args: Any = None
    id: str | None = None
    since: int | None = None
    timeout_s: float = 30.0


_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_asked = msgspec.json.Decoder(Asked)


class FrontDoor:
    """Answers over ``client``. ``token`` is asked for as ``Authorization: Bearer TOKEN``; None asks for nothing.

    ``names`` are Host names that are answered beside this machine's own; where a token is asked for, all are.
    """

    def __init__(self, client: AsyncTransactionClient, *, token: str | None, names: Collection[str] = ()) -> None:
        self._client = client
        self._token = token
        self._names = frozenset(name.lower() for name in (*LOCAL_NAMES, *names))
        self._at_once = 0
        self.app = Starlette(
            routes=[
                Route("/v1/call", self.call, methods=["POST"]),
                Route("/v1/id", self.make_id, methods=["POST"]),
                Route("/openapi.json", self.describe, methods=["GET"]),
                Route("/healthz", self.live, methods=["GET"]),
            ]
        )

    async def live(self, request: Request) -> Response:
        """The server answers."""
        return self._refusal(request) or _json(200, {"status": "ok"})

    async def describe(self, request: Request) -> Response:
        """What can be asked, as OpenAPI 3.1."""
        return self._refusal(request) or _json(200, OPENAPI)

    async def make_id(self, request: Request) -> Response:
        """An id for a call and its retries, for callers that want to know it before they ask."""
        return self._refusal(request) or _json(200, {"id": await self._client.new_id()})

    async def call(self, request: Request) -> Response:
        """One transaction."""
        refused = self._refusal(request) or self._not_json(request)
        if refused is not None:
            return refused
        if self._at_once >= MOST_AT_ONCE:
            return _error(503, f"{MOST_AT_ONCE} calls are under way; try again")
        self._at_once += 1
        try:
            return await self._answer(request)
        finally:
            self._at_once -= 1

    async def _answer(self, request: Request) -> Response:
        body = await _body(request)
        if body is None:
            return _error(413, f"a body has at most {MAX_BODY_BYTES} bytes")
        try:
            asked = _asked.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return _error(422, f"the body is no call: {error}")
        if not 0 < asked.timeout_s <= 300:
            return _error(422, f"timeout_s lies between 0 and 300, and is {asked.timeout_s:g}")
        key = request.headers.get("Idempotency-Key")
        if key is not None and asked.id not in (None, key):
            return _error(422, "Idempotency-Key and id differ")
        given = asked.id or key
        while True:
            name = given or await self._client.new_id()
            try:
                outcome = await self._client.call(
                    asked.operator,
                    asked.key,
                    asked.function,
                    asked.args,
                    request_id=name,
                    since=asked.since,
                    timeout_s=asked.timeout_s,
                )
            except NoReply as error:
                return _json(504, {"id": name, "since": error.since, "error": str(error)})
            except Unreachable as error:
                return _json(504, {"id": name, "error": str(error)})
            except BadArguments as error:
                outcome = Aborted("BadArguments", (str(error),))
            if given or not never_ran(outcome):
                return _said(request, name, outcome)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("Host", "").lower()
        name = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        if self._token is None and name not in self._names:
            return _error(421, "this Host is not served (--allow-host)")
        if request.headers.get("Origin") is not None:
            return _error(403, "no web page may ask here")
        if self._token is not None:
            shown = request.headers.get("Authorization", "").encode()
            if not hmac.compare_digest(shown, b"Bearer " + self._token.encode()):
                response = _error(401, "Authorization: Bearer TOKEN is needed")
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


def _said(request: Request, name: str, outcome: Any) -> Response:
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
    text = f"the transaction {ended} cannot be said in JSON: {why}. Ask again with this id"
    return _json(406, {"id": name, "error": f"{text} and Accept: application/msgpack"})


def _json(status: int, content: Any) -> Response:
    return Response(msgspec.json.encode(content), status, _HEADERS, "application/json")


def _error(status: int, why: str) -> Response:
    return _json(status, {"error": why})
