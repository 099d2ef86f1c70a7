"""The protocol's parts, one at a time: admission, the ledger's rules, garbage, functions that are not deterministic."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transactional import Aborted, Context, Operator, Program
from transactional import events as e
from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.epochs.appends import AppendCalls, AppendCommit, AppendEpochs, AppendReply
from transactional.epochs.ledger import Ledger, decide
from transactional.epochs.messages import Contribution, Cut, Kind, RoundBarrier, to_bytes
from transactional.epochs.sequencer import EpochConfig
from transactional.node import TransactionNode
from transactional.requests.requests import RequestAdmission, WireRequest, request_record

WINDOW = 5


def counters() -> Program:
    """One operator in two partitions."""
    counter = Operator("counter", partitions=2)

    @counter.register
    async def add(ctx: Context, amount: int) -> int:
        ctx.put((ctx.get() or 0) + amount)
        return ctx.get()

    return Program("counters", [counter])


def asked(name: str, amount: Any = 1, since: int | None = None) -> bytes:
    return request_record(WireRequest(name, "counter", "k", "add", [amount], since))


# --- admission ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1)), max_size=30), st.integers(0, 30))
def test_admission_begun_a_window_early_decides_as_one_that_has_read_all(
    asks: list[tuple[str, int]], start: int
) -> None:
    program = counters()
    whole, late = RequestAdmission(program, 0, 1, WINDOW), RequestAdmission(program, 0, 1, WINDOW)
    for offset, (name, amount) in enumerate(asks):
        expected = whole.admit(offset, asked(name, amount))
        if offset >= start - WINDOW:
            decided = late.admit(offset, asked(name, amount))
            assert offset < start or decided == expected


def test_an_id_is_known_for_a_window_and_an_older_retry_is_refused_by_name() -> None:
    admission = RequestAdmission(counters(), 0, 1, WINDOW)
    kinds = [admission.admit(offset, asked("x"))[0].kind for offset in (0, 5, 11)]
    assert kinds == [Kind.RUN, Kind.REPEAT, Kind.RUN]
    assert admission.admit(20, asked("x", since=14))[0].kind is Kind.REFUSE
    assert admission.admit(21, asked("x", since=16))[0].kind is Kind.REPEAT, "its partition says that it expired"
    assert admission.admit(33, asked("x", since=28))[0].kind is Kind.RUN


@pytest.mark.parametrize("value", [b"", b"{", b"\xff", b'{"id": 5}', b'{"id":"' + b"i" * 300 + b'"}', b"[" * 100_000])
def test_records_that_are_no_requests_are_refused(value: bytes) -> None:
    admission = RequestAdmission(counters(), 1, 2, WINDOW)
    (request,) = admission.admit(3, value)
    assert (request.kind, request.offset) == (Kind.REFUSE, 3)


# --- the ledger -----------------------------------------------------------------------------------------------------


def test_the_first_cut_that_goes_on_from_the_last_one_wins() -> None:
    ledger = Ledger(counters(), 1)
    for cut in (
        Cut(0, 1, 0, 4, 4, 10, []),
        Cut(0, 1, 0, 7, 7, 11, []),  # too late
        Cut(0, 2, 7, 9, 2, 12, []),  # goes on from the loser
        Cut(0, 2, 4, 6, 2, 13, []),
    ):
        ledger.apply(to_bytes(cut))
    assert ledger.next_cut(0) == (3, 6)
    assert [ledger.epoch(number).cuts[0].time_ms for number in (1, 2)] == [10, 13]
    assert [ledger.tid(2, 0, index) for index in (0, 1)] == [4, 5]


def test_counters_of_all_sequencers_begin_an_epoch_where_the_busiest_ended() -> None:
    ledger = Ledger(counters(), 2)
    ledger.apply(to_bytes(Cut(0, 1, 0, 5, 5, 0, [])))
    ledger.apply(to_bytes(Cut(1, 1, 0, 1, 1, 0, [])))
    for s in (0, 1):
        ledger.apply(to_bytes(Cut(s, 2, (5, 1)[s], 9, 1, 0, [])))
    assert [ledger.tid(2, s, 0) for s in (0, 1)] == [10, 11]


def test_a_conflict_outranks_an_exception_and_the_first_call_chain_names_it() -> None:
    early, late = Aborted("Early"), Aborted("Late")
    parts: list[Contribution | None] = [
        Contribution([3], [], [], [(1, ((0,),), late), (3, (), early)]),
        Contribution([], [4], [], [(1, (), early)]),
        Contribution([5], [6], [5, 6], []),
    ]
    decision = decide(counters(), parts)
    assert decision.rerun == (3, 4, 5)
    assert decision.failed[1] == early and decision.failed[6].kind == "LimitExceeded"


def test_garbage_on_the_internal_topics_is_counted_and_passed_over() -> None:
    node = TransactionNode(counters(), 1)
    node.step(e.PartitionTaken(0), 0)
    junk = [b"", b"junk", to_bytes(RoundBarrier(7, 1, 1, [], None)), to_bytes(Cut(9, 1, 0, 0, 0, 0, []))]
    assert node.step(e.EpochsRead(junk, 4), 0) == []
    assert node.step(e.CallsRead(0, [0, 1], [b"", b"junk"]), 0) == []
    assert (node.ledger.bad_messages, node.bad_messages) == (3, 2)


# --- one node, its own log ------------------------------------------------------------------------------------------


class Alone:
    """One node that owns everything and reads what it writes."""

    def __init__(self, program: Program, commits: dict[int, list[bytes]] | None = None) -> None:
        self.commits: dict[int, list[bytes]] = {p: [] for p in range(program.partitions)}
        self.epochs: list[bytes] = []
        self.calls: dict[int, list[bytes]] = {p: [] for p in range(program.partitions)}
        self.replies: list[bytes] = []
        self.replies_of: dict[int, list[bytes]] = {p: [] for p in range(program.partitions)}
        self.node = TransactionNode(program, 1, EpochConfig(interval_ms=0))
        self.deliver(e.SequencerTaken(0))
        for partition in self.calls:
            self.deliver(e.PartitionTaken(partition, commits=commits[partition] if commits else ()))

    def deliver(self, event: e.Event) -> None:
        for append in self.node.step(event, 0):
            match append:
                case AppendEpochs(value):
                    self.epochs.append(value)
                case AppendCalls(partition, value):
                    self.calls[partition].append(value)
                case AppendReply(partition, value):
                    self.replies.append(value)
                    self.replies_of[partition].append(value)
                case AppendCommit(partition, value):
                    self.commits[partition].append(value)

    def send(self, values: list[bytes]) -> None:
        start = self.node.sequencers[0].position
        offsets = list(range(start, start + len(values)))
        self.deliver(e.RequestsRead(0, offsets, values, start + len(values)))
        while self.settle():
            pass

    def settle(self) -> bool:
        before = len(self.epochs), len(self.replies)
        at = self.node.ledger.position
        self.deliver(e.EpochsRead(self.epochs[at:], len(self.epochs)))
        for partition, values in self.calls.items():
            at = self.node.partitions[partition].position
            self.deliver(e.CallsRead(partition, list(range(at, len(values))), values[at:]))
        return (len(self.epochs), len(self.replies)) != before


def test_nothing_is_written_while_nothing_is_asked() -> None:
    alone = Alone(counters())
    alone.send([asked("a")])
    written = len(alone.epochs)
    for _ in range(10):
        alone.deliver(e.Ticked())
        alone.settle()
    assert len(alone.epochs) == written and len(alone.replies) == 1


def test_a_new_owner_of_everything_writes_nothing_again_but_replies() -> None:
    alone = Alone(counters())
    alone.send([asked(f"r{number}") for number in range(20)])
    other = Alone(counters())
    other.epochs, other.calls, other.replies = list(alone.epochs), {p: list(v) for p, v in alone.calls.items()}, []
    while other.settle():
        pass
    assert other.epochs == alone.epochs and other.calls == alone.calls
    assert other.replies == alone.replies


def test_a_new_owner_keeps_what_was_logged_and_runs_nothing_of_it_again() -> None:
    ran = count()
    steps = Operator("steps", partitions=2)

    @steps.register
    async def step(ctx: Context) -> int:
        next(ran)
        ctx.put((ctx.get() or 0) + 1)
        return ctx.get()

    program = Program("steps", [steps])
    alone = Alone(program)
    for number in range(5):  # epochs without conflicts: those are settled by running them again everywhere
        alone.send([request_record(WireRequest(f"{number}-{key}", "steps", key, "step")) for key in "abcd"])
    before = next(ran)
    last = {p: values[-1:] for p, values in alone.commits.items()}
    junk = {p: [b"junk", *values[:-1], values[0]] for p, values in alone.commits.items()}
    other = Alone(program, junk)
    other.epochs, other.calls = list(alone.epochs), {p: list(v) for p, v in alone.calls.items()}
    while other.settle():
        pass
    assert next(ran) == before + 1 + 4, "only the epoch runs again whose commits are missing"
    assert sorted(other.replies) == sorted(alone.replies)
    assert other.epochs == alone.epochs and other.commits == last
    assert other.node.bad_messages == program.partitions
    for p, partition in other.node.partitions.items():
        assert partition.store.items == alone.node.partitions[p].store.items
        assert partition.replies.changes(whole=True) == alone.node.partitions[p].replies.changes(whole=True)


def test_a_function_that_is_not_deterministic_is_found_by_its_new_owner() -> None:
    drawn = count()
    dice = Operator("dice", partitions=2)

    @dice.register
    async def roll(ctx: Context) -> None:
        ctx.call_async("dice", "other one", "keep", [next(drawn)])

    @dice.register
    async def keep(ctx: Context, number: int) -> None:
        ctx.put(number)

    program = Program("dice", [dice])
    away = next(key for key in map(str, count()) if program.place("dice", key) != program.place("dice", "other one"))
    alone = Alone(program)
    alone.send([request_record(WireRequest("r", "dice", away, "roll"))])
    other = Alone(program)
    other.epochs, other.calls = list(alone.epochs), alone.calls
    with pytest.raises(Nondeterministic, match=r"epoch 1, round 1: .* roll, request 'r'.* offset 0\).* sends"):
        while other.settle():
            pass
