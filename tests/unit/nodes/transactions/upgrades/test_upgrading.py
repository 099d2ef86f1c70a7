"""Upgrades on nodes that take turns on a log in memory: who loads what, what is refused, and who may die when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from examples import bank, bank_v2
from holon.fingerprint.version import JobVersion
from nodes.errors import RunFailed
from nodes.log.contract import AddressSpaceFull, Appended, LogFull
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.ownership import programs as p
from nodes.machine.ownership.code_rule import CodeRule
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.clients.patience import Patience
from nodes.transactions.composition import NodeOptions, NodeSurroundings, composed
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.job_start import begin
from nodes.transactions.steps import Clocks, TransactionJob
from nodes.transactions.topics import create_topics
from nodes.transactions.upgrades.programs import NodePrograms
from nodes.transactions.upgrades.proposing import Upgrade, Upgrader
from transactional import Context, Operator, Program
from transactional.describing import version_of
from transactional.epochs.sequencer import EpochConfig
from transactional.errors import ProgramMissing
from transactional.program_versions import ProgramVersion

SEQUENCERS = 2
V1, V2 = "examples.bank:program", "examples.bank_v2:program"
PROGRAMS = {V1: bank.program, V2: bank_v2.program}


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """For heartbeats of nodes that have gone: it is a busy wait here."""
    monkeypatch.setattr("nodes.transactions.upgrades.proposing.LISTEN_S", 0.1)


class Stage:
    """A log, a store, a clock, and nodes of the bank. ``lacking``: versions that no node can load."""

    new_log: Callable[..., MemoryLog] = MemoryLog

    def __init__(self) -> None:
        self.now_ms = 0
        self.log = self.new_log(on_wait=lambda seconds: self.turn())
        self.store = MemoryCheckpoints()
        self.nodes: dict[str, TransactionDriver] = {}
        self.lacking: dict[str, str] = {}
        self.topics = create_topics(self.log, bank.program, SEQUENCERS)
        begin(self.log, self.topics, bank.program, SEQUENCERS, version_of(bank.program))
        self.client = TransactionClient(self.log)

    def start(self, name: str, reference: str = V1, *, accept: bool = False) -> TransactionDriver:
        own = PROGRAMS[reference]
        version = version_of(own)

        def load(wanted: ProgramVersion, _: JobVersion | None) -> Program:
            if wanted.reference in self.lacking:
                raise ProgramMissing(self.lacking[wanted.reference])
            return PROGRAMS[wanted.reference]

        programs = NodePrograms(own, reference, version, accept=accept, load=load)
        job = TransactionJob(own, self.topics, SEQUENCERS, EpochConfig(), programs=programs.known)
        rule = CodeRule("bank", version)
        options = NodeOptions(name, failure_timeout_ms=300, checkpoint_interval_ms=100, rule=rule)
        clocks = Clocks(lambda: self.now_ms, lambda: 1_000_000 + self.now_ms)
        begin(self.log, self.topics, own, SEQUENCERS, version)
        self.nodes[name] = composed(job, options, NodeSurroundings(self.log, self.store, clocks, programs=programs))
        return self.nodes[name]

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += 5
            for name in sorted(self.nodes):
                self.nodes[name].turn()

    def call(self, key: str, function: str, args: Any = None) -> Any:
        return self.client.try_call("account", key, function, args, timeout_s=60)

    def upgrader(self, program: Program = bank_v2.program, reference: str = V2) -> Upgrader:
        return Upgrader(self.log, self.store, program, reference)

    def check(self, program: Program = bank_v2.program, reference: str = V2) -> Upgrade:
        return self.upgrader(program, reference).check(dry_run=True)

    def upgrade(
        self, program: Program = bank_v2.program, reference: str = V2, patience: Patience | None = None
    ) -> Upgrade:
        upgrader = Upgrader(self.log, self.store, program, reference, patience)
        checked = upgrader.check(dry_run=False)
        assert not checked.problems
        return upgrader.propose(checked, 30)


def at_work(*names: str, stage: Stage | None = None) -> Stage:
    stage = Stage() if stage is None else stage
    for name in names:
        stage.start(name)
    stage.turn(200)
    assert stage.call("alice", "deposit", [100]) == 100
    return stage


def test_an_upgrade_holds_from_one_epoch_on_at_all_nodes_and_reads_what_was_stored() -> None:
    stage = at_work("one", "other")
    stage.turn(50)
    checked = stage.check()
    assert checked.problems == [] and checked.values == 1 and checked.since_epoch is None
    assert stage.call("alice", "statement").kind == "UnknownFunction", "a dry run changes nothing"
    made = stage.upgrade()
    assert made.nodes == ["one", "other"] and made.since_epoch is not None
    assert [(made.before.number, made.before.version), (made.after.number, made.after.version)] == [(0, 1), (1, 2)]
    assert stage.call("alice", "statement") == {"cents": 10_000, "last": []}
    assert stage.call("alice", "transfer", ["bob", 30]) == 70
    assert {each.node.ledger.versions.since(1) for each in stage.nodes.values()} == {made.since_epoch}


class Full(MemoryLog):
    """While ``full`` is a part of a topic's name, that one has no room."""

    full: str | None = None

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        if self.full is not None and self.full in topic:
            raise LogFull(f"topic {topic!r}: no space left")
        return super().append(topic, partition, values, **more)


class FullStage(Stage):
    """While no topic has room its nodes wait."""

    new_log = Full

    @property
    def full(self) -> Full:
        assert isinstance(self.log, Full)
        return self.log

    def turn(self, times: int = 1) -> None:
        if self.full.full != "":
            super().turn(times)


@pytest.mark.parametrize(("full", "topic"), [("", "heartbeats"), ("control", "control")])
def test_an_upgrade_waits_for_room_on_a_full_disk_and_says_so_once(full: str, topic: str) -> None:
    """Nodes that wait for room send no heartbeats: they were taken for nodes that do not run."""
    stage = FullStage()
    log = stage.full
    at_work("one", stage=stage)
    told, slept, before = list[str](), list[float](), log.end_offset(stage.topics.control, 0)

    def sleep(seconds: float) -> None:
        assert log.end_offset(stage.topics.control, 0) == before, "it was proposed too early"
        slept.append(seconds)
        log.full = full if len(slept) < 3 else None

    log.full = full
    if full:
        with pytest.raises(LogFull, match="no space left"):
            stage.upgrade()
        with pytest.raises(LogFull, match="no space left"):
            stage.upgrade(patience=Patience(2, sleep=lambda seconds: None))
    else:
        (problem,) = stage.upgrader().check(dry_run=False).problems
        assert problem.startswith("no node of the job is at work") and problem.endswith(
            "one has ended, or waits for room on the log"
        )
        patient = Upgrader(log, stage.store, bank_v2.program, V2, Patience(60, told.append, sleep))
        assert patient.check(dry_run=True).problems and not slept, "a dry run waits for nothing"
    made = stage.upgrade(patience=Patience(60, told.append, sleep))
    assert made.nodes == ["one"] and made.since_epoch is not None and slept == [1.0] * 3
    text = f"topic {f'bank-txn-{topic}'!r}: no space left"
    assert told == [f"waits for room on the log, and nothing is requested until then: {text}"], "once"


def test_a_call_is_made_once_there_is_room_and_runs_once() -> None:
    stage = FullStage()
    log = stage.full
    at_work("one", stage=stage)
    slept, log.full = list[float](), "requests"

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        log.full = None if len(slept) == 2 else "requests"

    outcome, waited = Patience(60, sleep=sleep).with_room(lambda: stage.call("alice", "deposit", [5]))
    assert (outcome, waited, slept) == (105, True, [1.0, 1.0])
    outcome, waited = Patience(60, sleep=sleep).with_room(lambda: stage.call("alice", "deposit", [5]))
    assert (outcome, waited) == (110, False)


def test_an_address_space_that_is_used_up_is_not_waited_for_and_the_last_moment_is_a_part() -> None:
    def used_up() -> None:
        raise AddressSpaceFull("no addresses left")

    slept = list[float]()
    patience = Patience(2.5, sleep=slept.append)
    with pytest.raises(AddressSpaceFull):
        patience.with_room(used_up)
    assert not slept
    with pytest.raises(LogFull):
        patience.with_room(_no_room)
    assert slept == [1.0, 1.0, 0.5] and patience.left_s == 0


def _no_room() -> None:
    raise LogFull("no space left")


@pytest.mark.slow
def test_whoever_takes_over_has_the_version_that_holds_whichever_it_was_started_with() -> None:
    stage = at_work("one")
    stage.upgrade()
    for name, reference in (("two", V2), ("three", V1)):
        del stage.nodes[min(stage.nodes)]
        stage.start(name, reference)
        stage.turn(400)
        assert stage.call("alice", "deposit", [1]) > 100
    assert stage.call("alice", "statement")["last"] == [100, 100]


@pytest.mark.slow
def test_a_node_that_dies_meanwhile_and_the_command_too_hold_nothing_up() -> None:
    stage = at_work("one", "other")
    upgrader = stage.upgrader()
    checked = upgrader.check(dry_run=False)
    with pytest.raises(RunFailed, match="does not hold after 0 s: 0 of 2 nodes have loaded it; one, other have not"):
        upgrader.propose(checked, 0)
    del stage.nodes["other"]
    running = stage.check()
    assert running.problems[0].startswith(f"an upgrade to {V2} runs: ")
    stage.turn(400)
    assert stage.call("alice", "statement") == {"cents": 10_000, "last": []}


def test_a_node_that_cannot_have_the_program_prevents_it_by_name() -> None:
    stage = at_work("one", "other")
    stage.lacking[V2] = "examples.bank_v2:program has code 1 here, and not 2; other is examples.bank_v2.moved"
    upgrader = stage.upgrader()
    with pytest.raises(RunFailed, match=r"not upgraded to examples.bank_v2:program: node one: .* other is examples"):
        upgrader.propose(upgrader.check(dry_run=False), 30)
    assert stage.call("alice", "deposit", [1]) == 101
    del stage.lacking[V2]
    assert stage.upgrade().after.number == 1


def test_a_node_without_the_version_that_holds_stops_by_name_unless_its_own_is_to_take_its_place() -> None:
    stage = at_work("one")
    stage.upgrade()
    stage.lacking[V2] = "gone"
    stage.start("other")
    with pytest.raises(
        ProgramMissing, match=r"job 'bank' has to run examples.bank_v2:program .* gone. .* --accept-code"
    ):
        stage.turn()
    del stage.nodes["other"]
    stage.start("accepted", accept=True)
    stage.turn(10)


def test_a_node_with_a_program_that_was_no_version_of_the_job_is_told_how_to_upgrade(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = at_work("one")
    stage.upgrade()
    account = Operator("account", partitions=4, state=bank_v2.Account, upgrade=bank_v2.upgraded)

    async def statement(ctx: Context) -> str:
        return "third"

    account.register(statement)
    monkeypatch.setitem(PROGRAMS, "third:program", Program("bank", [account], version=3))
    del stage.nodes["one"]
    stage.start("new", "third:program")
    with pytest.raises(
        ProgramMissing, match=r"start this node with examples.bank_v2:program, then holon txn upgrade th"
    ):
        stage.turn()
    del stage.nodes["new"]
    stage.start("confirmed", "third:program", accept=True)
    stage.turn(400)
    assert stage.call("alice", "statement") == "third"


def test_the_program_that_holds_and_one_while_no_node_works_are_refused() -> None:
    stage = at_work("one")
    assert stage.check(bank.program, V1).problems == [
        f"{V1} is the version in force (number 0, code {version_of(bank.program).code})"
    ]
    stage.upgrade()
    assert "is the version in force (number 1" in stage.check().problems[0]
    stage.nodes.clear()
    assert stage.check(bank_v2.program).problems[-1].startswith("no node of the job is at work")


class Retyped(msgspec.Struct):
    balance: str


def broken(value: Any, version: int) -> Any:
    return {"balance": value["saldo"]}


DRAWN = iter(range(1_000))


@pytest.mark.parametrize(
    ("operators", "problems"),
    [
        (
            [Operator("other", partitions=4)],
            ["the state of account 'alice': the program has no such operator, and this one has state"],
        ),
        (
            [Operator("account", partitions=4, colocate="/")],
            ["operator 'account' has 4 partitions, colocate='/', and 4 partitions in the job, where its keys live"],
        ),
        (
            [bank.account, Operator("late", partitions=2)],
            ["operator 'late' is new and has 2 partitions; the others have 4 partitions, as a new one must"],
        ),
        (
            [Operator("account", partitions=4, state=Retyped, upgrade=lambda value, _: value)],
            ["the state of account 'alice': its upgrade from version 1 gave what"],
        ),
        (
            [Operator("account", partitions=4, state=bank.Account, upgrade=broken)],
            ["the state of account 'alice': its upgrade from version 1 raised KeyError: 'saldo'"],
        ),
        (
            [Operator("account", partitions=4, upgrade=lambda value, _: next(DRAWN))],
            ["the state of account 'alice': its upgrade gives other values for the same value"],
        ),
        (
            [Operator("account", partitions=4, state=bank_v2.Account)],
            ["account.balance: stored is int, the code has 'cents' instead: its stored values would be dropped"],
        ),
    ],
)
def test_what_cannot_go_on_with_the_jobs_state_and_keys_is_refused_by_name(
    operators: list[Operator], problems: list[str]
) -> None:
    stage = at_work("one")
    stage.turn(50)

    async def deposit(ctx: Context) -> None:
        pass

    for each in operators:
        each.functions.setdefault("deposit", deposit)
    found = stage.check(Program("bank", operators, errors=[bank.InsufficientFunds], version=2), "tests:program")
    assert len(found.problems) >= len(problems)
    for problem, begins in zip(found.problems, problems, strict=False):
        assert problem.startswith(begins), found.problems


def test_older_releases_stop_at_the_first_record_of_an_upgrade() -> None:
    stage = at_work("one")
    stage.upgrade()
    formats = [value[0] for value in stage.log.read(stage.topics.control, 0, 0).values]
    first = formats.index(m.PROGRAMS_VERSION)
    kinds = [m.decode_control(value) for value in stage.log.read(stage.topics.control, 0, 0).values]
    assert isinstance(kinds[first], m.Command) and kinds[first].name == p.PROGRAM
    assert max(formats[:first]) < m.PROGRAMS_VERSION


def test_a_proposal_that_comes_second_is_void_and_its_command_is_told() -> None:
    stage = at_work("one")
    upgrader, other = stage.upgrader(), stage.upgrader()
    checked, other_checked = upgrader.check(dry_run=False), other.check(dry_run=False)
    nodes, stage.nodes = stage.nodes, {}
    with pytest.raises(RunFailed, match="does not hold"):
        upgrader.propose(checked, 0)
    with pytest.raises(RunFailed, match=r"an upgrade to examples.bank_v2:program was proposed before it"):
        other.propose(other_checked, 30)
    stage.nodes = nodes
    stage.turn(200)
    assert stage.call("alice", "statement") == {"cents": 10_000, "last": []}
