"""Replies of one state partition: their identities, and the memory of those that a client may request again."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import msgspec

from transactional.epochs.messages import Kind, Replies, Reply, ReplyState, Request
from transactional.errors import Aborted
from transactional.external import external_request_of, is_external_request
from transactional.state.snapshots import PartitionState, Remembered
from transactional.state.values import DIGEST_BYTES, decode, digest, encode

RECORD_BYTES = 1 << 18
"""A record of replies holds no more than this, or one reply."""
_REPLY_BYTES = 64
_SHORT_BYTES = 256


class Numbered(NamedTuple):
    """A reply with its identity in its partition."""

    epoch: int
    n: int
    reply: Reply


class ReplyBook:
    """Gives each request its reply.

    ``id_window``: an id is known for so many requests of its request partition, and so many offsets.
    """

    def __init__(self, id_window: int) -> None:
        self._id_window = id_window
        self._memory = Remembered()
        self._given = self._memory.given
        self._order = self._memory.order
        self._fresh: dict[int, int] = {}  # by sequencer: what was remembered since the last snapshot
        self.all_changed = False
        """Whether the next ``changes`` gives all, since some have come from other partitions, or gone there."""
        self.touched: list[tuple[int, str]] | None = None
        """The requests that were remembered, again too, while somebody wants to know."""
        self.external_requests: dict[tuple[int, str], ReplyState] = {}
        """Of transactions that wait for an external call; no client gets these, and they are not forgotten."""

    def of_epoch(
        self,
        outcomes: Sequence[tuple[int, Request, bytes | Aborted]],
        aside: Sequence[Request],
        postponed: Sequence[Request],
        ends: Mapping[int, int],
    ) -> tuple[list[Reply], list[Request | bytes]]:
        """All replies in order, and for the first of them the requests, as they are kept; the others are duplicates.

        ``outcomes`` in commit order; ``ends``: the offsets to which sequencers have cut.
        """
        repeated = []
        if aside:
            coming = {(each.sequencer, each.id) for each in postponed} | {
                (each.sequencer, each.id) for _, each, _ in outcomes
            }
            repeated = [(request, self._again(request, coming)) for request in aside]
        replies, calls = [], []
        for tid, request, outcome in outcomes:
            reply, call = _reply(request, tid, outcome), request_fingerprint(request, outcome)
            self._remember(reply, call)
            replies.append(reply)
            calls.append(call)
        replies += [_reply(request, *known) for request, known in repeated if known is not None]
        self._forget_before(ends)
        return replies, calls

    def recall(self, replies: Sequence[Reply], calls: Sequence[Request | bytes], ends: Mapping[int, int]) -> None:
        """The replies of another owner in an epoch; ``calls`` belong to the first replies; others are duplicates."""
        for reply in replies[len(calls) :]:
            if reply.tid >= 0:
                self._remember(reply, self._given[reply.sequencer, reply.id].call)
        for reply, call in zip(replies, calls, strict=False):
            self._remember(reply, call)
        self._forget_before(ends)

    def shown(self, replies: list[Reply]) -> list[Reply]:
        """Those that clients get."""
        return (
            [each for each in replies if not is_external_request(each.failure)] if self.external_requests else replies
        )

    def admits(self, request: Request) -> bool:
        """Whether a continuation is the one that is waited for: not a second owner's, not a stranger's."""
        continued, waits = request.continued, self.external_requests.get((request.sequencer, request.id))
        if continued is None or waits is None or not continued.answers:
            return continued is None
        assert waits.failure is not None
        requested, call, last = external_request_of(waits.failure), waits.call, continued.answers[-1]
        assert isinstance(call, Request), f"request {request.id} waits for an external call, and its call was not kept"
        before = [] if call.continued is None else call.continued.answers
        outcome = last.failure if last.result is None else last.result
        return (
            outcome is not None
            and last == requested.answer(outcome)
            and (continued.tid, continued.time_ms, continued.answers[:-1]) == (requested.tid, requested.time_ms, before)
            and same_call(call, request)
        )

    def __len__(self) -> int:
        """Replies that are remembered."""
        return len(self._given)

    def given(self, name: tuple[int, str]) -> ReplyState | None:
        """The reply to the request of this sequencer and id; None: it is not remembered."""
        return self._given.get(name)

    def changes(self, *, whole: bool = False) -> tuple[list[ReplyState], list[tuple[int, int, list[tuple[int, str]]]]]:
        """Entries remembered since the last call, or all: ``replies`` and ``reply_order`` of a ``PartitionState``."""
        replies: dict[tuple[int, str], ReplyState] = {}
        newest = []
        for sequencer, order in sorted(self._order.items()):
            count = len(order) if whole or self.all_changed else min(len(order), self._fresh.get(sequencer, 0))
            fresh = list(islice(reversed(order), count))[::-1]
            newest.append((sequencer, len(order), fresh))
            for _, name in fresh:
                given = self._given.get((sequencer, name))
                if given is not None:
                    replies[sequencer, name] = given
        self._fresh = {}
        self.all_changed = False
        return list(replies.values()), newest

    def follow(self, state: PartitionState) -> None:
        """Take over what ``changes`` gave, one after the other."""
        self._memory.follow(state)
        self.external_requests = {name: each for name, each in self._given.items() if is_external_request(each.failure)}

    # --- from one state partition to another -------------------------------------------------------------------------

    def remembered(self) -> Iterator[tuple[int, int, ReplyState]]:
        """Sequencer, offset and reply of each request that is remembered, oldest first; of an id perhaps several."""
        for sequencer, order in sorted(self._order.items()):
            for offset, name in order:
                if (given := self._given.get((sequencer, name))) is not None:
                    yield sequencer, offset, given

    def forget_all(self, gone: Container[tuple[int, str]]) -> None:
        """These are remembered elsewhere now."""
        self.all_changed = True
        for name in [name for name in self._given if name in gone]:
            del self._given[name]
            self.external_requests.pop(name, None)
        for sequencer, order in self._order.items():
            self._order[sequencer] = deque(each for each in order if (sequencer, each[1]) not in gone)

    def take(self, replies: Iterable[ReplyState], order: Iterable[tuple[int, int, str]]) -> None:
        """Remember what other partitions have remembered until now, as ``MovedState`` has it.

        Of a request the last reply counts; those that are not in ``order`` were forgotten since they were copied.
        """
        self.all_changed = True
        order = list(order)
        known = {(sequencer, name) for sequencer, _, name in order}
        for each in replies:
            name = each.sequencer, each.id
            if name not in known:
                continue
            self._given[name] = each
            if each.failure is not None and is_external_request(each.failure):
                self.external_requests[name] = each
        for sequencer, offset, name in order:
            self._order.setdefault(sequencer, deque()).append((offset, name))
        for sequencer, found in self._order.items():  # of equal offsets, its own ones first
            self._order[sequencer] = deque(sorted(found, key=itemgetter(0)))

    def _again(self, request: Request, coming: Container[tuple[int, str]]) -> tuple[int, bytes | Aborted] | None:
        """The reply to what is not run; None if the reply of the first request is still to come."""
        if request.kind is Kind.REFUSE:
            return -1, Aborted(*decode(request.arguments))
        given = self._given.get((request.sequencer, request.id))
        if given is not None and is_external_request(given.failure) and same_call(given.call, request):
            return None  # still to come
        if given is None:
            return None if (request.sequencer, request.id) in coming else (-1, Aborted("RequestExpired", (request.id,)))
        if not same_call(given.call, request):
            return -1, reused(request.id)
        outcome = given.failure if given.result is None else given.result
        assert outcome is not None
        self._remember(_reply(request, given.tid, outcome), given.call)
        return given.tid, outcome

    def _remember(self, reply: Reply, call: Request | bytes) -> None:
        sequencer, name = reply.sequencer, reply.id
        self._given[sequencer, name] = ReplyState(
            sequencer, name, call, reply.offset, reply.tid, reply.result, reply.failure
        )
        if reply.failure is not None and is_external_request(reply.failure):
            self.external_requests[sequencer, name] = self._given[sequencer, name]
        elif self.external_requests:
            self.external_requests.pop((sequencer, name), None)
        order = self._order.get(sequencer)
        if order is None:
            order = self._order[sequencer] = deque()
        order.append((reply.offset, name))
        self._fresh[sequencer] = self._fresh.get(sequencer, 0) + 1
        if self.touched is not None:
            self.touched.append((sequencer, name))

    def _forget_before(self, ends: Mapping[int, int]) -> None:
        for sequencer, end in sorted(ends.items()):
            self._forget(sequencer, end)

    def _forget(self, sequencer: int, end: int) -> None:
        order, before = self._order.get(sequencer, deque()), end - self._id_window
        for _ in range(len(order)):
            # Twice as many, since within an epoch they are in commit order and not in request order.
            if not (order[0][0] < before or len(order) > 2 * self._id_window):
                return
            name = order[0][1]
            if self.external_requests and (waits := self.external_requests.get((sequencer, name))) is not None:
                again = msgspec.structs.replace(waits, offset=max(end, waits.offset + 1))
                self._given[sequencer, name] = self.external_requests[sequencer, name] = again
                order.append((again.offset, name))
                self._fresh[sequencer] = self._fresh.get(sequencer, 0) + 1
            self._memory.forget_first(sequencer)


def records_of(epoch: int, replies: Sequence[Reply], after: tuple[int, int]) -> Iterator[Replies]:
    """The records for the replies of an epoch, without those whose identity is not behind ``after``."""
    begin = after[1] if after[0] == epoch else len(replies) if after[0] > epoch else 0
    while begin < len(replies):
        end, size = begin, 0
        while end < len(replies) and (end == begin or size < RECORD_BYTES):
            reply = replies[end]
            size += _REPLY_BYTES + len(reply.id) + len(reply.result or b"")
            end += 1
        yield Replies(epoch, begin + 1, list(replies[begin:end]))
        begin = end


def request_fingerprint(request: Request, outcome: bytes | Aborted | None = None) -> Request | bytes:
    """The kept parts of a call: long arguments are dropped, unless it has external calls and must run anew."""
    if outcome is not None and is_external_request(outcome):
        return request
    if request.continued is not None:
        request = msgspec.structs.replace(request, continued=None)
    return request if len(request.arguments) <= _SHORT_BYTES else call_name(request)


def same_call(kept: Request | bytes, request: Request) -> bool:
    """Whether the request makes the same call."""
    if isinstance(kept, bytes):
        return kept in (name := call_name(request), name[:DIGEST_BYTES])
    return (kept.arguments, kept.key, kept.function, kept.operator) == (
        request.arguments,
        request.key,
        request.function,
        request.operator,
    )


def call_name(kept: Request | bytes) -> bytes:
    """Names the call, so that an id that is used for another one is noticed: a digest, and where its key lives."""
    if isinstance(kept, bytes):
        return kept
    name = digest(encode((kept.operator, kept.key, kept.function, kept.arguments)))
    return name + encode((kept.operator, kept.key))


def entity_of(kept: Request | bytes) -> tuple[str, str] | None:
    """The operator and the key of a call; None: a release before format 7 of snapshots has named it without."""
    if isinstance(kept, Request):
        return kept.operator, kept.key
    return decode(kept[DIGEST_BYTES:], tuple[str, str]) if len(kept) > DIGEST_BYTES else None


def reused(name: str) -> Aborted:
    """The reply to a request id that was used for another call."""
    return Aborted("RequestIdReused", (name,))


def _reply(request: Request, tid: int, outcome: bytes | Aborted) -> Reply:
    result, failure = (None, outcome) if isinstance(outcome, Aborted) else (outcome, None)
    return Reply(request.id, request.sequencer, request.offset, request.index, tid, result, failure)


def ascending(records: Iterable[Replies]) -> Iterator[Numbered]:
    """The replies of one partition without those that a second owner has written again."""
    last = (0, 0)
    for record in records:
        for n, reply in enumerate(record.replies, record.first):
            if (record.epoch, n) > last:
                last = record.epoch, n
                yield Numbered(record.epoch, n, reply)
