"""Chains of checkpoints that are no state: whoever reads or merges them refuses them by name, and others are used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from examples.bank import program
from nodes.checkpoints.errors import CheckpointNewer
from nodes.checkpoints.file_names import CheckpointKey
from nodes.machine import messages as m
from nodes.transactions.checkpoints import chains
from nodes.transactions.checkpoints.chains import ChainBroken, ChainFile, FileReference, load_file, save_file, states
from nodes.transactions.checkpoints.compaction import CompactionFailed, CompactionRequest, compact_here
from nodes.transactions.topics import FIRST_INCARNATION
from tests.unit.txn_stage import SEQUENCERS, Stage
from transactional.state.snapshots import FORMAT_VERSION, UNSAID, PartitionState, snapshot_bytes, snapshot_state
from transactional.state.values import decode, encode
from wcrdt.replica.slots import WINDOW_START

JOB = f"{program.name}-txn"
UNIT = SEQUENCERS
KEYS = [key for key in (f"a{number}" for number in range(30)) if program.place("account", key) == 0]


def deposits(stage: Stage, keys: Sequence[str], rounds: int = 1) -> None:
    for _ in range(rounds):
        for key in keys:
            stage.call("account", key, "deposit", [1])
        stage.turn(20)


def staged() -> Stage:
    """One node with a chain of several files of partition 0."""
    stage = Stage(program, interval_ms=50)
    stage.start("one")
    deposits(stage, KEYS, rounds=4)
    deposits(stage, KEYS[:1], rounds=2)
    return stage


def newest(stage: Stage) -> tuple[list[FileReference], PartitionState]:
    saved = stage.nodes["one"][0].claiming.ownership.checkpoint(UNIT)
    assert saved is not None
    return load_file(stage.store, saved.name)


def publish(stage: Stage, rests_on: Sequence[FileReference], state: PartitionState) -> str:
    """A checkpoint that another owner has made."""
    version = stage.nodes["one"][0].claiming.ownership.version(UNIT)
    epoch, (answered, step) = state.ledger.done, WINDOW_START
    part = save_file(stage.store, JOB, UNIT, (epoch, 0), rests_on, snapshot_bytes(state))
    said = m.CheckpointSaved(FIRST_INCARNATION, "one", UNIT, version, part.name, epoch, 0, answered, step)
    stage.log.send(stage.topics.control, 0, [m.encode(said)])
    return part.name


def unsaid(state: PartitionState) -> PartitionState:
    """As a version would have written it that did not say since when it holds changes."""
    return msgspec.structs.replace(state, since=UNSAID)


def as_it_is(state: PartitionState) -> PartitionState:
    return state


@pytest.mark.parametrize(
    ("how", "of_version", "why"),
    [
        ("rests upon nothing", as_it_is, "rests upon nothing: it is not whole"),
        ("has a gap", as_it_is, "what is between them is missing"),
        ("rests upon nothing", unsaid, "that are remembered: what was before them is missing"),
        ("has a gap", unsaid, "that are remembered: what was before them is missing"),
    ],
)
def test_a_chain_that_is_no_state_is_refused_and_an_older_one_is_used(
    how: str, of_version: Callable[[PartitionState], PartitionState], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage = staged()
    parts, state = newest(stage)
    assert len(parts) >= 3
    below = [] if how == "rests upon nothing" else parts[:-1]
    name = publish(stage, below, of_version(state))
    with pytest.raises(ChainBroken, match=why):
        list(states(stage.store, below, (name, of_version(state))))
    del stage.nodes["one"]
    other = stage.start("other")
    assert {key: stage.call("account", key, "balance") for key in KEYS} == dict.fromkeys(KEYS, 4) | {KEYS[0]: 6}
    assert other.steps.begun > 0, "an older checkpoint was there"
    assert f"checkpoint {name} holds" in caplog.text


def test_a_node_stops_by_name_at_a_checkpoint_of_a_newer_release_though_an_older_one_would_do() -> None:
    stage = staged()
    parts, state = newest(stage)
    name = publish(stage, parts, msgspec.structs.replace(state, version=FORMAT_VERSION + 1))
    with pytest.raises(CheckpointNewer, match=f"{name} holds a snapshot of format {FORMAT_VERSION + 1}.*newer Holon"):
        list(states(stage.store, [*parts, FileReference(name, 1)]))
    stage.turn(1)
    del stage.nodes["one"]
    stage.start("other")
    with pytest.raises(CheckpointNewer, match="newer Holon"):
        stage.turn(200)


def test_a_chain_of_a_newer_format_is_named_as_such() -> None:
    stage = staged()
    parts, state = newest(stage)
    newer = ChainFile(chains.CHAIN_VERSION + 1, parts, snapshot_bytes(state))
    name = stage.store.save(CheckpointKey(JOB, FIRST_INCARNATION, UNIT, (99, 0), WINDOW_START), encode(newer))
    for read in (load_file, chains.rests_on):
        with pytest.raises(CheckpointNewer, match="a chain of format 2: this version reads 1"):
            read(stage.store, name)


def test_chains_of_the_version_before_are_read() -> None:
    stage = staged()
    parts, state = newest(stage)
    older: list[FileReference] = []
    for each in (*states(stage.store, parts), state):
        data = encode(decode(snapshot_bytes(each))[: PartitionState.__struct_fields__.index("since")])
        assert snapshot_state(data) == unsaid(each)
        older.append(save_file(stage.store, JOB, UNIT, (each.ledger.done, 0), older, data))
    *below, head = older
    found = list(states(stage.store, below, (head.name, load_file(stage.store, head.name)[1])))
    assert [each.items for each in found] == [each.items for each in states(stage.store, parts)]
    made = chains.merge_files(stage.store, JOB, UNIT, older, whole=True, segment_bytes=1 << 20)
    assert load_file(stage.store, made[0].name)[1].since == UNSAID, "nobody knows whether it is whole"


@pytest.mark.parametrize("at", [0, 1])
def test_what_is_no_state_is_not_merged(at: int) -> None:
    stage = staged()
    parts, _ = newest(stage)
    gap = [*parts[:at], *parts[at + 1 :]]
    with pytest.raises(CompactionFailed, match=r"not whole|missing") as failed:
        compact_here(stage.store)(CompactionRequest(JOB, UNIT, gap, whole=True))
    assert failed.value.damaged, "the next checkpoint holds all"
