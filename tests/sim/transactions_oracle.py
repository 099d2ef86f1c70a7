"""The reference for a run of the protocol: one plain loop over the requests in commit order."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from tests.sim.transactions_world import World
from transactional import Aborted, Serial
from transactional.epochs.ledger import FIRST_EPOCH, Ledger
from transactional.epochs.messages import Reply
from transactional.external import ContinuedTransaction, is_external_request
from transactional.operators import StateKey, Target
from transactional.requests.replies import Numbered, ReplyBook, ascending, entity_of
from transactional.requests.requests import partition_of
from transactional.state.values import decode, encode
from transactional.state.versioned_values import parted

T = TypeVar("T")
FORGETS_NOTHING = 10_000
"""An ``id_window`` that is longer than any run."""


@dataclass
class Tally:
    """The events of a run, so that a test can demand that it was not trivial."""

    epochs: int = 0
    committed: int = 0
    failed: int = 0
    reruns: int = 0
    postponed: int = 0
    races: int = 0
    sources: int = 0
    abandoned: int = 0
    rounds: int = 0
    crashes: int = 0
    restored: int = 0
    chained: int = 0
    logged: int = 0
    repeated: int = 0
    refused: int = 0
    misplaced: int = 0
    asked: int = 0
    continued: int = 0
    layouts: int = 0
    splits: int = 0
    versions: int = 0
    judged: int = 0
    upgraded: int = 0
    void_cuts: int = 0
    moved_keys: int = 0
    copies: int = 0
    long_batches: int = 0
    moved_replies: int = 0
    partitions_made: int = 0
    strained_copies: int = 0
    strained_versions: int = 0

    def add(self, other: Tally) -> None:
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def each_seed(first: int, count: int, simulate: Callable[[int], T]) -> Iterator[T]:
    """The outcomes of these seeds; a failure names its seed."""
    for seed in range(first, first + count):
        try:
            yield simulate(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


class Check:
    """Of a healed world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tally = Tally(crashes=world.crashes, restored=world.restored, chained=world.chained, logged=world.logged)
        self.ledger = Ledger(world.versions.known(), world.sequencers)
        for value in world.epochs_topic():
            self.ledger.apply(value)
        replies = [reply for p in range(world.partitions) for reply in ascending(world.replies(p))]
        self.replies = sorted(replies, key=lambda each: each.epoch)
        self.first: dict[int, Numbered] = {}
        for each in self.replies:
            if each.reply.tid >= 0:
                self.first.setdefault(each.reply.tid, each)

    def run(self) -> Tally:
        """Raises ``AssertionError`` with the first difference."""
        self.check_requests()
        serial = Serial(self.world.program)
        for number in range(FIRST_EPOCH, self.ledger.done + 1):
            serial.program = self.ledger.versions.program(number)
            for tid, time_ms in self.commit_order(number):
                if not self.check_asking(serial, number, tid, time_ms):
                    self.check_one(serial, number, tid, time_ms)
        self.check_states(serial.state)
        self.tally.epochs, self.tally.void_cuts = self.ledger.done, self.ledger.void_cuts
        self.tally.layouts = self.ledger.layouts.newest.number
        self.tally.splits = sum(each in self.world.splits for _, each in self.ledger.layouts.since(0))
        self.tally.versions = self.ledger.versions.newest.number
        self.tally.upgraded = sum(parted(value)[0] > 1 for value in serial.state.values())
        handovers = [each for number in range(self.ledger.done + 1) for each in self.ledger.handovers.known(number)]
        self.tally.moved_keys = sum(each.keys for each in handovers)
        self.tally.long_batches = sum(
            len(each.sends) > len({to for to, _ in each.sends}) for each in self.ledger.copies.state(0).batches
        )
        self.tally.copies = sum(len(each.sends) for each in self.ledger.copies.state(0).batches)
        self.tally.moved_replies = sum(each.replies for each in handovers)
        self.tally.partitions_made = self.world.partitions - self.world.program.partitions
        return self.tally

    # --- commit order -----------------------------------------------------------------------------------------------

    def commit_order(self, number: int) -> list[tuple[int, int]]:
        """(TID, time) of the transactions that end in this epoch."""
        epoch = self.ledger.epoch(number)
        assert epoch.outcome is not None, f"epoch {number} is not done"
        times = self.times(number)
        again = [tid for tid, _, _ in epoch.outcome.outcomes]
        assert again == sorted(again), f"epoch {number} was not run again in TID order: {again}"
        at_once = sorted(tid for tid, first in self.first.items() if first.epoch == number and tid not in set(again))
        self.tally.reruns += len(again)
        self.tally.postponed += len(epoch.outcome.postponed)
        self.tally.rounds += epoch.last_round or 0
        last = epoch.barriers.get(epoch.last_round or 0, {}).values()
        parts = [barrier.contribution for barrier in last if barrier.contribution is not None]
        self.tally.races += sum(len(part.races) for part in parts)
        assert epoch.decision is not None
        gone = {*epoch.decision.rerun, *epoch.decision.failed}
        sources = [source for part in parts for _, source in part.reads_from]
        self.tally.sources += len(sources)
        self.tally.abandoned += sum(source in gone for source in sources)
        return [(tid, times[tid]) for tid in (*at_once, *again)]

    def times(self, number: int) -> dict[int, int]:
        """Times of the TIDs of all epochs up to this one."""
        return {
            self.ledger.tid(each, s, index): cut.time_ms
            for each in range(FIRST_EPOCH, number + 1)
            for s, cut in self.ledger.epoch(each).cuts.items()
            for index in range(cut.count)
        }

    def check_one(self, serial: Serial, number: int, tid: int, time_ms: int) -> None:
        assert tid in self.first, f"transaction {tid} was run again in epoch {number} and has no reply"
        reply = self.first[tid].reply
        asked = self.request(reply)
        target = Target(asked["operator"], asked["key"], asked["function"], encode(asked["args"]))
        expected = serial.run(target, tid, time_ms, continued_of(asked), calls_external=False)
        got = _outcome(reply)
        assert got == expected, f"epoch {number}, TID {tid}, {asked}: replied {got!r}, in series {expected!r}"
        self.tally.failed += isinstance(expected, Aborted)
        self.tally.committed += not isinstance(expected, Aborted)

    def check_asking(self, serial: Serial, number: int, tid: int, time_ms: int) -> bool:
        """Whether it ended asking for an external call when it was run again; in series it does too."""
        epoch = self.ledger.epoch(number)
        assert epoch.outcome is not None
        for other, request, outcome in epoch.outcome.outcomes:
            if other == tid and is_external_request(outcome):
                target = Target(request.operator, request.key, request.function, request.arguments)
                assert serial.run(target, tid, time_ms, request.continued, calls_external=False) == outcome
                self.tally.asked += 1
                return True
        return False

    def request(self, reply: Reply) -> dict[str, Any]:
        return _listed(json.loads(self.world.request_values(reply.sequencer)[reply.offset]))[reply.index]

    # --- requests and replies ---------------------------------------------------------------------------------------

    def check_requests(self) -> None:
        """Every id runs once; a repeat gets the same reply or none of its own; what cannot run is told why."""
        by_request: dict[tuple[int, int, int], list[Reply]] = {}
        for epoch, _, reply in self.replies:
            by_request.setdefault((reply.sequencer, reply.offset, reply.index), []).append(reply)
            before = self.world.after[reply.sequencer, reply.offset]
            assert epoch > before, f"{reply} comes after a reply of epoch {before} was there"
        for sequencer in range(self.world.sequencers):
            self.join_continuations(sequencer, by_request)
            calls: dict[str, tuple[Any, Reply]] = {}
            for offset, value in enumerate(self.world.request_values(sequencer)):
                for index, asked in enumerate(_requests(value)):
                    if asked is not None and "continued" in asked:
                        continue
                    found = by_request.pop((sequencer, offset, index), [])
                    if asked is not None and partition_of(asked["id"], self.world.sequencers) != sequencer:
                        assert [_kind(reply) for reply in found] == ["WrongPartition"], f"{asked} got {found}"
                        self.tally.misplaced += 1
                        continue
                    self.check_request(asked, found, calls)
        assert not by_request, f"replies to nothing: {by_request}"

    def join_continuations(self, sequencer: int, by_request: dict[tuple[int, int, int], list[Reply]]) -> None:
        """The reply after external calls belongs to the request, and depends on the answers logged first."""
        begun: dict[str, tuple[int, int, int]] = {}
        logged: dict[tuple[str, int], ContinuedTransaction] = {}
        for offset, value in enumerate(self.world.request_values(sequencer)):
            for index, asked in enumerate(_requests(value)):
                if asked is None or asked["function"] not in ("run", "rum"):
                    continue
                place = sequencer, offset, index
                continued = continued_of(asked)
                if continued is None and [_kind(each) for each in by_request.get(place, [])] == ["UnknownFunction"]:
                    continue  # its id may come again
                begun.setdefault(asked["id"], place)
                if continued is not None:
                    first = logged.setdefault((asked["id"], len(continued.answers)), continued)
                    found = by_request.pop(place, [])
                    assert not found or continued == first, f"{found} rests on what was logged later"
                    by_request.setdefault(begun[asked["id"]], []).extend(found)
                    self.tally.continued += len(found)

    def check_request(
        self, asked: dict[str, Any] | None, found: list[Reply], calls: dict[str, tuple[Any, Reply]]
    ) -> None:
        if asked is None or not self.is_known(asked, found):
            kind = "MalformedRequest" if asked is None else "UnknownFunction"
            assert [_kind(reply) for reply in found] == [kind], f"{asked!r} got {found}"
            self.tally.refused += 1
            self.tally.judged += asked is not None and asked["function"] == "run"
        elif asked["id"] not in calls:
            assert len(found) == 1, f"{asked} got {found}"
            calls[asked["id"]] = asked, found[0]
        elif calls[asked["id"]][0] != asked:
            assert [_kind(reply) for reply in found] == ["RequestIdReused"], f"{asked} got {found}"
            self.tally.refused += 1
        else:
            original = calls[asked["id"]][1]
            assert all(_outcome(reply) == _outcome(original) for reply in found), (
                f"{asked} got {found} after {original}"
            )
            assert len(found) <= 1
            self.tally.repeated += len(found)

    def is_known(self, asked: dict[str, Any], found: list[Reply]) -> bool:
        """Whether the program of the epoch in which it was cut has the function; it is refused there if not."""
        if not found:
            return True  # the reply to the first one of its id is still to come
        sequencer, offset = found[0].sequencer, found[0].offset
        cut = next(
            number
            for number in range(FIRST_EPOCH, self.ledger.done + 1)
            if (made := self.ledger.epoch(number).cuts.get(sequencer)) is not None and offset < made.to_offset
        )
        operator = self.ledger.versions.program(cut).operators.get(asked["operator"])
        return operator is not None and asked["function"] in operator.functions

    # --- state ------------------------------------------------------------------------------------------------------

    def check_states(self, expected: dict[StateKey, bytes]) -> None:
        """Every owner has finished the last epoch and holds the state of the plain loop."""
        owned, last = set(), self.ledger.layouts.placement(self.ledger.done + 1)
        for life in self.world.lives:
            for number, partition in life.node.partitions.items():
                mine = {key: value for key, value in expected.items() if last.place(*key) == number}
                assert partition.epoch == self.ledger.done + 1, f"partition {number} stands in epoch {partition.epoch}"
                assert dict(partition.store.everything()) == mine, f"partition {number} differs from the plain loop"
                self.check_remembered(number, partition.replies)
                owned.add(number)
        assert owned == set(range(self.world.partitions))

    def check_remembered(self, number: int, replies: ReplyBook) -> None:
        """Each reply is remembered where its key lives, as it was first given; where ids are not forgotten, all are."""
        last = self.ledger.layouts.placement(self.ledger.done + 1)
        found: dict[tuple[int, str], bytes | Aborted | None] = {}
        for sequencer, _, given in replies.remembered():
            assert (entity := entity_of(given.call)) is not None and last.place(*entity) == number, given
            found[sequencer, given.id] = given.result if given.failure is None else given.failure
        mine = {(reply.sequencer, reply.id): _outcome(reply) for home, reply in self.homes_of_replies if home == number}
        if self.world.config.id_window < FORGETS_NOTHING:
            mine = {name: outcome for name, outcome in mine.items() if name in found}
        assert found == mine, f"partition {number} remembers other replies than the plain loop gives"

    @cached_property
    def homes_of_replies(self) -> list[tuple[int, Reply]]:
        """The first replies, and where they are remembered in the end."""
        last = self.ledger.layouts.placement(self.ledger.done + 1)
        asked = [(self.request(each.reply), each.reply) for each in self.first.values()]
        return [(last.place(request["operator"], request["key"]), reply) for request, reply in asked]


def continued_of(asked: dict[str, Any]) -> ContinuedTransaction | None:
    """The answers that a request record goes on from."""
    return decode(b64decode(asked["continued"]), ContinuedTransaction) if "continued" in asked else None


def _requests(value: bytes) -> list[Any]:
    """The requests of a record; None: it is malformed."""
    try:
        return _listed(json.loads(value))
    except ValueError:
        return [None]


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _outcome(reply: Reply) -> bytes | Aborted | None:
    return reply.result if reply.failure is None else reply.failure


def _kind(reply: Reply) -> str:
    return "" if reply.failure is None else reply.failure.kind
