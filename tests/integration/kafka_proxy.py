"""A TCP proxy between Kafka clients and a broker that delays, holds, cuts and damages what it carries.

It reads the frames of Kafka's protocol, so that a rule may be for one API key, client or topic. Wherever a reply names
the broker's address the proxy puts its own, so that clients find it whatever listener the broker has.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal

from tests import fault_durations
from tests.integration.processes import PLENTY_S

PRODUCE, FETCH, LIST_OFFSETS, METADATA, INIT_PRODUCER_ID, END_TXN = 0, 1, 2, 3, 22, 26
Direction = Literal["request", "reply"]
_TOPIC_ID_BYTES = 16
_SLICE_BYTES = 10_000
_BEFORE_NAME, _BEFORE_ERROR = 4 + 4 + 4 + 2, 4 + 4
"""Bytes of an answer to a batch: size, number, count of topics, length of the name; count of partitions, partition."""
_BEFORE_PRODUCER_ERROR = 4 + 4 + 4
"""Bytes of an answer about a producer's number: size, number, how long the client was slowed down."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One request, or the reply to it: ``key``, ``version`` and ``client`` are the request's."""

    direction: Direction
    key: int
    version: int
    client: str
    body: bytes


InFlightRequests = dict[int, tuple[int, int, str]]
"""Of the requests on a connection that are not answered: key, version and client."""


@dataclass(eq=False)
class Rule:
    """The action on the frames that match; ``seen`` counts them. ``once``: only the first."""

    proxy: Proxy
    matches: Callable[[Frame], bool]
    act: Callable[[Rule, bytes], Coroutine[Any, Any, tuple[bytes, bool]]]
    once: bool = False
    seen: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let go what is held; the rule is over."""
        self.proxy.rules = [rule for rule in self.proxy.rules if rule is not self]
        self.proxy.loop.call_soon_threadsafe(self.released.set)


class Proxy:
    """Listens on a free port as long as it is entered; a thread of its own does the work.

    ``tls``: clients speak TLS to the proxy, which speaks plaintext to the broker. ``host`` must have as many characters
    as the broker's address: it is put in its place. ``fetched_per_s``: bytes of answers to fetches, of each connection.
    """

    def __init__(self, upstream: str, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.upstream_host, _, port = upstream.rpartition(":")
        self.upstream_port = int(port)
        assert len(host) == len(self.upstream_host)
        self.host, self.port, self.tls = host, 0, tls
        self.rules: list[Rule] = []
        self.fetched_per_s: float | None = None
        self.loop = asyncio.new_event_loop()
        self._metadata: deque[bytes] = deque(maxlen=50)
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._listening.wait(PLENTY_S)
        return self

    def __exit__(self, *exc: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to."""
        return f"{self.host}:{self.port}"

    # --- rules ------------------------------------------------------------------------------------------------------

    def hold(
        self,
        direction: Direction | None = None,
        *,
        key: int | None = None,
        topic: str = "",
        version: int | None = None,
        once: bool = False,
    ) -> Rule:
        """Let nothing through (of this direction, key, topic, version) until it is released. All arrives late then.

        Frames behind a held frame on the same connection wait too, as with TCP.
        """
        return self._add(self._matcher(direction, key, topic, version), _held, once)

    def delay(self, seconds: float, direction: Direction | None = None, *, key: int | None = None) -> Rule:
        """Each frame arrives later."""

        async def wait(rule: Rule, data: bytes) -> tuple[bytes, bool]:
            await fault_durations.passes_meanwhile(seconds)
            return data, True

        return self._add(self._matcher(direction, key, ""), wait, False)

    def count(self, key: int, version: int) -> Rule:
        """Requests of one version pass and are counted: clients differ in the versions that they use."""

        async def passes(rule: Rule, data: bytes) -> tuple[bytes, bool]:
            return data, True

        return self._add(self._matcher("request", key, "", version), passes, once=False)

    def cut_at(self, size: int, direction: Direction, *, key: int) -> Rule:
        """The next such frame ends after ``size`` bytes, and its connection with it."""

        async def cut(rule: Rule, data: bytes) -> tuple[bytes, bool]:
            return data[:size], False

        return self._add(self._matcher(direction, key, ""), cut, True)

    def damage(self, find: bytes, direction: Direction, *, key: int, once: bool = True) -> Rule:
        """Flip a bit behind the first ``find`` in the next such frame that has it."""

        async def flip(rule: Rule, data: bytes) -> tuple[bytes, bool]:
            at = data.index(find)
            return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], True

        match = self._matcher(direction, key, "")
        return self._add(lambda frame: match(frame) and find in frame.body, flip, once)

    def when_sent(self, find: bytes, reached: Callable[[], Rule | None]) -> Rule:
        """``reached`` is called at the first batch with ``find``. The batch waits for the rule that this gives."""

        async def reach(rule: Rule, data: bytes) -> tuple[bytes, bool]:
            held = reached()
            return (data, True) if held is None else await _held(held, data)

        match = self._matcher("request", PRODUCE, "")
        return self._add(lambda frame: match(frame) and find in frame.body, reach, True)

    def answer(self, error: int) -> Rule:
        """The next answer to a batch says this error, whatever the broker did; to requests of version 7."""

        async def say(rule: Rule, data: bytes) -> tuple[bytes, bool]:
            at = _BEFORE_NAME + struct.unpack_from(">h", data, _BEFORE_NAME - 2)[0] + _BEFORE_ERROR
            return _with_error(data, at, error), True

        return self._add(self._matcher("reply", PRODUCE, "", 7), say, True)

    def answer_producer(self, error: int) -> Rule:
        """The next answer to who asks for a producer's number by version 1 says this error.

        The library asks too, by another version and at its leisure.
        """

        async def say(rule: Rule, data: bytes) -> tuple[bytes, bool]:
            return _with_error(data, _BEFORE_PRODUCER_ERROR, error), True

        return self._add(self._matcher("reply", INIT_PRODUCER_ID, "", 1), say, True)

    def _add(self, matches: Callable[[Frame], bool], act: Any, once: bool) -> Rule:
        rule = Rule(self, matches, act, once)
        self.rules = [*self.rules, rule]
        return rule

    def _matcher(
        self, direction: Direction | None, key: int | None, topic: str, version: int | None = None
    ) -> Callable[[Frame], bool]:
        def matches(frame: Frame) -> bool:
            if direction not in (None, frame.direction) or key not in (None, frame.key):
                return False
            if version not in (None, frame.version):
                return False
            return not topic or any(name in frame.body for name in self._names(topic))

        return matches

    def _names(self, topic: str) -> list[bytes]:
        """The topic's name, and its id if a reply has told it: newer requests name topics by id."""
        name = topic.encode()
        compact = bytes([len(name) + 1]) + name
        found = [name]
        for reply in self._metadata:
            at = reply.find(compact)
            if at >= 0:
                found.append(reply[at + len(compact) : at + len(compact) + _TOPIC_ID_BYTES])
        return found

    # --- carrying ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(
            asyncio.start_server(self._serve, self.host, 0, ssl=self.tls, limit=1 << 20)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        self.loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection(self.upstream_host, self.upstream_port, limit=1 << 20)
        except OSError:
            to_client.close()
            return
        in_flight: InFlightRequests = {}
        await asyncio.gather(
            self._carry("request", client, to_broker, in_flight), self._carry("reply", broker, to_client, in_flight)
        )

    async def _carry(
        self,
        direction: Direction,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        in_flight: InFlightRequests,
    ) -> None:
        """Until the sender ends. Bytes that the receiver does not want any more are dropped."""
        try:
            while True:
                head = await source.readexactly(4)
                body = await source.readexactly(struct.unpack(">i", head)[0])
                frame = _request(body, in_flight) if direction == "request" else _reply(body, in_flight)
                data, goes_on = await self._ruled(frame, head + body)
                if self.fetched_per_s is not None and (frame.direction, frame.key) == ("reply", FETCH):
                    await self._slowly(target, data)
                else:
                    target.write(self._with_own_address(frame, data))
                if not goes_on:
                    break
                if not target.is_closing():
                    await target.drain()
        except (asyncio.IncompleteReadError, OSError, ssl.SSLError):
            pass
        target.close()

    async def _slowly(self, target: asyncio.StreamWriter, data: bytes) -> None:
        """As over a slow line."""
        for at in range(0, len(data), _SLICE_BYTES):
            target.write(data[at : at + _SLICE_BYTES])
            await target.drain()
            await fault_durations.passes_meanwhile(_SLICE_BYTES / (self.fetched_per_s or 1e12))

    async def _ruled(self, frame: Frame, data: bytes) -> tuple[bytes, bool]:
        for rule in self.rules:
            if not rule.matches(frame) or (rule.once and rule.seen):
                continue
            rule.seen += 1
            data, goes_on = await rule.act(rule, data)
            if not goes_on:
                return data, False
        return data, True

    def _with_own_address(self, frame: Frame, data: bytes) -> bytes:
        if frame.direction == "request" or frame.key == FETCH:
            return data
        if frame.key == METADATA:
            self._metadata.append(frame.body)
        theirs = self.upstream_host.encode() + struct.pack(">i", self.upstream_port)
        return data.replace(theirs, self.host.encode() + struct.pack(">i", self.port))


async def _held(rule: Rule, data: bytes) -> tuple[bytes, bool]:
    await rule.released.wait()
    return data, True


def _with_error(data: bytes, at: int, error: int) -> bytes:
    return data[:at] + struct.pack(">h", error) + data[at + 2 :]


def _request(body: bytes, in_flight: InFlightRequests) -> Frame:
    key, version, correlation, length = struct.unpack_from(">hhih", body)
    client = body[10 : 10 + max(0, length)].decode()
    in_flight[correlation] = (key, version, client)
    return Frame("request", key, version, client, body)


def _reply(body: bytes, in_flight: InFlightRequests) -> Frame:
    key, version, client = in_flight.pop(struct.unpack_from(">i", body)[0])
    return Frame("reply", key, version, client, body)
