"""An HTTP proxy in front of an object store, which answers badly, late, twice or not at all where it is told to."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

_PLENTY_S = 60.0


class Fault(Enum):
    """The action on a request."""

    NONE = "passed on and answered"
    HANG = "neither passed on nor answered"
    LOST_ANSWER = "passed on, answered by silence"
    CUT_ANSWER = "passed on, then the connection is closed"
    TORN_ANSWER = "passed on, the connection is closed in the middle of the answer"
    HELD = "passed on and answered once the test releases it"


class Refused(NamedTuple):
    """The request is not passed on; this is the answer."""

    status: int
    code: str


Plan = Callable[[str, str], Fault | Refused]


class StoreProxy:
    """Passes everything on to ``port`` but what ``plan(method, path)`` says; ``plan`` may be set at any time."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.plan: Plan = lambda method, path: Fault.NONE
        self.seen: list[tuple[str, str, object]] = []
        self.released = threading.Event()
        self.closed = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, BrokenPipeError):
                    self.close_connection = True

            def _handle(self) -> None:
                outer._handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def once(self, method: str, *faults: Fault | Refused) -> None:
        """The next requests of this method meet these faults, one each; everything else passes."""
        left = list(faults)
        lock = threading.Lock()

        def plan(asked: str, path: str) -> Fault | Refused:
            with lock:
                return left.pop(0) if asked == method and left else Fault.NONE

        self.plan = plan

    def always(self, fault: Fault | Refused) -> None:
        """Every request meets this fault, until ``heal``."""
        self.plan = lambda method, path: fault

    def heal(self) -> None:
        self.plan = lambda method, path: Fault.NONE

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        fault = self.plan(request.command, request.path)
        self.seen.append((request.command, request.path, fault))
        if isinstance(fault, Refused):
            text = f"<Error><Code>{fault.code}</Code><Message>planted</Message></Error>".encode()
            _answer(request, fault.status, [("Content-Type", "application/xml")], text)
            return
        if fault is Fault.HANG:
            self._be_silent(request)
            return
        status, headers, answer = self._forward(request, body)
        if fault is Fault.HELD:
            self.released.wait(_PLENTY_S)
        if fault is Fault.LOST_ANSWER:
            self._be_silent(request)
        elif fault is Fault.CUT_ANSWER:
            request.close_connection = True
        elif fault is Fault.TORN_ANSWER:
            _answer(request, status, headers, answer, sent=len(answer) // 2)
            request.close_connection = True
        else:
            _answer(request, status, headers, answer)

    def _be_silent(self, request: BaseHTTPRequestHandler) -> None:
        self.closed.wait(_PLENTY_S)
        request.close_connection = True

    def _forward(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=_PLENTY_S)
        connection.request(request.command, request.path, body, dict(request.headers.items()))
        answer = connection.getresponse()
        found = answer.status, answer.getheaders(), answer.read()
        connection.close()
        return found

    def close(self) -> None:
        self.closed.set()
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answer(
    request: BaseHTTPRequestHandler,
    status: int,
    headers: list[tuple[str, str]],
    body: bytes,
    sent: int | None = None,
) -> None:
    request.send_response(status)
    length = str(len(body))
    for name, value in headers:
        if name.lower() == "content-length" and request.command == "HEAD":
            length = value
        elif name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
            request.send_header(name, value)
    request.send_header("Content-Length", length)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body[:sent])
