"""The HTTP server of one node: ``/metrics``, ``/healthz``, ``/readyz``. A daemon thread serves it; it only reads.

Two rules for this file. A request from another machine needs the token. A request whose Host is a name that nobody
allowed is refused, so that a web page cannot reach a node through its reader's browser (DNS rebinding). Connections and
their time are bounded before any of that is looked at.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from nodes.errors import MissingDependency, RunFailed
from nodes.metrics.health import Health
from nodes.runtime.failed_tokens import FailedTokens

logger = logging.getLogger(__name__)

REQUEST_S = 5.0
CONNECTION_S = 20.0
"""A connection, which is for one request, is open for so long, however slowly its bytes come."""
SERVICE_S = 0.5
"""How often connections that have lasted too long are ended."""
MOST_AT_ONCE = 8
MOST_CONNECTIONS = 64
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


class HttpReply(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Pages:
    """The figures that the server shows. ``metrics`` gets the Accept header, and gives text and content type."""

    metrics: Callable[[str], tuple[bytes, str]]
    live: Callable[[], Health]
    ready: Callable[[], Health]


class MetricsServer:
    """Serves ``pages`` on ``host:port`` (0: a free one, see ``address``) until ``close``.

    Args: ``token`` is required as ``Authorization: Bearer TOKEN``; None requires nothing. ``names`` are Host names
    that are answered beside this machine's own; literal addresses are answered where a token is required.
    Raises ``RunFailed`` where the port is taken or the host is none of this machine's.
    """

    def __init__(self, pages: Pages, host: str, port: int, token: str | None, names: Collection[str] = ()) -> None:
        self.pages = pages
        self.token = token
        self.names = frozenset(name.lower() for name in (*LOCAL_NAMES, host, *names))
        self._free = threading.Semaphore(MOST_AT_ONCE)
        self.failed_tokens = FailedTokens()
        kind = BoundedServer6 if ":" in host else BoundedServer
        try:
            self._http = kind((host, port), _Handler)
        except OSError as error:
            raise RunFailed(f"metrics.host = {host}, metrics.port = {port}: cannot listen there: {error}") from error
        self._http.owner = self
        self._close_requested, self._waking = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, name="holon-metrics", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._http.server_address[:2]
        return str(host), int(port)

    @property
    def url(self) -> str:
        host, port = self.address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return self._http.connections

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop listening; safe to call twice."""
        self._waking.close()
        if self._thread.is_alive():
            self._thread.join(timeout=2)
        self._http.server_close()
        self._close_requested.close()

    def _serve(self) -> None:
        """As ``serve_forever``, which would notice the end half a second late."""
        with selectors.DefaultSelector() as selector:
            for each in (self._http, self._close_requested):
                selector.register(each, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(SERVICE_S)}
                if self._close_requested in ready:
                    return
                if ready:
                    self._http.handle_request()
                self._http.service_actions()

    def answer(self, path: str, headers: _Headers) -> HttpReply:
        """The reply to a GET; never raises."""
        if (refused := self._refusal(headers)) is not None:
            if refused.status is HTTPStatus.UNAUTHORIZED:
                time.sleep(self.failed_tokens.wait_s())
            return refused
        if not self._free.acquire(blocking=False):
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, f"more than {MOST_AT_ONCE} requests at once")
        try:
            return self._page(path.partition("?")[0], headers)
        finally:
            self._free.release()

    def _refusal(self, headers: _Headers) -> HttpReply | None:
        host = _host_name(headers.get("Host") or "")
        if host not in self.names and not (self.token is not None and _is_address(host)):
            return _refused(HTTPStatus.MISDIRECTED_REQUEST, "this Host is not served (metrics.allowed_hosts)")
        if headers.get("Origin") is not None:
            return _refused(HTTPStatus.FORBIDDEN, "requests of web pages are refused")
        if self.token is not None:
            shown = (headers.get("Authorization") or "").encode()
            if not hmac.compare_digest(shown, b"Bearer " + self.token.encode()):
                return _refused(HTTPStatus.UNAUTHORIZED, "Authorization: Bearer TOKEN is needed (metrics.token)")
        return None

    def _page(self, path: str, headers: _Headers) -> HttpReply:
        match path:
            case "/metrics":
                try:
                    return HttpReply(HTTPStatus.OK, *self.pages.metrics(headers.get("Accept") or ""))
                except MissingDependency as error:
                    return _refused(HTTPStatus.NOT_IMPLEMENTED, str(error))
            case "/healthz":
                return _health(self.pages.live())
            case "/readyz":
                return _health(self.pages.ready())
            case _:
                return _refused(HTTPStatus.NOT_FOUND, "there are /metrics, /healthz and /readyz")


class _Headers:
    """The one thing that is needed of a request's headers, for the type checker."""

    def __init__(self, get: Callable[[str], str | None]) -> None:
        self.get = get


class BoundedServer(ThreadingHTTPServer):
    """Has few connections at once, each for a while."""

    daemon_threads = True
    timeout = 0.0  # ``handle_request`` waits for nothing
    owner: MetricsServer
    most_connections = MOST_CONNECTIONS
    connection_s = CONNECTION_S

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._until_s: dict[socket.socket, float] = {}
        self._counting = threading.Lock()
        super().__init__(address, handler)

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._until_s)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # pyright: ignore
        """In a thread of its own, unless all connections are taken: then it is closed."""
        with self._counting:
            is_taken = len(self._until_s) >= self.most_connections
            if not is_taken:
                self._until_s[request] = time.monotonic() + self.connection_s
        if is_taken:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # pyright: ignore
        """At the end of each."""
        with self._counting:
            self._until_s.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Twice a second: end what has lasted too long."""
        now_s = time.monotonic()
        with self._counting:
            late = [each for each, until_s in self._until_s.items() if until_s < now_s]
            for each in late:
                self._until_s.pop(each)
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)  # its reader gets the end of the stream

    def handle_error(self, request: object, client_address: object) -> None:
        logger.debug("metrics: a request from %s was broken off", client_address, exc_info=True)


class BoundedServer6(BoundedServer):
    """The same for addresses of IPv6."""

    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_S
    server_version = "holon"
    sys_version = ""
    server: BoundedServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        reply = self.server.owner.answer(self.path, _Headers(self.headers.get))
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if reply.status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:
        logger.debug("metrics: %s " + format, self.address_string(), *args)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _host_name(header: str) -> str:
    """Without the port and without brackets, in small letters."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _health(health: Health) -> HttpReply:
    status = HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE
    text = {"status": "ok" if health.ok else "failing", "problems": list(health.problems)}
    return HttpReply(status, json.dumps(text).encode() + b"\n")


def _refused(status: HTTPStatus, why: str) -> HttpReply:
    return HttpReply(status, json.dumps({"error": why}).encode() + b"\n")
