"""Requests as clients write them: JSON, so that every language can; what cannot be run gets a reply that says why.

``{"id": str, "operator": str, "key": str, "function": str, "args": list | object | null, "since": int}``; the record
goes to request partition ``murmur2(id) mod partitions``. ``since``, in a retry: an end offset of that partition before
the first try.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from transactional.errors import Aborted, UnknownFunction, describe
from transactional.messages import Kind, Request
from transactional.operators import Program
from transactional.replies import call_digest, reused
from transactional.values import BadValue, encode

MAX_ID_BYTES = 200


class WireRequest(msgspec.Struct, omit_defaults=True):
    """A request record."""

    id: str
    operator: str
    key: str
    function: str
    args: Any = None
    since: int | None = None


_decoder = msgspec.json.Decoder(WireRequest)
_encoder = msgspec.json.Encoder()


def request_record(request: WireRequest) -> bytes:
    """What a client appends."""
    return _encoder.encode(request)


class Admission:
    """Decides what becomes of each record of one request partition, from the records before it and nothing else.

    Begun ``id_window`` records early, it decides as one that has read all.
    """

    def __init__(self, program: Program, sequencer: int, id_window: int) -> None:
        self.program = program
        self.sequencer = sequencer
        self.malformed = 0
        self._id_window = id_window
        self._seen: dict[str, list[tuple[int, bytes]]] = {}
        self._order: deque[tuple[int, str]] = deque()

    def admit(self, offset: int, value: bytes) -> tuple[int, Request]:
        """The request, and the state partition that it goes to. Offsets ascend."""
        try:
            wire = _decoder.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self.malformed += 1
            return self._refuse(offset, "", Aborted("MalformedRequest", (str(error),)))
        if len(wire.id.encode(errors="replace")) > MAX_ID_BYTES:
            return self._refuse(offset, "", Aborted("MalformedRequest", (f"an id has at most {MAX_ID_BYTES} bytes",)))
        if wire.since is not None and offset - wire.since > self._id_window:
            return self._refuse(
                offset, wire.id, Aborted("RequestTooOld", (wire.id, offset - wire.since, self._id_window))
            )
        try:
            target = self.program.target(wire.operator, wire.key, wire.function, wire.args)
        except (UnknownFunction, TypeError, BadValue) as error:
            return self._refuse(offset, wire.id, describe(error))
        request = Request(Kind.RUN, wire.id, *target, self.sequencer, offset)
        return self._judge(request)

    def _judge(self, request: Request) -> tuple[int, Request]:
        self._forget(request.offset - self._id_window)
        call = call_digest(request)
        seen = self._seen.setdefault(request.id, [])
        seen.append((request.offset, call))
        self._order.append((request.offset, request.id))
        if seen[0][1] != call:
            return self._refuse(request.offset, request.id, reused(request.id))
        if len(seen) > 1:
            request = msgspec.structs.replace(request, kind=Kind.REPEAT)
        return self.program.place(request.operator, request.key), request

    def _forget(self, before: int) -> None:
        while self._order and self._order[0][0] < before:
            _, name = self._order.popleft()
            del self._seen[name][0]
            if not self._seen[name]:
                del self._seen[name]

    def _refuse(self, offset: int, name: str, reason: Aborted) -> tuple[int, Request]:
        request = Request(
            Kind.REFUSE, name, "", "", "", encode((reason.kind, reason.arguments)), self.sequencer, offset
        )
        return self.sequencer % self.program.partitions, request
