"""The client of a transactional job for asyncio: one thread has the log, and any number of tasks call.

Guarantees of ids: docs/transactions.md, "Request ids".
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

from nodes.errors import MissingDependency, RunFailed, SettingsError, UnknownName, Unreachable
from nodes.log import Log, LogError
from nodes.log.contract import RecordTooLarge
from nodes.transactions.clients.client import BadReply, RepliesTrimmed, TransactionClient, never_ran, result_of
from nodes.transactions.clients.request_ids import NoReply
from nodes.transactions.clients.running_time import within
from transactional.errors import Aborted, BadArguments, by_name
from transactional.requests.requests import WireRequest, sendable

_NONE_YET = "?"
_POLL_S = 0.002
"""While replies are awaited, new calls wait at most so long."""
_RETRY_S = 0.5
"""A log that failed is opened again after so long, or upon a call."""
_CHECK_S = 5.0
_FAILURES = (LogError, RunFailed, SettingsError, UnknownName, Unreachable, MissingDependency, OSError)


@dataclass(slots=True, eq=False)
class _Call:
    """A call on its way to the thread, which gives it an id where the caller has none, and ``since``.

    ``is_left``: its caller is gone, and the thread sends it no more. Both under ``lock``.
    """

    request: WireRequest
    reply: asyncio.Future[Any]
    since: int | None = None
    is_left: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True, eq=False)
class _Left:
    """A caller waits no longer."""

    call: _Call


@dataclass(slots=True, eq=False)
class _NewId:
    """A caller wants an id."""

    reply: asyncio.Future[Any]


@dataclass(slots=True, eq=False)
class _Check:
    """A caller wants to know whether the log answers."""

    reply: asyncio.Future[Any]


_Command = _Call | _Left | _NewId | _Check


@dataclass(slots=True)
class _InFlight:
    """A request in flight, and the callers that wait for its reply."""

    request: WireRequest
    waiting: list[asyncio.Future[Any]] = field(default_factory=list)


class _LogAway(Exception):
    """The log has failed while a reply was awaited."""


class AsyncTransactionClient:
    """``async with AsyncTransactionClient(open_log) as client: await client.call(...)``.

    ``open_log`` opens the log, in the client's own thread. Raises what that raises, or ``UnknownName``. A log that
    fails later is opened again until it works; ``check`` raises while it does not. ``errors``: as for
    ``TransactionClient``.
    """

    def __init__(
        self, open_log: Callable[[], Log], job: str | None = None, errors: Iterable[type[Exception]] = ()
    ) -> None:
        self._open_log = open_log
        self._errors = by_name(errors)
        self._job = job
        self._calls: queue.SimpleQueue[_Command | None] = queue.SimpleQueue()
        self._in_flight: dict[str, _InFlight] = {}
        self._later: deque[_Call] = deque()
        self._failed: Exception | None = None
        self._problem: str | None = None  # what is wrong with the log, as far as is known
        self._opened = False
        self._first: _Command | None = None  # who waits for the log to be opened again
        self._thread = threading.Thread(target=self._run, name="holon-transactions", daemon=True)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()
        await self._ready
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._calls.put(None)
        await asyncio.to_thread(self._thread.join)

    async def call(
        self,
        operator: str,
        key: str,
        function: str,
        args: Any = None,
        *,
        request_id: str | None = None,
        since: int | None = None,
        timeout_s: float = 30.0,
    ) -> Any:
        """As ``TransactionClient.call``, and raises what that raises. Calls with one id at once get one reply."""
        outcome = await self.try_call(
            operator, key, function, args, request_id=request_id, since=since, timeout_s=timeout_s
        )
        return result_of(outcome, self._errors)

    async def try_call(
        self,
        operator: str,
        key: str,
        function: str,
        args: Any = None,
        *,
        request_id: str | None = None,
        since: int | None = None,
        timeout_s: float = 30.0,
    ) -> Any | Aborted:
        """As ``call``, where a transaction that was aborted is a value: ``Aborted``."""
        wire = WireRequest(_NONE_YET if request_id is None else request_id, operator, key, function, args, since)
        request, end = sendable(wire), self._loop.time() + timeout_s
        if request_id is None:
            request.id = ""
        while True:
            outcome = await self._call(copy(request), end, timeout_s)
            if request_id is not None or not never_ran(outcome):
                return outcome

    async def new_id(self, timeout_s: float = 30.0) -> str:
        """As ``TransactionClient.new_id``. Raises ``Unreachable`` where the log does not return its end in time."""
        reply: asyncio.Future[str] = self._loop.create_future()
        self._calls.put(_NewId(reply))
        if self._failed is not None:
            raise self._failed
        try:
            return await asyncio.wait_for(reply, timeout_s)
        except TimeoutError:
            raise Unreachable(f"no id was made in {timeout_s:g} s: the log does not answer") from None
        except _LogAway as error:
            raise Unreachable(f"no id was made: {error}") from None

    async def check(self, timeout_s: float = _CHECK_S) -> str | None:
        """Why calls cannot be answered now; None: requests were written, if any, and the log answers."""
        if self._failed is None:
            reply: asyncio.Future[str | None] = self._loop.create_future()
            self._calls.put(_Check(reply))
            try:
                return await within(reply, timeout_s)
            except TimeoutError:
                return self._problem or f"the log has not answered for {timeout_s:g} s"
            except _FAILURES as error:
                return str(error)
        return str(self._failed)

    async def _call(self, request: WireRequest, end: float, timeout_s: float) -> Any:
        call = _Call(request, self._loop.create_future())
        self._calls.put(call)
        if self._failed is not None:
            raise self._failed
        try:
            return await asyncio.wait_for(call.reply, end - self._loop.time())
        except TimeoutError:
            with call.lock:
                call.is_left = True
            self._calls.put(_Left(call))
            if call.since is None:
                raise Unreachable(f"a request was not sent within {timeout_s:g} s, and will not be") from None
            text = f"no reply to request {call.request.id} in {timeout_s:g} s; do nodes run?"
            raise NoReply(text, call.request.id, call.since) from None
        except _LogAway as error:
            if call.since is None:
                raise Unreachable(f"{error}; the request was not sent") from None
            raise NoReply(f"no reply to request {call.request.id}: {error}.", call.request.id, call.since) from None

    # --- in the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._serve():
                pass
        except _FAILURES as error:
            self._fail(error)
        except BaseException as error:
            self._fail(RunFailed(f"the client of transactions has failed, and answers no more: {error!r}"))
            raise

    def _serve(self) -> bool:
        """Open the log and answer until it is time to end. False if the log has failed: it may work again."""
        try:
            with self._open_log() as log:
                log.prefer_latency()
                client = TransactionClient(log, self._job)
                if self._problem is not None:
                    client.check_writing()  # a full disk can be read
                    self._problem = None
                self._opened = True
                self._resolve(self._ready, None, None)
                while self._turn(client):
                    pass
                return True
        except _FAILURES as error:
            if not self._opened:
                raise
            return not self._interrupted(error)

    def _interrupted(self, error: Exception) -> bool:
        """Fail all waiting calls, and wait until the log is worth to be opened again; False if it is time to end."""
        self._problem = str(error) or repr(error)
        unreachable = _LogAway(self._problem)
        self._give_up(unreachable)
        for call in (*self._later, *([] if isinstance(self._first, _Left | _Check | None) else [self._first])):
            self._resolve(call.reply, None, unreachable)
        self._later.clear()
        self._first = None
        until_s = time.monotonic() + _RETRY_S
        while True:
            try:
                first = self._calls.get(timeout=max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                return True
            if isinstance(first, _Check):
                self._resolve(first.reply, self._problem, None)
            elif not isinstance(first, _Left):
                self._first = first
                return first is not None

    def _turn(self, client: TransactionClient) -> bool:
        """Take new calls, send them together, read replies; False when it is time to end."""
        new = self._taken()
        for at, each in enumerate(new):
            try:
                self._begin(client, each)
            except BaseException as error:
                self._give_back(new[at:], f"{error}" if isinstance(error, _FAILURES) else repr(error))
                raise
        if None in new:
            self._fail(Unreachable("the client was closed before the reply"))
            return False
        self._send(client, self._fresh())
        if self._in_flight:
            try:
                client.receive(_POLL_S)
            except RepliesTrimmed as error:
                self._give_up(error)
            for name, outcome in client.take_all():
                in_flight = self._in_flight.pop(name, None)
                for reply in () if in_flight is None else in_flight.waiting:
                    self._resolve(reply, outcome, outcome if isinstance(outcome, BadReply) else None)
        return True

    def _begin(self, client: TransactionClient, command: _Command | None) -> None:
        if isinstance(command, _Left):
            self._abandon(client, command.call.request.id)
        elif isinstance(command, _NewId):
            self._resolve(command.reply, client.new_id(), None)
        elif isinstance(command, _Check):
            client.check()
            self._resolve(command.reply, None, None)
        elif command is not None and self._is_named(client, command):
            self._later.append(command)

    def _give_back(self, commands: Sequence[_Command | None], why: str) -> None:
        """The log has failed before it was their turn."""
        for command in commands:
            if command is None:
                self._calls.put(None)
            elif isinstance(command, _Check):
                self._resolve(command.reply, why, None)
            elif not isinstance(command, _Left):
                self._resolve(command.reply, None, _LogAway(why))

    def _send(self, client: TransactionClient, requests: list[WireRequest]) -> None:
        """Those that no record of the log can hold are refused, and no others."""
        if not requests:
            return
        try:
            client.send_all(requests)
        except RecordTooLarge:
            for request in requests:  # of what was sent already, the same id has the same reply
                self._send_alone(client, request)

    def _send_alone(self, client: TransactionClient, request: WireRequest) -> None:
        try:
            client.send_request(request)
        except RecordTooLarge as error:
            client.forget(request.id)
            for reply in self._in_flight.pop(request.id).waiting:
                self._resolve(reply, None, BadArguments(f"the call is too large: {error}"))

    def _taken(self) -> list[_Command | None]:
        """The calls of callers; waits for them where nothing else is to be done."""
        first, self._first = self._first, None
        new: list[_Command | None] = [] if first is None else [first]
        if not (new or self._in_flight or self._later):
            new.append(self._calls.get())
        while not self._calls.empty():
            new.append(self._calls.get())
        return new

    def _is_named(self, client: TransactionClient, call: _Call) -> bool:
        """Give the call what it needs for a retry; False: it is not to be sent."""
        name = call.request.id or client.new_id()
        since = client.first_since(name) if call.request.since is None else call.request.since
        with call.lock:
            if call.is_left:
                return False
            call.request.id, call.since = name, since
        return True

    def _fresh(self) -> list[WireRequest]:
        """The requests to send now. The same id with the same call joins; with another call it waits for its turn."""
        fresh, waiting = [], self._later
        self._later = deque()
        for call in waiting:
            in_flight = self._in_flight.get(call.request.id)
            if in_flight is None:
                self._in_flight[call.request.id] = _InFlight(call.request, [call.reply])
                fresh.append(call.request)
            elif in_flight.request == call.request:
                in_flight.waiting.append(call.reply)
            else:
                self._later.append(call)
        return fresh

    def _abandon(self, client: TransactionClient, name: str) -> None:
        """A caller waits no longer; a request without a waiting caller is forgotten."""
        in_flight = self._in_flight.get(name)
        if in_flight is not None:
            in_flight.waiting = [reply for reply in in_flight.waiting if not reply.done()]
            if not in_flight.waiting:
                del self._in_flight[name]
                client.forget(name)
        self._later = deque(each for each in self._later if not each.reply.done())

    def _give_up(self, error: Exception) -> None:
        """Their replies may be gone; requests from now on are answered."""
        for in_flight in self._in_flight.values():
            for reply in in_flight.waiting:
                self._resolve(reply, None, error)
        self._in_flight.clear()

    def _fail(self, error: Exception) -> None:
        self._failed = error
        waiting = [reply for in_flight in self._in_flight.values() for reply in in_flight.waiting]
        waiting += [call.reply for call in self._later]
        while not self._calls.empty():
            call = self._calls.get()
            if isinstance(call, _Call | _NewId | _Check):
                waiting.append(call.reply)
        for reply in (self._ready, *waiting):
            self._resolve(reply, None, error)

    def _resolve(self, reply: asyncio.Future[Any], outcome: Any, error: Exception | None) -> None:
        def resolve() -> None:
            if reply.done():
                return
            if error is None:
                reply.set_result(outcome)
            else:
                reply.set_exception(error)

        self._loop.call_soon_threadsafe(resolve)
