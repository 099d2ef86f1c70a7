"""Versions of a program: one epoch, one version; requests are judged by the version of their epoch."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from transactional import Context, Operator, Program, Serial
from transactional import events as e
from transactional.epochs.appends import Append, AppendEpochs, AppendReply
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import Cut, NewProgram, Reply, epoch_messages, reply_message, to_bytes
from transactional.epochs.sequencer import EpochConfig
from transactional.errors import ProgramMissing
from transactional.node import TransactionNode
from transactional.operators import Limits
from transactional.program_versions import KnownPrograms, ProgramVersion, VersionHistory
from transactional.requests.requests import WireRequest, request_record
from transactional.state.snapshots import LedgerState
from transactional.state.values import decode, encode
from transactional.state.versioned_values import parted


def made(
    version: int = 1, *names: str, colocate: str | None = None, name: str = "bank", upgrade: Any = None
) -> Program:
    """A program whose functions have these names, and say which version they are."""
    account = Operator("account", partitions=1, colocate=colocate, upgrade=upgrade)

    async def add(ctx: Context, amount: int) -> list[int]:
        ctx.put((ctx.get() or 0) + amount)
        return [version, ctx.get()]

    for each in names or ("add",):
        account.functions[each] = add
    return Program(name, [account], version=version)


FIRST = made()


def proposed(number: int, program: Program, code: str) -> bytes:
    return to_bytes(NewProgram(ProgramVersion.of(program, number=number, code=code)))


class Alone:
    """One node that owns all; its records of the epochs topic arrive when they are delivered."""

    def __init__(self, *others: Program) -> None:
        known = KnownPrograms(FIRST)
        for number, program in enumerate(others, 1):
            known.add(str(number), program)
        self.node = TransactionNode(known, 1, EpochConfig())
        self.topic: list[bytes] = []
        self.replies: dict[str, Reply] = {}
        self.requests: list[bytes] = []
        for event in (e.SequencerTaken(0), e.PartitionTaken(0)):
            self.node.step(event, 0)

    def take(self, appends: list[Append]) -> list[bytes]:
        for each in appends:
            if isinstance(each, AppendReply):
                self.replies |= {reply.id: reply for reply in reply_message(each.value).replies}
        return [each.value for each in appends if isinstance(each, AppendEpochs)]

    def asks(self, *requests: WireRequest) -> list[bytes]:
        self.requests += [request_record(each) for each in requests]
        return self.reads_requests()

    def reads_requests(self) -> list[bytes]:
        start, values = self.node.sequencers[0].position, self.requests
        read = e.RequestsRead(0, list(range(start, len(values))), values[start:], len(values))
        return self.take(self.node.step(read, 0))

    def reads(self, values: list[bytes]) -> list[bytes]:
        self.topic += values
        return self.take(self.node.step(e.EpochsRead(values, len(self.topic)), 0))

    def settles(self, values: list[bytes]) -> None:
        while values:
            values = self.reads(values)

    def outcome(self, name: str) -> Any:
        return self.replies[name].outcome


def cut_sends(values: list[bytes]) -> list[tuple[int, bytes]]:
    (cut,) = (each for value in values for each in epoch_messages(value) if isinstance(each, Cut))
    return cut.sends


def asked(name: str, function: str = "add", operator: str = "account") -> WireRequest:
    return WireRequest(name, operator, "alice", function, [1])


def test_a_version_holds_from_the_first_epoch_without_a_cut_and_the_first_of_its_number_wins() -> None:
    ledger = Ledger(FIRST, 2)
    ledger.apply(to_bytes(Cut(0, 1, 0, 3, 1, 0, [])))
    for number, program, code in ((2, made(9), "9"), (1, made(2), "2"), (1, made(3), "3")):
        ledger.apply(proposed(number, program, code))
    assert [ledger.versions.at(epoch).code for epoch in (1, 2)] == ["", "2"]
    ledger.apply(proposed(2, made(4), "4"))
    assert [ledger.versions.at(epoch).code for epoch in (1, 2, 9)] == ["", "4", "4"]
    assert ledger.versions.since(1) == 2, "the one after it follows at once: it holds in no epoch"
    state = ledger.snapshot()
    restored = Ledger.restored(FIRST, 2, state)
    assert [restored.versions.at(epoch).code for epoch in (1, 2, 9)] == ["", "4", "4"]
    assert Ledger(FIRST, 2).snapshot().programs == [], "without another version nothing is kept"


def test_a_version_whose_operators_or_job_do_not_fit_is_void() -> None:
    ledger = Ledger(FIRST, 1)
    for program in (made(2, name="shop"), made(2, colocate="/"), Program("bank", [Operator("account", partitions=2)])):
        ledger.apply(proposed(1, program, "2"))
    assert ledger.versions.is_first
    ledger.apply(encode(["program", [1, "bank", "2", 0, "", [], {}]]))
    assert ledger.bad_messages == 1 and ledger.versions.is_first


def test_a_cut_under_another_version_than_its_epochs_is_as_if_it_were_not_there() -> None:
    ledger = Ledger(FIRST, 2)
    ledger.apply(to_bytes(Cut(0, 1, 0, 1, 1, 0, [])))
    ledger.apply(proposed(1, made(2), "2"))
    ledger.apply(to_bytes(Cut(1, 1, 0, 0, 0, 0, [], program=1)))
    assert ledger.next_cut(1) == (1, 0), "epoch 1 has a cut before the version, so it goes on as it began"
    ledger.apply(to_bytes(Cut(1, 1, 0, 0, 0, 0, [])))
    ledger.apply(to_bytes(Cut(0, 2, 1, 5, 4, 0, [])))
    assert ledger.next_cut(0) == (2, 1)
    ledger.apply(to_bytes(Cut(0, 2, 1, 5, 4, 0, [], program=1)))
    assert ledger.next_cut(0) == (3, 5) and ledger.void_cuts == 2


def test_requests_are_judged_and_run_by_the_version_of_their_epoch_also_if_they_were_cut_too_early() -> None:
    alone = Alone(made(2, "add", "plus"))
    early = alone.asks(asked("a"), asked("b", "plus"))
    again = alone.reads([proposed(1, made(2, "add", "plus"), "1"), *early])
    assert alone.node.sequencers[0].position == 0 and not again, "it reads them once more"
    alone.settles(alone.reads_requests())
    assert alone.outcome("a") == [2, 1] and alone.outcome("b") == [2, 2]
    assert alone.node.ledger.void_cuts == 1


def test_requests_that_both_versions_admit_are_not_read_once_more() -> None:
    alone = Alone(made(2))
    early = alone.asks(asked("a"))
    again = alone.reads([proposed(1, made(2), "1"), *early])
    assert alone.node.sequencers[0].position == 1
    (cut,) = (each for value in again for each in epoch_messages(value) if isinstance(each, Cut))
    assert cut.program == 1


def test_an_epoch_that_is_cut_before_the_version_runs_by_the_one_before() -> None:
    alone = Alone(made(2, "plus"))
    early = alone.asks(asked("a"))
    alone.settles(alone.reads([*early, proposed(1, made(2, "plus"), "1")]))
    alone.settles(alone.asks(asked("b"), asked("c", "plus")))
    assert alone.outcome("a") == [1, 1] and alone.outcome("c") == [2, 2]
    assert alone.replies["b"].failure is not None and alone.replies["b"].failure.kind == "UnknownFunction"


def test_a_node_without_the_version_of_an_epoch_stops_by_its_name() -> None:
    alone = Alone()
    alone.reads([proposed(1, made(2), "1")])
    with pytest.raises(ProgramMissing, match=r"bank .version 2, code 1. of job 'bank' is not at this node"):
        alone.settles(alone.asks(asked("a")))


def test_values_keep_the_version_that_has_written_them_and_are_upgraded_when_they_are_read() -> None:
    def in_cents(value: int, before: int) -> int:
        return value * 100 if before == 1 else value

    alone = Alone(made(2, upgrade=in_cents))
    alone.settles(alone.asks(asked("a")))
    store = alone.node.partitions[0].store
    assert store.read(("account", "alice")) == encode(1), "version 1 is not kept: its values are as they always were"
    alone.settles(alone.reads([proposed(1, made(2, upgrade=in_cents), "1")]))
    assert store.read(("account", "alice")) == encode(1), "nothing is written by reading"
    alone.settles(alone.asks(asked("b")))
    assert alone.outcome("b") == [2, 101]
    assert parted(store.read(("account", "alice"))) == (2, encode(101))
    alone.settles(alone.asks(asked("c")))
    assert alone.outcome("c") == [2, 102], "a value of this version is not upgraded"


def test_going_back_is_another_version() -> None:
    alone = Alone(made(2, upgrade=lambda value, _: value + 100))
    back = ProgramVersion.of(FIRST, number=2)
    alone.settles(alone.reads([proposed(1, made(2), "1")]))
    alone.settles(alone.asks(asked("a")))
    alone.settles(alone.reads([to_bytes(NewProgram(back))]))
    alone.settles(alone.asks(asked("b")))
    assert alone.outcome("a") == [2, 1] and alone.outcome("b") == [1, 2]


def test_an_upgrade_that_fails_or_gives_no_value_fails_the_read_with_the_entity() -> None:
    class Typed(msgspec.Struct):
        name: str

    def broken(value: Any, before: int) -> Any:
        raise KeyError(before)

    for upgrade, kind, text in (
        (broken, None, "the state of account 'alice': its upgrade from version 1 raised KeyError: 1"),
        (lambda value, _: {value}, None, "its upgrade from version 1 gave what set cannot travel"),
        (lambda value, _: value, Typed, "the state of account 'alice': its upgrade from version 1 gave what"),
    ):
        serial = Serial(FIRST)
        serial.call("account", "alice", "add", [1])
        serial.program = made(2, upgrade=upgrade)
        serial.program.operators["account"].state = kind
        found = serial.call("account", "alice", "add", [1])
        assert found.kind == "BadValue" and text in found.arguments[0]


def test_versions_and_upgrades_that_cannot_be_are_refused() -> None:
    async def later(value: Any, before: int) -> Any:
        return value

    with pytest.raises(ValueError, match="a version is 1 to 2147483647, not 0"):
        Program("bank", FIRST.operators.values(), version=0)
    with pytest.raises(TypeError, match="the upgrade of operator 'account' is async"):
        Operator("account", partitions=1, upgrade=later)


def test_an_outline_judges_as_its_program_does() -> None:
    program = Program("bank", FIRST.operators.values(), limits=Limits(max_value_bytes=50))
    outline = ProgramVersion.of(program).outline
    for operator, function, argument in (("account", "ad", 1), ("acount", "add", 1), ("account", "add", "x" * 50)):
        failures = []
        for each in (program, outline):
            with pytest.raises((LookupError, ValueError)) as failure:
                each.target(operator, "alice", function, [argument])
            failures.append(str(failure.value))
        assert failures[0] == failures[1]
    assert outline.target("account", "alice", "add", [1]) == program.target("account", "alice", "add", [1])


def test_of_several_versions_each_judges_from_its_own_first_offset_on() -> None:
    versions = VersionHistory(2, KnownPrograms(FIRST))
    for number, name in ((1, "plus"), (2, "minus")):
        added = ProgramVersion.of(made(number + 1, name), number=number, code=name)
        assert versions.add(2 * number, [2 * number, 1], [5 * number, 0], added)
    assert [sorted(versions.judge(0, at).operators["account"].functions) for at in (4, 5, 9, 10)] == [
        ["add"], ["plus"], ["plus"], ["minus"],
    ]  # fmt: skip
    assert versions.judging(1) == 0, "the other one has not cut so far"
    versions.cut(1, 2, 7)
    versions.cut(1, 4, 8)
    assert [sorted(versions.judge(1, at).operators["account"].functions) for at in (6, 7, 8)] == [
        ["add"], ["plus"], ["minus"],
    ]  # fmt: skip


def test_a_sequencer_that_learns_of_two_versions_at_once_judges_each_request_by_its_own() -> None:
    alone = Alone(made(2, "add"), made(3, "plus"))
    early = alone.asks(asked("a"))
    alone.topic = []
    late = alone.asks(asked("b"))
    assert not late, "the second waits for the next cut"
    records = [proposed(1, made(2, "add"), "1"), to_bytes(Cut(0, 1, 0, 1, 1, 0, cut_sends(early), True, program=1))]
    alone.reads([*records, proposed(2, made(3, "plus"), "2")])
    assert alone.node.sequencers[0].position == 0, "the second has no function any more: all is read again"


def test_checkpoints_and_cuts_of_the_release_before_are_read() -> None:
    alone = Alone()
    alone.reads(alone.asks(asked("a")))
    state = alone.node.ledger.snapshot()
    fields = decode(encode(state))[: LedgerState.__struct_fields__.index("programs")]
    assert state.programs == []
    assert Ledger.restored(FIRST, 1, decode(encode(fields), LedgerState)).snapshot() == state
    *before, program = decode(encode(Cut(0, 1, 0, 1, 1, 0, [])))
    assert program == 0
    (cut,) = epoch_messages(encode(before))
    assert isinstance(cut, Cut) and Ledger(FIRST, 1).fits(cut)
