"""Requests as clients write them: JSON, so that every language can; what cannot be run gets a reply with the reason.

``{"id": str, "operator": str, "key": str, "function": str, "args": list | object | null, "since": int}``, or a list of
these. The record goes to request partition ``murmur2(id) mod partitions``, as Kafka's clients compute it, so that a
list holds what goes to one partition. ``since``, in a retry: an end offset of that partition before the first try.
``packed`` in the place of ``args``: MessagePack (in base64), for arguments that JSON would turn into others.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from itertools import accumulate
from typing import Any

import msgspec

from holon.outputs import partitioner
from transactional.epochs.messages import Kind, Request
from transactional.errors import Aborted, BadArguments, UnknownFunction, describe
from transactional.external import ContinuedTransaction, ExternalRequest
from transactional.operators import Program, Target, checked_arguments
from transactional.program_versions import VersionHistory
from transactional.requests.replies import request_fingerprint, reused, same_call
from transactional.state.values import (
    MAX_NESTING,
    PACK_ERRORS,
    TOO_DEEP,
    BadValue,
    decode,
    encode,
    fits_json,
    is_plain_json,
    is_text,
    is_too_deep,
    pack,
)

MAX_ID_BYTES = 200
TOO_OLD = "RequestTooOld"
"""A request may have run before: its id was made, or by its client used, so long ago that it may be forgotten."""
WRONG_PARTITION = "WrongPartition"
"""A request is in a request partition that is none of its id's, where it would run a second time."""
_SHORT_ID = MAX_ID_BYTES // 4
_IN_A_LIST = 1 << 16
DRAWN_BYTES = 12
"""Of random bytes in an id that a client makes."""
_MADE = re.compile(rf"h(0|[1-9][0-9]{{0,17}})-[0-9a-f]{{{2 * DRAWN_BYTES}}}", re.ASCII)
_MOST_NESTED = MAX_NESTING + 2  # a list of requests, and each an object
_JSON_TEXT = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_TEXT = re.compile(_JSON_TEXT.encode(), re.DOTALL)
_BEGINNING = re.compile(rf'\s*{{\s*"id"\s*:\s*({_JSON_TEXT})'.encode(), re.DOTALL)
_STEPS = [{ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}.get(byte, 0) for byte in range(256)]
_NO_BRACKETS = bytes(byte for byte, step in enumerate(_STEPS) if not step)
_ECHO_BYTES = 4096
_TEXTS = "the request id", "the operator", "the key", "the function"
_STR = frozenset({str})


class WireRequest(msgspec.Struct, omit_defaults=True):
    """The requested calls."""

    id: str
    operator: str
    key: str
    function: str
    args: Any = None
    since: int | None = None
    packed: bytes | None = None
    continued: bytes | None = None
    """Not for clients: a node's record of what came of an external call."""
    proof: bytes | None = None
    """That a node has written ``continued``."""


_decoder: msgspec.json.Decoder[WireRequest | list[WireRequest]] = msgspec.json.Decoder(WireRequest | list[WireRequest])
_encoder = msgspec.json.Encoder()


def request_record(request: WireRequest | Sequence[WireRequest]) -> bytes:
    """The record that a client appends.

    Raises ``BadArguments`` where it cannot travel, or would arrive as something else.
    """
    sent = sendable(request) if isinstance(request, WireRequest) else [sendable(each) for each in request]
    try:
        return _encoder.encode(sent)
    except RecursionError:  # it may be nested so deep, but not where the caller's own calls are
        raise BadArguments("a request is nested too deep to be encoded so deep in other calls") from None


def sendable(request: WireRequest) -> WireRequest:
    """The request as it travels; raises ``BadArguments`` with the name of the field, or the place in the arguments."""
    texts = request.id, request.operator, request.key, request.function
    if not (_STR.issuperset(map(type, texts)) and all(map(str.isascii, texts))):
        _check_texts(texts)
    if not 0 < len(request.id) <= _SHORT_ID:
        _check_id(request.id)
    if request.since is not None and not (isinstance(request.since, int) and 0 <= request.since < 2**63):
        raise BadArguments(f"since is an offset of the request partition, not {repr(request.since)[:100]}")
    if request.args is None or (_packs(request.args) and is_plain_json(request.args)):
        return request
    data = checked_arguments(f"{request.operator}.{request.function}", request.args, None)
    if fits_json(plain := decode(data)) is None:
        return msgspec.structs.replace(request, args=plain)
    return msgspec.structs.replace(request, args=None, packed=data)


def _packs(args: Any) -> bool:
    try:
        return bool(pack(args))
    except PACK_ERRORS:
        return False  # ``sendable`` reports why


def _check_texts(texts: Sequence[str]) -> None:
    for field, text in zip(_TEXTS, texts, strict=True):
        if not isinstance(text, str):
            raise BadArguments(f"{field} is a str, not {type(text).__name__}: {repr(text)[:100]}")
        if not is_text(text):
            raise BadArguments(f"{field} is no Unicode text: {text!r:.100}")


def _check_id(name: str) -> None:
    if not name or (len(name) > _SHORT_ID and len(name.encode(errors="replace")) > MAX_ID_BYTES):
        raise BadArguments(f"a request id has 1 to {MAX_ID_BYTES} bytes, not {len(name.encode(errors='replace'))}")


def made_id(since: int, drawn: bytes) -> str:
    """An id that holds where its request partition ended when it was made: it is refused once it may be forgotten."""
    assert since >= 0 and len(drawn) == DRAWN_BYTES, f"an id of {since}, {drawn!r}"
    return f"h{since}-{drawn.hex()}"


def since_of(name: str) -> int | None:
    """Where the id was made; None: it does not hold that."""
    found = _MADE.fullmatch(name) if name[:1] == "h" else None
    return None if found is None else int(found[1])


def partition_of(name: str, partitions: int) -> int:
    """The request partition of an id."""
    return partitioner.partition_of(name.encode(), partitions)


def partitions_of(names: Sequence[str], partitions: int) -> list[int]:
    """``partition_of`` each id. One that is too long to be an id counts as none: it is refused wherever it is."""
    short = [name.encode() if len(name) <= MAX_ID_BYTES else b"" for name in names]
    return partitioner.partitions_of(short, partitions)


def proof_of(answer_key: bytes, name: str, continued: bytes) -> bytes:
    """The proof that only nodes can write beside an answer: clients may write requests, and know no key."""
    return blake2b(encode((name, continued)), key=answer_key, digest_size=16).digest()


def is_proven(wire: WireRequest, answer_key: bytes) -> bool:
    """Whether a node has written this answer. Without a key (of a job that an older release has begun) all count."""
    if not answer_key:
        return True
    data, proof = wire.continued or b"", wire.proof or b""
    return compare_digest(proof, proof_of(answer_key, wire.id, data))


def continuation(call: Request, requested: ExternalRequest, outcome: bytes | Aborted, answer_key: bytes = b"") -> bytes:
    """The record that logs what came of an external call, for the request partition of ``call``."""
    before = [] if call.continued is None else call.continued.answers
    continued = encode(ContinuedTransaction(requested.tid, requested.time_ms, [*before, requested.answer(outcome)]))
    proof = proof_of(answer_key, call.id, continued) if answer_key else None
    arguments = decode(call.arguments)
    return request_record(
        WireRequest(call.id, call.operator, call.key, call.function, arguments, continued=continued, proof=proof)
    )


def _since(wire: WireRequest) -> int | None:
    """The earliest that is known of the first try: from the client, and from the id."""
    made_at = since_of(wire.id)
    return wire.since if made_at is None else made_at if wire.since is None else min(made_at, wire.since)


def _arguments(wire: WireRequest) -> Any:
    if wire.packed is None:
        return wire.args
    if wire.args is not None:
        raise BadValue("a request has args or packed, and not both")
    args = decode(wire.packed)
    if len(wire.packed) > MAX_NESTING and is_too_deep(args):
        raise BadValue(TOO_DEEP)
    return args


def logged_step(value: bytes, answer_key: bytes = b"") -> tuple[str, int] | None:
    """Of a record that is a continuation, and a node's: its request, and the step whose answer it holds."""
    if b'"continued"' not in value:
        return None
    try:
        wire = _decoder.decode(value)
        if isinstance(wire, list) or wire.continued is None or not is_proven(wire, answer_key):
            return None
        return wire.id, len(decode(wire.continued, ContinuedTransaction).answers) - 1
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadValue):
        return None


def _is_too_deep(value: bytes) -> bool:
    """Whether JSON is nested too deep.

    No node reads it for that: how much a node can read differs from node to node.
    """
    if value.count(b"[") + value.count(b"{") <= _MOST_NESTED:
        return False
    brackets = _TEXT.sub(b"", value).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > _MOST_NESTED


def _id_of(value: bytes) -> str:
    """Of a record that cannot be read: the id that it begins with, so that its client gets a reply; "": none."""
    found = _BEGINNING.match(value, 0, 2 * _ECHO_BYTES)
    try:
        return "" if found is None else _shown_id(msgspec.json.decode(found[1], type=str))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def _shown_id(name: str) -> str:
    """As a refusal shows it: of far too long ones nothing."""
    return name if is_text(name) and len(name.encode()) <= _ECHO_BYTES else ""


class RequestAdmission:
    """Decides what becomes of each record of one request partition, from the records before it and nothing else.

    Begun ``id_window`` records early, it decides as one that has read all: an id is known for so many requests, and for
    so many offsets.
    """

    def __init__(
        self, program: Program, sequencer: int, sequencers: int, id_window: int, answer_key: bytes = b""
    ) -> None:
        self.program = program
        self.versions: VersionHistory | None = None
        """Where there are several versions of the program: each request is judged by the one of its epoch."""
        self.sequencer = sequencer
        self.sequencers = sequencers
        self.malformed = 0
        self._id_window = id_window
        self._answer_key = answer_key
        self._seen: dict[str, tuple[int, Request | bytes]] = {}
        self._again: dict[str, deque[tuple[int, Request | bytes]]] = {}  # later ones of an id, of few ids
        self._order: deque[tuple[int, str]] = deque()

    @property
    def known(self) -> int:
        """Requests whose ids are known; of an id that came again, each."""
        return len(self._order)

    @property
    def oldest(self) -> int | None:
        """Offset of the oldest request whose id is known; None: none is."""
        return self._order[0][0] if self._order else None

    def admit(self, offset: int, value: bytes) -> list[Request]:
        """The record's requests. Offsets ascend."""
        try:
            if _is_too_deep(value):
                raise BadValue(TOO_DEEP)
            wires = _decoder.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadValue) as error:
            self.malformed += 1
            return [self._refuse(offset, 0, _id_of(value), Aborted("MalformedRequest", (str(error),)))]
        if not isinstance(wires, list):
            return [self._admit(offset, 0, wires, *partitions_of([wires.id], self.sequencers))]
        if len(wires) > _IN_A_LIST:
            self.malformed += 1
            return [self._refuse(offset, 0, "", Aborted("MalformedRequest", (f"a list has at most {_IN_A_LIST}",)))]
        places = partitions_of([wire.id for wire in wires], self.sequencers)
        return [
            self._admit(offset, index, wire, place)
            for index, (wire, place) in enumerate(zip(wires, places, strict=True))
        ]

    def _admit(self, offset: int, index: int, wire: WireRequest, place: int) -> Request:
        name = wire.id
        self._forget(offset)
        if not name or (len(name) > _SHORT_ID and len(name.encode(errors="replace")) > MAX_ID_BYTES):
            text = f"an id has 1 to {MAX_ID_BYTES} bytes, not {len(name.encode(errors='replace'))}"
            return self._refuse(offset, index, _shown_id(name), Aborted("MalformedRequest", (text,)))
        if place != self.sequencer:  # where it is not remembered
            return self._refuse(offset, index, name, Aborted(WRONG_PARTITION, (name, self.sequencer, place)))
        if wire.continued is not None:
            return self._go_on(offset, index, wire, wire.continued)
        since = _since(wire)
        if since is not None and since > offset:
            text = f"since {since} is beyond the end of the request partition, {offset}: it is none of this job's life"
            return self._refuse(offset, index, name, Aborted("MalformedRequest", (text,)))
        program = self.program if self.versions is None else self.versions.judge(self.sequencer, offset)
        try:
            target = program.target(wire.operator, wire.key, wire.function, _arguments(wire))
        except (UnknownFunction, TypeError, BadValue) as error:
            return self._refuse(offset, index, name, describe(error))
        request = Request(
            Kind.RUN, name, target.operator, target.key, target.function, target.arguments,
            self.sequencer, offset, index,
        )  # fmt: skip
        # What is remembered must not depend on older records: one that begins late has not read them.
        is_too_old = since is not None and self._is_too_old(offset, since)
        self._order.append((offset, name))
        is_first = self._seen.setdefault(name, mine := (offset, request_fingerprint(request))) is mine
        if not is_first:
            self._again.setdefault(name, deque()).append(mine)
        if is_too_old:
            assert since is not None
            return self._refuse(offset, index, name, Aborted(TOO_OLD, (name, offset - since, self._id_window)))
        if not is_first:
            return self._judge_again(request)
        return request

    def _go_on(self, offset: int, index: int, wire: WireRequest, data: bytes) -> Request:
        """After an external call; the partition of its root knows whether it waits for that."""
        if not is_proven(wire, self._answer_key):
            reason = Aborted("MalformedRequest", ("continued is for nodes, and no node has written this",))
            return self._refuse(offset, index, "", reason)
        try:
            continued = decode(data, ContinuedTransaction)
            target = self._continued_target(wire)
        except (UnknownFunction, TypeError, BadValue) as error:
            return self._refuse(offset, index, "", Aborted("MalformedRequest", (str(error),)))
        return Request(
            Kind.RUN, wire.id, target.operator, target.key, target.function, target.arguments,
            self.sequencer, offset, index, continued,
        )  # fmt: skip

    def _continued_target(self, wire: WireRequest) -> Target:
        """It was judged before: that its function has gone since is for its execution to find, and for its reply."""
        *newer, oldest = (self.program,) if self.versions is None else self.versions.outlines()
        for program in newer:
            with suppress(UnknownFunction):
                return program.target(wire.operator, wire.key, wire.function, _arguments(wire))
        return oldest.target(wire.operator, wire.key, wire.function, _arguments(wire))

    def _judge_again(self, request: Request) -> Request:
        """Of an id that is known."""
        if not same_call(self._seen[request.id][1], request):
            return self._refuse(request.offset, request.index, request.id, reused(request.id))
        return msgspec.structs.replace(request, kind=Kind.REPEAT)

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

    def _refuse(self, offset: int, index: int, name: str, reason: Aborted) -> Request:
        arguments = encode((reason.kind, reason.arguments))
        return Request(Kind.REFUSE, name, "", "", "", arguments, self.sequencer, offset, index)
