"""The same prefix of the control topic gives the same state on every node, whatever the records are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.control_state import ControlCheckpoint, decode_control_checkpoint, encode_control_checkpoint
from nodes.machine.ownership.ownership import Ownership
from tests.unit.checkpoint_names import named, named_merged

JOB = m.JobStarted(0, "fingerprint", 3)
names = st.sampled_from(["a", "b", "c"])
few = st.integers(0, 2)
partition_numbers = st.integers(0, 3)
versions = st.integers(1, 4)
incarnations = st.sampled_from([0, 0, 0, 0, 1])
control = st.one_of(
    st.builds(m.JobStarted, incarnations, st.sampled_from(["f", "g"]), st.integers(2, 3)),
    st.builds(m.Hello, incarnations, names, few, few),
    st.builds(m.Heartbeat, incarnations, names, few),
    st.builds(m.Goodbye, incarnations, names, few),
    st.builds(m.Claim, incarnations, names, partition_numbers, versions),
    st.builds(m.Claim, incarnations, names, partition_numbers, versions),
    st.builds(m.Release, incarnations, names, partition_numbers, versions, st.none() | names),
    st.builds(
        m.CheckpointSaved, incarnations, names, partition_numbers, versions, st.sampled_from("xyz"), few, few, few, few,
        st.booleans(), few,
    ).map(named),
    st.builds(m.Leaving, incarnations, names, few),
    st.builds(
        m.MergedSaved, incarnations, names, st.sampled_from("xyz"), few, st.lists(few, min_size=2, max_size=3),
    ).map(named_merged),
    st.builds(m.SlotWanted, incarnations, names, partition_numbers, few, few),
    st.builds(m.EndOfInput, incarnations, partition_numbers, few),
    st.builds(m.SchemasFound, incarnations, names, partition_numbers, few, st.lists(few, max_size=2), few),
    st.builds(m.Failed, incarnations, names, partition_numbers, few, st.sampled_from(["c", "d"]), names),
    st.builds(
        m.Command, incarnations, st.sampled_from(["stop", "retry", "go"]), st.just(""), st.sampled_from(["", "1", "2"]),
    ),
)  # fmt: skip
histories = st.lists(control, max_size=50).map(lambda rest: [JOB, *rest])


@given(histories, st.lists(st.integers(0, 51), max_size=8))
def test_nodes_that_read_the_same_records_in_other_chunks_agree(
    history: list[m.ControlMessage], cuts: list[int]
) -> None:
    one, other = Ownership(3), Ownership(2)
    facts = [fact for message in history for fact in one.apply(message)]
    told: list[f.Fact] = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(history)], strict=True):
        for message in history[start:end]:
            told += other.apply(m.decode_control(m.encode(message)))
        _ask_everything(other)  # questions between two chunks change nothing
    assert told == facts
    assert other.digest() == one.digest()
    assert _ask_everything(other) == _ask_everything(one)


@given(histories, st.integers(0, 51))
def test_a_node_that_begins_at_a_checkpoint_agrees_with_those_that_read_from_the_start(
    history: list[m.ControlMessage], cut: int
) -> None:
    one = Ownership(3)
    for message in history[:cut]:
        one.apply(message)
    data = encode_control_checkpoint(ControlCheckpoint(cut, one.snapshot()))
    other = Ownership.restored(decode_control_checkpoint(data).state)
    assert other.digest() == one.digest()
    assert encode_control_checkpoint(ControlCheckpoint(cut, other.snapshot())) == data
    for message in history[cut:]:
        assert other.apply(message) == one.apply(message)
    assert other.digest() == one.digest()
    assert decode_control_checkpoint(data) == decode_control_checkpoint(
        encode_control_checkpoint(decode_control_checkpoint(data))
    )


@given(histories, st.data())
def test_a_control_checkpoint_that_is_damaged_anywhere_is_refused(
    history: list[m.ControlMessage], data: st.DataObject
) -> None:
    state = Ownership(3)
    for message in history:
        state.apply(message)
    whole = encode_control_checkpoint(ControlCheckpoint(7, state.snapshot()))
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = whole[:at] + bytes([whole[at] ^ (1 << data.draw(st.integers(0, 7)))]) + whole[at + 1 :]
    for damaged in (flipped, whole[:at]):
        with pytest.raises(m.BadMessage):
            decode_control_checkpoint(damaged)


@given(histories)
def test_what_is_promised_to_grow_never_goes_back(history: list[m.ControlMessage]) -> None:
    state = Ownership(3)
    for message in history:
        incarnation, before = state.incarnation, _ask_everything(state)
        facts = state.apply(message)
        after = _ask_everything(state)
        if incarnation != state.incarnation:
            assert any(isinstance(fact, f.JobBegan) for fact in facts)
            continue
        for key in ("durable", "durable at depth 2", "watermark", "done", "ends"):
            assert after[key] >= before[key], key
        for then, now in zip(before["versions"], after["versions"], strict=True):
            assert now - then in (0, 1)
        if after["versions"] != before["versions"]:
            assert any(isinstance(fact, f.PartitionClaimed) for fact in facts)
        assert {owner for owner in state.owners().values() if owner} <= set(state.members)
        if not facts:
            assert after == before


def _is_counted(message: m.ControlMessage) -> bool:
    """Whether it was written by this release: its life or its id says whether it was read before."""
    if isinstance(message, m.Hello | m.Goodbye | m.Leaving):
        return message.node_incarnation > 0
    return not isinstance(message, m.Command) or bool(message.id)


@given(histories)
def test_a_record_that_is_read_twice_or_late_or_from_a_node_that_is_gone_counts_once(
    history: list[m.ControlMessage],
) -> None:
    state, counted = Ownership(3), []
    for message in filter(_is_counted, history):
        before = state.digest()
        state.apply(message)
        after = state.digest()
        assert [fact for fact in state.apply(message) if not isinstance(fact, f.ClaimLost | f.SlotRequested)] == []
        assert state.digest() == after
        if after != before:
            counted.append(message)
    for message in counted:
        state.apply(message)
        assert state.digest() == after


@given(histories)
def test_two_states_that_answer_differently_have_different_digests(history: list[m.ControlMessage]) -> None:
    state = Ownership(3)
    seen: dict[str, dict[str, Any]] = {}
    for message in history:
        state.apply(message)
        answers = _ask_everything(state)
        assert seen.setdefault(state.digest(), answers) == answers


def _ask_everything(state: Ownership) -> dict[str, Any]:
    every = range(state.partitions)
    return {
        "job": (state.incarnation, state.fingerprint, state.partitions),
        "members": dict(state.members),
        "owners": state.owners(),
        "versions": [state.version(p) for p in every],
        "hints": [state.released_to(p) for p in every],
        "checkpoints": [state.checkpoints(p) for p in every],
        "ends": [-1 if (end := state.end_offset(p)) is None else end for p in every],
        "failures": [state.failures(code) for code in "cd"],
        "merged": (state.merged(), state.merged_count, state.retries),
        "stopping": [state.is_stopping(node) for node in "abc"],
        "durable": state.durable_answered(),
        "durable at depth 2": state.durable_answered(2),
        "watermark": state.durable_watermark(),
        "done": state.all_done(),
    }
