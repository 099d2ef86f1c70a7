"""Calls of a transactional job through its HTTP gateway, as ``holon txn call --gateway`` makes them."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

import msgspec

from nodes.errors import RunFailed, SettingsError, Unreachable
from nodes.transactions.clients.request_ids import NoReply
from transactional.errors import Aborted, BadArguments
from transactional.requests.requests import WireRequest, sendable

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MORE_S = 10.0
"""The gateway ends a call itself; what takes so much longer is none of its answers."""
_MOST_BYTES = 64 << 20


class _GatewayAnswer(msgspec.Struct):
    id: str = ""
    result: Any = None
    aborted: str | None = None
    arguments: list[Any] = []
    fields: dict[str, Any] = {}
    error: str | None = None
    since: int | None = None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """The token goes nowhere else."""


class GatewayCalls:
    """Calls through the gateway at ``url``, with ``token`` if one is required.

    Raises ``SettingsError`` for what is no address of HTTP.
    """

    def __init__(self, url: str, token: str | None) -> None:
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            is_wrong = parts.scheme not in ("http", "https") or not host or parts.username is not None
            assert parts.port != 0
        except (ValueError, AssertionError):
            is_wrong = True
        if is_wrong:
            raise SettingsError(f"--gateway {url} is no address like http://127.0.0.1:8765")
        self.url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json", "Accept": "application/msgpack, application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        proxies = urllib.request.ProxyHandler({} if is_loopback(url) else None)
        self._opener = urllib.request.build_opener(proxies, _NoRedirects)

    def call(self, request: WireRequest, timeout_s: float) -> Any:
        """As ``TransactionClient.call``; an empty id: the gateway makes one.

        Raises ``BadArguments``, ``NoReply``, ``Unreachable``, and ``RunFailed`` for what the gateway refuses.
        """
        name = request.id or None
        request = sendable(msgspec.structs.replace(request, id=request.id or "new"))
        if request.packed is not None:
            raise BadArguments(
                f"{request.operator}.{request.function}: JSON, and so the gateway, would change the arguments"
            )
        call: dict[str, Any] = {"operator": request.operator, "key": request.key, "function": request.function}
        call |= {"args": request.args, "id": name, "since": request.since, "timeout_s": timeout_s}
        status, answer = self._post(msgspec.json.encode(call), timeout_s + _MORE_S)
        if answer.aborted is not None:
            return Aborted(
                answer.aborted, (*answer.arguments, answer.fields) if answer.fields else tuple(answer.arguments)
            )
        if status == 200:
            return answer.result
        text = f"the gateway {self.url} answers {status}: {answer.error}"
        if status == 504 and answer.since is not None:
            raise NoReply(f"{text}.", answer.id, answer.since)
        if status in (503, 504):
            raise Unreachable(text)
        if status in (413, 422):
            raise BadArguments(text)
        if status == 401:
            text += " (--token-file FILE; the file of the user that has started the gateway)"
        raise RunFailed(text)

    def _post(self, body: bytes, timeout_s: float) -> tuple[int, _GatewayAnswer]:
        http_request = urllib.request.Request(f"{self.url}/v1/call", body, self._headers)
        try:
            try:
                with self._opener.open(http_request, timeout=timeout_s) as reply:
                    return reply.status, _decoded(reply.headers.get("Content-Type", ""), reply.read(_MOST_BYTES))
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, _decoded(error.headers.get("Content-Type", ""), error.read(_MOST_BYTES))
        except (urllib.error.URLError, HTTPException, OSError) as error:
            raise Unreachable(
                f"the gateway {self.url} cannot be called: {error}; does `holon txn serve` run?"
            ) from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RunFailed(f"what answers at {self.url} is no gateway of Holon: {error}") from None


def is_loopback(url: str) -> bool:
    """Whether requests go to this machine: no other one is shown the shared token."""
    try:
        return urlsplit(url).hostname in LOOPBACK
    except ValueError:
        return False


def _decoded(kind: str, data: bytes) -> _GatewayAnswer:
    decode = msgspec.msgpack.decode if "msgpack" in kind else msgspec.json.decode
    return decode(data, type=_GatewayAnswer)
