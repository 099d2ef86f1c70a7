"""A difference from the log is reported with both values, and no function is blamed for a wrong checkpoint."""

from __future__ import annotations

import msgspec
import pytest

from examples.bank import program
from nodes.machine import messages as m
from nodes.transactions.checkpoints.chains import load_file, save_file, states
from nodes.transactions.checkpoints.state_check import StateWrong, blamed
from nodes.transactions.topics import FIRST_INCARNATION
from tests.unit.txn_stage import SEQUENCERS, Stage
from transactional.conflicts.nondeterminism import Nondeterministic, cut_otherwise, parted, read_sets_differ
from transactional.epochs.messages import (
    Calls,
    Contribution,
    Cut,
    ReadSetSnapshot,
    RoundBarrier,
    WireCall,
    WireResult,
    to_bytes,
)
from transactional.state.snapshots import snapshot_bytes
from transactional.state.values import digest, encode
from wcrdt.replica.slots import WINDOW_START

KEY = next(key for key in (f"a{number}" for number in range(40)) if program.place("account", key) == 0)
OTHER = next(key for key in (f"b{number}" for number in range(40)) if program.place("account", key) == 1)
JOB = f"{program.name}-txn"


def busy() -> Stage:
    """One node, whose checkpoints of partition 0 are of an account with 7, which was 5 before; then it pays 6."""
    stage = Stage(program, interval_ms=50)
    stage.start("one")
    for amount in (5, 1, 1):
        stage.call("account", KEY, "deposit", [amount])
        for number in range(8):
            stage.call("account", f"c{number}", "deposit", [1])
        stage.turn(60)
    stage.interval_ms = 1 << 30
    stage.nodes["one"][0].checkpoints.interval_ms = 1 << 30
    return stage


def saved_with(stage: Stage, balance: int) -> None:
    """The newest checkpoint of partition 0 holds this balance, and its owner finds no commits behind it."""
    ownership = stage.nodes["one"][0].claiming.ownership
    newest = ownership.checkpoint(SEQUENCERS)
    assert newest is not None
    below, state = load_file(stage.store, newest.name)
    rows = {row[:2]: row for each in (*states(stage.store, below), state) for row in each.items}
    rows["account", KEY] = "account", KEY, encode({"balance": balance})
    replies = [each for part in (*states(stage.store, below), state) for each in part.replies]
    order = [
        (s, n, [(each.offset, each.id) for each in replies if each.sequencer == s]) for s, n, _ in state.reply_order
    ]
    whole = msgspec.structs.replace(
        state, items=sorted(rows.values()), replies=replies, reply_order=order, since=None, commits_offset=1 << 30
    )
    part = save_file(stage.store, JOB, SEQUENCERS, (state.ledger.done, 0), [], snapshot_bytes(whole))
    version, (answered, step) = ownership.version(SEQUENCERS), WINDOW_START
    said = m.CheckpointSaved(
        FIRST_INCARNATION, "one", SEQUENCERS, version, part.name, state.ledger.done, 0, answered, step
    )
    stage.log.send(stage.topics.control, 0, [m.encode(said)])


def begun_again(stage: Stage) -> tuple[Nondeterministic, Exception]:
    """The error that a new owner stops with, and the cause that it names."""
    del stage.nodes["one"]
    other = stage.start("other")
    with pytest.raises(Nondeterministic) as stopped:
        stage.turn(200)
    checkpoints = other.checkpoints
    return stopped.value, blamed(stopped.value, checkpoints.begun_with, checkpoints.store, stage.log, stage.topics)


def test_a_checkpoint_with_an_old_value_is_named_and_no_function_is() -> None:
    stage = busy()
    assert stage.call("account", KEY, "transfer", [OTHER, 6]) == 1
    saved_with(stage, 5)
    stopped, error = begun_again(stage)
    assert f"What was compared: sends to state partition 1, number 0: call of account {OTHER!r}" in str(stopped)
    assert "on the log, nothing here" in str(stopped) and "InsufficientFunds" in str(stopped)
    assert isinstance(error, StateWrong)
    assert f"there account {KEY!r} is {{'balance': 5}}, as it was once" in str(error)
    assert "by the commits on the log it is {'balance': 7} since epoch" in str(error)
    assert str(stopped) in str(error)


def test_a_chain_that_is_broken_is_named_and_no_function_is() -> None:
    stage = busy()
    newest = stage.nodes["one"][0].claiming.ownership.checkpoint(SEQUENCERS)
    assert newest is not None
    below, state = load_file(stage.store, newest.name)
    part = save_file(stage.store, JOB, SEQUENCERS, (state.ledger.done, 0), below[1:], snapshot_bytes(state))
    error = blamed(Nondeterministic("differs"), {0: part.name}, stage.store, stage.log, stage.topics)
    assert isinstance(error, StateWrong)
    assert "not whole" in str(error) and "What differs: differs" in str(error)


def test_where_the_state_is_right_the_function_is_blamed() -> None:
    stage = busy()
    newest = stage.nodes["one"][0].claiming.ownership.checkpoint(SEQUENCERS)
    assert newest is not None
    begun = {0: newest.name, 1: "gone/1/00001/00000000000000000001.0-0.0-00000000000000000000000000000000.ckpt"}
    error = blamed(Nondeterministic("differs"), begun, stage.store, stage.log, stage.topics)
    assert not isinstance(error, StateWrong)
    assert str(error) == "differs\nThe checkpoints that state partitions 0 began with are whole"


def call(argument: int, tid: int = 7) -> WireCall:
    return WireCall(tid, 0, (), (), "account", "a", "deposit", encode([[argument], {}]), None)


def test_records_that_differ_are_said_with_both_values() -> None:
    one, other = (to_bytes(Calls(0, 1, 1, [call(1), call(argument)])) for argument in (2, 3))
    sent = {1: [call(1), call(3)]}
    inline = parted(
        RoundBarrier(0, 1, 1, [(1, one)], None, True), RoundBarrier(0, 1, 1, [(1, other)], None, True), sent, {}
    )
    assert "sends to state partition 1, number 1: call of account 'a' deposit with [[2], {}]" in str(inline)
    assert "on the log, call of account 'a' deposit with [[3], {}] in transaction 7 here" in str(inline)
    named = parted(
        RoundBarrier(0, 1, 1, [(1, digest(one))], None), RoundBarrier(0, 1, 1, [(1, digest(other))], None), sent, {}
    )
    assert f"record {digest(one).hex()} on the log, record {digest(other).hex()} here (call of" in str(named)
    ended = parted(
        RoundBarrier(0, 1, 1, [], Contribution([3], [], [], [])),
        RoundBarrier(0, 1, 1, [(1, other)], None, True),
        sent,
        {},
    )
    assert "sends to state partition 1, number 0: nothing on the log, call of" in str(ended) or "nothing on" in str(
        ended
    )
    assert "contribution Contribution(conflicts=[3]" in str(ended) and "on the log, None here" in str(ended)
    result = to_bytes(Calls(0, 1, 1, [WireResult(7, (), (), encode(5), None)]))
    answered = parted(
        RoundBarrier(0, 1, 1, [(1, result)], None, True), RoundBarrier(0, 1, 1, [(1, one)], None, True), {}, {}
    )
    assert "number 0: result 5 in transaction 7 on the log, call of" in str(answered)


def test_shipments_and_cuts_that_differ_are_said_with_both_values() -> None:
    logged = [ReadSetSnapshot(0, 1, [], [("box", "a", encode(value))], []) for value in (1, 2)]
    assert "value of box 'a' is 1 on the log, 2 here" in str(read_sets_differ(*logged))
    cut = Cut(0, 1, 0, 1, 1, 0, [(0, b"logged")], True)
    error = str(cut_otherwise(cut, [(0, digest(b"here")), (1, digest(b"more"))], inline=False))
    assert f"for state partition 0 record {digest(b'logged').hex()} on the log, record {digest(b'here').hex()}" in error
    assert f"for state partition 1 nothing on the log, record {digest(b'more').hex()} here" in error
