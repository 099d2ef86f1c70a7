"""The client of a transactional job for asyncio: one thread has the log, and any number of tasks call.

What ids promise: docs/transactions.md, "Request ids".
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

from nodes.errors import RunFailed, SettingsError, UnknownName, Unreachable
from nodes.log import Log, LogError, LogUnavailable
from nodes.transactions.client import RepliesTrimmed, TransactionClient, never_ran
from nodes.transactions.request_ids import NoReply
from transactional.requests import WireRequest, sendable

_NONE_YET = "?"
_POLL_S = 0.002
"""While replies are awaited, new calls wait at most so long."""


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
    """Somebody wants an id."""

    reply: asyncio.Future[Any]


@dataclass(slots=True)
class _Asked:
    """A request on its way, and who waits for its reply."""

    request: WireRequest
    waiting: list[asyncio.Future[Any]] = field(default_factory=list)


class _LogAway(Exception):
    """The log went away while a reply was awaited."""


class AsyncTransactionClient:
    """``async with AsyncTransactionClient(open_log) as client: await client.call(...)``.

    ``open_log`` opens the log, in the client's own thread. Raises what that raises, or ``UnknownName``.
    """

    def __init__(self, open_log: Callable[[], Log], job: str | None = None) -> None:
        self._open_log = open_log
        self._job = job
        self._calls: queue.SimpleQueue[_Call | _Left | _NewId | None] = queue.SimpleQueue()
        self._asked: dict[str, _Asked] = {}
        self._later: deque[_Call] = deque()
        self._failed: Exception | None = None
        self._opened = False
        self._first: _Call | _Left | _NewId | None = None  # what made it worth to open the log again
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
        """As ``TransactionClient.call``. Calls with one id that are under way at once get one reply.

        Raises ``BadArguments``, ``NoReply`` and ``RepliesTrimmed`` as that does.
        """
        asked = WireRequest(_NONE_YET if request_id is None else request_id, operator, key, function, args, since)
        request, end = sendable(asked), self._loop.time() + timeout_s
        if request_id is None:
            request.id = ""
        while True:
            outcome = await self._call(copy(request), end, timeout_s)
            if request_id is not None or not never_ran(outcome):
                return outcome

    async def new_id(self) -> str:
        """As ``TransactionClient.new_id``."""
        reply: asyncio.Future[str] = self._loop.create_future()
        self._calls.put(_NewId(reply))
        if self._failed is not None:
            raise self._failed
        return await reply

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
        except (LogError, RunFailed, SettingsError, UnknownName, Unreachable, OSError) as error:
            self._fail(error)

    def _serve(self) -> bool:
        """Open the log and answer until it is time to end. False if the log went away: it may come back."""
        try:
            with self._open_log() as log:
                log.prefer_latency()
                client = TransactionClient(log, self._job)
                self._opened = True
                self._tell(self._ready, None, None)
                while self._turn(client):
                    pass
                return True
        except LogUnavailable as error:
            if not self._opened:
                raise
            return not self._interrupted(error)

    def _interrupted(self, error: LogUnavailable) -> bool:
        """Tell all who wait, and wait for a call that makes it worth to open the log again; False if it is to end."""
        told = _LogAway(str(error))
        self._give_up(told)
        for call in (*self._later, *([] if isinstance(self._first, _Left | None) else [self._first])):
            self._tell(call.reply, None, told)
        self._later.clear()
        self._first = self._calls.get()
        while isinstance(self._first, _Left):
            self._first = self._calls.get()
        return self._first is not None

    def _turn(self, client: TransactionClient) -> bool:
        """Take new calls, send them together, read replies; False when it is time to end."""
        new = self._taken()
        for each in new:
            if isinstance(each, _Left):
                self._abandon(each.call.request.id)
            elif isinstance(each, _NewId):
                self._tell(each.reply, client.new_id(), None)
            elif each is not None and self._is_named(client, each):
                self._later.append(each)
        if None in new:
            self._fail(Unreachable("the client was closed before the reply"))
            return False
        fresh = self._fresh()
        if fresh:
            client.ask_all(fresh)
        if self._asked:
            try:
                client.receive(_POLL_S)
            except RepliesTrimmed as error:
                self._give_up(error)
            for name, outcome in client.take_all():
                asked = self._asked.pop(name, None)
                for reply in () if asked is None else asked.waiting:
                    self._tell(reply, outcome, None)
        return True

    def _taken(self) -> list[_Call | _Left | _NewId | None]:
        """What callers have put there; waits for it where nothing else is to be done."""
        first, self._first = self._first, None
        new: list[_Call | _Left | _NewId | None] = [] if first is None else [first]
        if not (new or self._asked or self._later):
            new.append(self._calls.get())
        while not self._calls.empty():
            new.append(self._calls.get())
        return new

    def _is_named(self, client: TransactionClient, call: _Call) -> bool:
        """Give the call what it needs to be asked again; False: it is not to be sent."""
        name = call.request.id or client.new_id()
        since = client.first_since(name) if call.request.since is None else call.request.since
        with call.lock:
            if call.is_left:
                return False
            call.request.id, call.since = name, since
        return True

    def _fresh(self) -> list[WireRequest]:
        """What is to be sent now. The same id with the same call joins; with another call it waits for its turn."""
        fresh, waiting = [], self._later
        self._later = deque()
        for call in waiting:
            asked = self._asked.get(call.request.id)
            if asked is None:
                self._asked[call.request.id] = _Asked(call.request, [call.reply])
                fresh.append(call.request)
            elif asked.request == call.request:
                asked.waiting.append(call.reply)
            else:
                self._later.append(call)
        return fresh

    def _abandon(self, name: str) -> None:
        """Somebody waits no longer; a request that nobody waits for is forgotten."""
        asked = self._asked.get(name)
        if asked is not None:
            asked.waiting = [reply for reply in asked.waiting if not reply.done()]
            if not asked.waiting:
                del self._asked[name]
        self._later = deque(each for each in self._later if not each.reply.done())

    def _give_up(self, error: Exception) -> None:
        """Their replies may be gone; what is asked from now on is answered."""
        for asked in self._asked.values():
            for reply in asked.waiting:
                self._tell(reply, None, error)
        self._asked.clear()

    def _fail(self, error: Exception) -> None:
        self._failed = error
        waiting = [reply for asked in self._asked.values() for reply in asked.waiting]
        waiting += [call.reply for call in self._later]
        while not self._calls.empty():
            call = self._calls.get()
            if isinstance(call, _Call | _NewId):
                waiting.append(call.reply)
        for reply in (self._ready, *waiting):
            self._tell(reply, None, error)

    def _tell(self, reply: asyncio.Future[Any], outcome: Any, error: Exception | None) -> None:
        def tell() -> None:
            if reply.done():
                return
            if error is None:
                reply.set_result(outcome)
            else:
                reply.set_exception(error)

        self._loop.call_soon_threadsafe(tell)
