"""A sequencer: cuts its request partition into epochs and forwards the requests of the winning cuts.

Source: Styx, section 5.1. Deviation: a cut is a record of which the first wins, so a sequencer needs no identity beyond
its partition, and any node may take it over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from transactional.conflicts.nondeterminism import cut_otherwise
from transactional.epochs.appends import Append, AppendCalls, AppendEpochs
from transactional.epochs.copies import COPY_BYTES, COPY_WINDOW_BYTES, PORTION_BYTES, SLICE_ROWS
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import Addressed, Cut, Forward, Kind, Request, addressed, to_bytes
from transactional.epochs.pieces import COMPRESS_BYTES, PIECE_BYTES
from transactional.layout import Placement
from transactional.operators import Program
from transactional.requests.requests import RequestAdmission


@dataclass(frozen=True, slots=True)
class EpochConfig:
    """When an epoch is cut. Idle sequencers cut only where others do.

    ``max_requests`` and ``max_bytes`` (of arguments) are of one cut: there are more conflicts in large ones, and small
    ones cost more for each request. The first request waits ``interval_ms`` for more. Up to ``ahead`` epochs are cut
    before the one in work is done: the second one when the first is about to end, or a cut is full. An id is known for
    ``id_window`` requests, and offsets. Messages between partitions in a round go through ``epochs`` as long as all of
    them have at most ``inline_bytes``, an even share for each; the same on all nodes. Records of more than
    ``compress_bytes`` are compressed, and cut into pieces of ``piece_bytes``. Ahead of a move a partition copies
    ``copy_bytes`` in a step, and up to ``copy_window_bytes`` in a batch; about ``portion_bytes`` a node move at once.
    A step of a move looks through ``slice_rows`` keys.
    ``answer_key``: the job's, with which nodes prove that they have written what came of external calls; empty: none is
    required.
    """

    max_requests: int = 400
    max_bytes: int = 1 << 18
    interval_ms: int = 0
    ahead: int = 2
    id_window: int = 20_000
    inline_bytes: int = 1 << 15
    compress_bytes: int = COMPRESS_BYTES
    piece_bytes: int = PIECE_BYTES
    copy_bytes: int = COPY_BYTES
    copy_window_bytes: int = COPY_WINDOW_BYTES
    portion_bytes: int = PORTION_BYTES
    slice_rows: int = SLICE_ROWS
    answer_key: bytes = field(default=b"", repr=False)


READ_AHEAD_CUTS = 4
"""Requests for so many full cuts are read early, and no more: what waits beyond that waits on the log."""


def first_needed(ledger: Ledger, sequencer: int, done: int | None = None) -> int:
    """Where the first epoch that is not done (or another one) begins in a request partition."""
    first_open = ledger.epoch((ledger.done if done is None else done) + 1).cuts.get(sequencer)
    return ledger.next_cut(sequencer)[1] if first_open is None else first_open.from_offset


class Sequencer:
    """The owner's view of one request partition. Begin to read at ``position``.

    ``start``: what was before is gone, or need not be read, since no partition needs it.
    """

    def __init__(self, ledger: Ledger, number: int, config: EpochConfig, start: int = 0) -> None:
        self.ledger = ledger
        self.number = number
        self.config = config
        self._start = start
        self._begin()
        self._waiting_since_ms: int | None = None
        self._last_ms = 0
        self._sent_cut: Cut | None = None
        self._last_count = 0  # requests in the cut before
        self._forwarded = ledger.done

    def _begin(self) -> None:
        """Read, and judge, from where ids count."""
        ledger, number, config = self.ledger, self.number, self.config
        self.admission = RequestAdmission(
            ledger.program, number, ledger.sequencers, config.id_window, config.answer_key
        )
        needed = first_needed(ledger, number)
        assert self._start <= needed, f"sequencer {number}: requests from {needed} on are needed, not {self._start}"
        self.position = max(self._start, needed - config.id_window)
        self._requests: list[Request] = []  # of epochs that are not done
        self._offsets: list[int] = []  # theirs
        self._judging = ledger.versions.judging(number)

    @property
    def waiting(self) -> bool:
        """Whether requests wait to be cut."""
        return bool(self._offsets) and self._offsets[-1] >= self.ledger.next_cut(self.number)[1]

    @property
    def pending(self) -> int:
        """Requests that were read and are in no cut that is on the log."""
        return len(self._offsets) - bisect_left(self._offsets, self.ledger.next_cut(self.number)[1])

    @property
    def is_behind(self) -> bool:
        """Whether so much comes that a full cut may be made of it, before its turn."""
        return max(self._last_count, self.pending) * 8 > self.config.max_requests

    @property
    def waits_for_time(self) -> bool:
        """Whether there would be a cut if it were later."""
        if not self.waiting or not self.config.interval_ms:
            return False
        number, start = self.ledger.next_cut(self.number)
        on_its_way = self._sent_cut is not None and self._sent_cut.epoch >= number
        return not on_its_way and self._is_due(number) and self.position >= start

    @property
    def has_room(self) -> bool:
        """Whether more may be read: what others have cut always, and else only so much ahead of the cuts."""
        behind = self.position < self.ledger.next_cut(self.number)[1]
        return behind or self.pending < READ_AHEAD_CUTS * self.config.max_requests

    @property
    def held(self) -> int:
        """Requests that are held: those of epochs that are not done."""
        return len(self._requests)

    @property
    def wants_requests(self) -> bool:
        """Whether something could be cut if it were there; else it may wait where it is."""
        number, start = self.ledger.next_cut(self.number)
        if self.position < start:
            return True
        if not self.has_room:  # else who waits for them would be woken again and again
            return False
        return (self._sent_cut is None or self._sent_cut.epoch < number) and self._is_due(number)

    def read(self, offsets: Sequence[int], values: Sequence[bytes], next_offset: int) -> None:
        """Records of the request partition, from ``position`` on."""
        versions = self.ledger.versions
        self.admission.versions = None if versions.is_own else versions
        for offset, value in zip(offsets, values, strict=True):
            admitted = self.admission.admit(offset, value)
            self._requests += admitted
            self._offsets += [offset] * len(admitted)
        self.position = next_offset

    @property
    def opens(self) -> int:
        """The last epoch that it has cut, as far as it knows."""
        return self.ledger.next_cut(self.number)[0] - 1 if self._sent_cut is None else self._sent_cut.epoch

    def advance(self, now_ms: int, out: list[Append], opened: int = 0) -> bool:
        """Forward what has won, and cut if it is time; False if there is nothing to do.

        Up to epoch ``opened`` this node is known to have cut.
        """
        if self._judging != self.ledger.versions.judging(self.number):
            self._judge_again()
        moved = self._forward_winners(out)
        if (sent := self._sent_cut) is not None and not self.ledger.fits(sent):
            self._sent_cut = None  # void, since another layout or version was proposed before it
        epoch, start = self.ledger.next_cut(self.number)
        if self._sent_cut is not None and self._sent_cut.epoch >= epoch:
            return moved  # on its way to the log
        self._sent_cut = None
        return self._maybe_cut(epoch, start, now_ms, epoch <= opened, out) or moved

    def _judge_again(self) -> None:
        """Of what was read too early, all is read again if another version judges something of it otherwise."""
        versions, before = self.ledger.versions, self._judging
        start, self._judging = versions.begins(self.number, before), versions.judging(self.number)
        early = self._requests[bisect_left(self._offsets, start) :]
        if any(not _judged_alike(each, versions.judge(self.number, each.offset)) for each in early):
            self._begin()

    # --- cutting ----------------------------------------------------------------------------------------------------

    def _maybe_cut(self, number: int, start: int, now_ms: int, is_open: bool, out: list[Append]) -> bool:
        if not self.waiting:
            self._waiting_since_ms = None
        elif self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        if number > self.ledger.done + self.config.ahead or self.position < start:
            return False
        since_ms = self._waiting_since_ms
        waited = (
            since_ms is not None and not 0 <= now_ms - since_ms < self.config.interval_ms
        )  # a clock may be set back
        first = bisect_left(self._offsets, start)
        full = len(self._offsets) - first >= self.config.max_requests
        if not (is_open or (waited and self._is_due(number)) or full or self.ledger.is_open(number)):
            return False
        behind = self._end_of_cut(first)
        pending = self._requests[first:behind]
        end = self.position if behind == len(self._requests) else self._offsets[behind]
        self._last_ms = max(now_ms, self._last_ms)
        placement = self.ledger.layouts.placement(number)
        records = self._records(number, pending, placement)
        sends, inline = self._addressed(records)
        under = placement.number, self.ledger.versions.number(number)
        cut = Cut(self.number, number, start, end, len(pending), self._last_ms, sends, inline, *under)
        if not inline:
            out += [AppendCalls(to, data) for to, data in records]
        out.append(AppendEpochs(to_bytes(cut)))
        self._sent_cut, self._last_count = cut, len(pending)
        self._waiting_since_ms = None
        return True

    def _is_due(self, number: int) -> bool:
        """Whether what is cut now comes at the right time: a request that comes later must not miss a cut that waits.

        The epoch before should be in its last round, as far as the one before that lets guess.
        """
        ledger = self.ledger
        if number != ledger.done + 2:
            return number == ledger.done + 1
        last, current = ledger.epoch(ledger.done), ledger.epoch(number - 1)
        rounds = last.last_round or 1
        if rounds == 1:
            return ledger.is_sequenced(number - 1)
        return len(current.barriers.get(rounds - 1, {})) == ledger.partitions(number - 1)

    def _end_of_cut(self, first: int) -> int:
        """Behind the last request of the cut: whole records, as many as the limits allow, at least one."""
        offsets, left = self._offsets, self.config.max_bytes
        behind = min(len(offsets), first + self.config.max_requests)
        for at in range(first, behind):
            left -= len(self._requests[at].arguments)
            if left < 0:
                behind = max(at, first + 1)
                break
        if first < behind < len(offsets) and offsets[behind] == offsets[behind - 1]:  # inside of a record
            start = bisect_left(offsets, offsets[behind])
            behind = start if start > first else bisect_right(offsets, offsets[behind])
        return behind

    def _records(self, number: int, requests: Sequence[Request], placement: Placement) -> list[tuple[int, bytes]]:
        """One record for each state partition that has a request among these, by partition.

        A request lives where its key does in the epoch of its cut; of one that is refused that is not known.
        """
        by_place: dict[int, Forward] = {}
        places, anywhere = placement.places, self.number % placement.partitions
        for index, request in enumerate(requests):
            refused = request.kind is Kind.REFUSE
            to = anywhere if refused else places[request.operator].partition_of(request.key)
            forward = by_place.get(to)
            if forward is None:
                forward = by_place[to] = Forward(self.number, number, [], [])
            forward.numbers.append(index)
            forward.requests.append(request)
        return [(to, to_bytes(by_place[to])) for to in sorted(by_place)]

    def _addressed(self, records: Addressed) -> tuple[Addressed, bool]:
        return addressed(records, self.config.inline_bytes // self.ledger.sequencers)

    def _between(self, start: int, end: int) -> list[Request]:
        return self._requests[bisect_left(self._offsets, start) : bisect_left(self._offsets, end)]

    # --- forwarding -------------------------------------------------------------------------------------------------

    def _forward_winners(self, out: list[Append]) -> bool:
        """Forward what another owner has cut and perhaps not forwarded; forget what is done."""
        moved = False
        self._forwarded = max(self._forwarded, self.ledger.done)
        while (cut := self.ledger.epoch(self._forwarded + 1).cuts.get(self.number)) is not None:
            if self.position < cut.to_offset:
                break
            if cut != self._sent_cut:
                self._forward_again(cut, out)
                moved = True
            self._forwarded += 1
        if self._offsets and (needed := first_needed(self.ledger, self.number)) > self._offsets[0]:
            old = bisect_left(self._offsets, needed)
            del self._requests[:old], self._offsets[:old]
        return moved

    def _forward_again(self, cut: Cut, out: list[Append]) -> None:
        placement = self.ledger.layouts.placement(cut.epoch)
        records = self._records(cut.epoch, self._between(cut.from_offset, cut.to_offset), placement)
        sends, inline = self._addressed(records)
        if sends != cut.sends:
            raise cut_otherwise(cut, sends, inline=inline)
        if inline:
            return
        epoch = self.ledger.epoch(cut.epoch)
        out += [AppendCalls(to, data) for to, data in records if epoch.barrier(1, to) is None]


def _judged_alike(request: Request, program: Program) -> bool:
    """Whether this version would have admitted it too; False where that is not certain."""
    if request.kind is Kind.REFUSE:
        return False
    operator = program.operators.get(request.operator)
    known = operator is not None and request.function in operator.functions
    return known and len(request.arguments) <= program.limits.max_value_bytes
