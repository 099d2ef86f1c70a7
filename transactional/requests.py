"""Requests as clients write them: JSON, so that every language can; what cannot be run gets a reply that says why.

``{"id": str, "operator": str, "key": str, "function": str, "args": list | object | null, "since": int}``, or a list of
these. The record goes to request partition ``murmur2(id) mod partitions``, as Kafka's clients compute it, so that a
list holds what goes to one partition. ``since``, in a retry: an end offset of that partition before the first try.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from holon.murmur import murmur2
from transactional.errors import Aborted, UnknownFunction, describe
from transactional.external import Asking, Continued
from transactional.messages import Kind, Request
from transactional.operators import Program
from transactional.replies import keepsake, reused, same_call
from transactional.values import BadValue, decode, encode

MAX_ID_BYTES = 200
_SHORT_ID = MAX_ID_BYTES // 4
_IN_A_LIST = 1 << 16


class WireRequest(msgspec.Struct, omit_defaults=True):
    """What is asked for."""

    id: str
    operator: str
    key: str
    function: str
    args: Any = None
    since: int | None = None
    continued: bytes | None = None
    """Not for clients: a node's record of what came of a call to the outside."""


_decoder: msgspec.json.Decoder[WireRequest | list[WireRequest]] = msgspec.json.Decoder(WireRequest | list[WireRequest])
_encoder = msgspec.json.Encoder()


def request_record(request: WireRequest | Sequence[WireRequest]) -> bytes:
    """What a client appends."""
    return _encoder.encode(request)


def partition_of(name: str, partitions: int) -> int:
    """The request partition of an id."""
    return (murmur2(name.encode()) & 0x7FFFFFFF) % partitions


def continuation(call: Request, asking: Asking, outcome: bytes | Aborted) -> bytes:
    """The record that logs what came of a call to the outside, for the request partition of ``call``."""
    before = [] if call.continued is None else call.continued.answers
    continued = Continued(asking.tid, asking.time_ms, [*before, asking.answer(outcome)])
    arguments = decode(call.arguments)
    return request_record(
        WireRequest(call.id, call.operator, call.key, call.function, arguments, continued=encode(continued))
    )


def logged_step(value: bytes) -> tuple[str, int] | None:
    """Of a record that is a continuation: its request, and the step whose answer it holds."""
    if b'"continued"' not in value:
        return None
    try:
        wire = _decoder.decode(value)
        if isinstance(wire, list) or wire.continued is None:
            return None
        return wire.id, len(decode(wire.continued, Continued).answers) - 1
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadValue):
        return None


class Admission:
    """Decides what becomes of each record of one request partition, from the records before it and nothing else.

    Begun ``id_window`` records early, it decides as one that has read all: an id is known for so many requests, and for
    so many offsets.
    """

    def __init__(self, program: Program, sequencer: int, id_window: int) -> None:
        self.program = program
        self.sequencer = sequencer
        self.malformed = 0
        self._id_window = id_window
        self._seen: dict[str, tuple[int, Request | bytes]] = {}
        self._again: dict[str, deque[tuple[int, Request | bytes]]] = {}  # later ones of an id, of few ids
        self._order: deque[tuple[int, str]] = deque()

    @property
    def oldest(self) -> int | None:
        """Offset of the oldest request whose id is known; None: none is."""
        return self._order[0][0] if self._order else None

    def admit(self, offset: int, value: bytes) -> list[tuple[int, Request]]:
        """The record's requests, and the state partition that each goes to. Offsets ascend."""
        try:
            wires = _decoder.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.malformed += 1
            return [self._refuse(offset, 0, "", Aborted("MalformedRequest", (str(error),)))]
        if not isinstance(wires, list):
            return [self._admit(offset, 0, wires)]
        if len(wires) > _IN_A_LIST:
            self.malformed += 1
            return [self._refuse(offset, 0, "", Aborted("MalformedRequest", (f"a list has at most {_IN_A_LIST}",)))]
        return [self._admit(offset, index, wire) for index, wire in enumerate(wires)]

    def _admit(self, offset: int, index: int, wire: WireRequest) -> tuple[int, Request]:
        name = wire.id
        self._forget(offset)
        if wire.continued is not None:
            return self._go_on(offset, index, wire, wire.continued)
        if len(name) > _SHORT_ID and len(name.encode(errors="replace")) > MAX_ID_BYTES:
            text = f"an id has at most {MAX_ID_BYTES} bytes"
            return self._refuse(offset, index, "", Aborted("MalformedRequest", (text,)))
        if wire.since is not None and self._is_too_old(offset, wire.since):
            reason = Aborted("RequestTooOld", (name, offset - wire.since, self._id_window))
            return self._refuse(offset, index, name, reason)
        try:
            target = self.program.target(wire.operator, wire.key, wire.function, wire.args)
        except (UnknownFunction, TypeError, BadValue) as error:
            return self._refuse(offset, index, name, describe(error))
        request = Request(
            Kind.RUN, name, target.operator, target.key, target.function, target.arguments,
            self.sequencer, offset, index,
        )  # fmt: skip
        self._order.append((offset, name))
        if self._seen.setdefault(name, mine := (offset, keepsake(request))) is not mine:
            return self._judge_again(request, mine)
        return self.program.operators[target.operator].partition_of(target.key), request

    def _go_on(self, offset: int, index: int, wire: WireRequest, data: bytes) -> tuple[int, Request]:
        """After a call to the outside; the partition of its root knows whether it waits for that."""
        try:
            continued = decode(data, Continued)
            target = self.program.target(wire.operator, wire.key, wire.function, wire.args)
        except (UnknownFunction, TypeError, BadValue) as error:
            return self._refuse(offset, index, "", Aborted("MalformedRequest", (str(error),)))
        request = Request(
            Kind.RUN, wire.id, target.operator, target.key, target.function, target.arguments,
            self.sequencer, offset, index, continued,
        )  # fmt: skip
        return self.program.operators[target.operator].partition_of(target.key), request

    def _judge_again(self, request: Request, mine: tuple[int, Request | bytes]) -> tuple[int, Request]:
        """Of an id that is known."""
        self._again.setdefault(request.id, deque()).append(mine)
        if not same_call(self._seen[request.id][1], request):
            return self._refuse(request.offset, request.index, request.id, reused(request.id))
        return self.program.place(request.operator, request.key), msgspec.structs.replace(request, kind=Kind.REPEAT)

    def _is_too_old(self, offset: int, since: int) -> bool:
        """Whether an id that was used at ``since`` may be forgotten by now."""
        order = self._order
        return offset - since > self._id_window or (len(order) >= self._id_window and order[0][0] >= since)

    def _forget(self, offset: int) -> None:
        order, before = self._order, offset - self._id_window
        while order and (order[0][0] < before or len(order) > self._id_window):
            _, name = order.popleft()
            later = self._again.get(name)
            if later is None:
                del self._seen[name]
                continue
            self._seen[name] = later.popleft()
            if not later:
                del self._again[name]

    def _refuse(self, offset: int, index: int, name: str, reason: Aborted) -> tuple[int, Request]:
        arguments = encode((reason.kind, reason.arguments))
        request = Request(Kind.REFUSE, name, "", "", "", arguments, self.sequencer, offset, index)
        return self.sequencer % self.program.partitions, request
