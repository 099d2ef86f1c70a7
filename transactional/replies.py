"""Replies of one state partition: their identities, and the memory of those that a client may ask for again."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from transactional.errors import Aborted
from transactional.messages import Kind, Reply, Request
from transactional.snapshots import ReplyState
from transactional.values import decode, digest, encode


@dataclass(frozen=True, slots=True)
class _Given:
    """A reply that was given, and to which call; ``offset`` is where the request was last seen."""

    call: bytes
    offset: int
    tid: int
    outcome: bytes | Aborted


class Replies:
    """Gives each request its reply. ``id_window``: an id is known for so many offsets of its request partition."""

    def __init__(self, id_window: int) -> None:
        self._id_window = id_window
        self._given: dict[tuple[int, str], _Given] = {}
        self._order: dict[int, deque[tuple[int, str]]] = {}

    def of_epoch(
        self,
        epoch: int,
        outcomes: Sequence[tuple[int, Request, bytes | Aborted]],
        aside: Sequence[Request],
        postponed: Sequence[Request],
        ends: Mapping[int, int],
    ) -> Iterator[Reply]:
        """All replies in order; ``outcomes`` in commit order, ``ends`` the offsets to which sequencers have cut."""
        n = 0
        coming = {(each.sequencer, each.id) for each in postponed} | {
            (each.sequencer, each.id) for _, each, _ in outcomes
        }
        repeated = [(request, self._again(request, coming)) for request in aside]
        for tid, request, outcome in outcomes:
            n += 1
            self._keep(request, tid, outcome)
            yield _reply(epoch, n, request, tid, outcome)
        for request, known in repeated:
            if known is not None:
                n += 1
                yield _reply(epoch, n, request, *known)
        for sequencer, end in sorted(ends.items()):
            self._forget(sequencer, end - self._id_window)

    def snapshot(self) -> tuple[list[ReplyState], list[tuple[int, int, str]]]:
        """What is remembered, and in which order it will be forgotten."""
        remembered = []
        for (sequencer, name), given in sorted(self._given.items()):
            result, failure = _parted(given.outcome)
            remembered.append(ReplyState(sequencer, name, given.call, given.offset, given.tid, result, failure))
        order = [(sequencer, *each) for sequencer, names in sorted(self._order.items()) for each in names]
        return remembered, order

    def restore(self, remembered: Sequence[ReplyState], order: Sequence[tuple[int, int, str]]) -> None:
        """What ``snapshot`` gave."""
        for each in remembered:
            outcome = each.failure if each.result is None else each.result
            assert outcome is not None
            self._given[each.sequencer, each.id] = _Given(each.call, each.offset, each.tid, outcome)
        for sequencer, offset, name in order:
            self._order.setdefault(sequencer, deque()).append((offset, name))

    def _again(self, request: Request, coming: Container[tuple[int, str]]) -> tuple[int, bytes | Aborted] | None:
        """The reply to what is not run; None if the reply of the first request is still to come."""
        if request.kind is Kind.REFUSE:
            return -1, Aborted(*decode(request.arguments))
        given = self._given.get((request.sequencer, request.id))
        if given is None:
            return None if (request.sequencer, request.id) in coming else (-1, Aborted("RequestExpired", (request.id,)))
        if given.call != call_digest(request):
            return -1, reused(request.id)
        self._remember(request, _Given(given.call, request.offset, given.tid, given.outcome))
        return given.tid, given.outcome

    def _keep(self, request: Request, tid: int, outcome: bytes | Aborted) -> None:
        self._remember(request, _Given(call_digest(request), request.offset, tid, outcome))

    def _remember(self, request: Request, given: _Given) -> None:
        self._given[request.sequencer, request.id] = given
        self._order.setdefault(request.sequencer, deque()).append((request.offset, request.id))

    def _forget(self, sequencer: int, before: int) -> None:
        order = self._order.get(sequencer, deque())
        while order and order[0][0] < before:
            offset, name = order.popleft()
            given = self._given.get((sequencer, name))
            if given is not None and given.offset <= offset:
                del self._given[sequencer, name]


def call_digest(request: Request) -> bytes:
    """Names what is asked, so that an id that asks for something else is noticed."""
    return digest(encode((request.operator, request.key, request.function, request.arguments)))


def reused(name: str) -> Aborted:
    """The reply to a request id that was used for another call."""
    return Aborted("RequestIdReused", (name,))


def _parted(outcome: bytes | Aborted) -> tuple[bytes | None, Aborted | None]:
    return (None, outcome) if isinstance(outcome, Aborted) else (outcome, None)


def _reply(epoch: int, n: int, request: Request, tid: int, outcome: bytes | Aborted) -> Reply:
    result, failure = _parted(outcome)
    return Reply(epoch, n, request.id, request.sequencer, request.offset, tid, result, failure)


def ascending(replies: Iterable[Reply]) -> Iterator[Reply]:
    """The replies of one partition without those that a second owner has written again."""
    last = (0, 0)
    for reply in replies:
        if (reply.epoch, reply.n) > last:
            last = reply.epoch, reply.n
            yield reply
