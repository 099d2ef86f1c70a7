"""Bugs in what happens where a topic has lost its end, or a slot lacks something."""

from __future__ import annotations

from deploy.mutants.model import Mutant

TESTS = "tests/unit/nodes/streams/test_truncation.py"
SLOTS = "tests/laws/test_slots.py::"

TRUNCATION = (
    Mutant(
        "a full slot takes nothing away, whatever it lacks",
        "wcrdt/replica/replica.py",
        "return end_ms <= min([through_ms, *writers])",
        "return True",
        tests=(SLOTS + "test_windows_that_a_full_slot_lacks_stay_where_nothing_more_can_be_added_to_them",),
    ),
    Mutant(
        "a truncated broadcast is trimmed beyond its end",
        "nodes/streams/io/joining.py",
        "self.log.delete_before(self.topics.broadcast, partition, min(offset, end))",
        "self.log.delete_before(self.topics.broadcast, partition, offset)",
        tests=("tests/unit/nodes/streams/test_joining.py",),
    ),
    Mutant(
        "a lost end is reported to no node",
        "nodes/streams/truncation.py",
        "        if not self._recorded:\n",
        "        if False:\n",
        tests=(TESTS,),
    ),
    Mutant(
        "results that were there at the checkpoint are not missed",
        "nodes/streams/io/output_identities.py",
        "if ends[to] < known and",
        "if False and",
        tests=(TESTS,),
    ),
    Mutant(
        "what lies behind an open transaction is taken for lost",
        "nodes/streams/truncation.py",
        "if offset <= 0 or offset <= (end := self.log.high_watermark(topic, partition)):",
        "if offset <= 0 or offset <= (end := self.log.end_offset(topic, partition)):",
        tests=(TESTS,),
    ),
    Mutant(
        "a write behind a gap is like any other",
        "nodes/streams/truncation.py",
        "        if end - count < known:\n",
        "        if False:\n",
        tests=(TESTS,),
    ),
    Mutant(
        "deltas behind a gap do not tell how far the input went",
        "nodes/streams/truncation.py",
        "replica.slots[partition].record.position[0], replica.reported[partition]]",
        "replica.slots[partition].record.position[0]]",
        tests=(TESTS,),
    ),
    Mutant(
        "input that others have processed is waited for",
        "nodes/streams/truncation.py",
        "if end < needed[partition]:",
        "if False:",
        tests=(TESTS,),
    ),
    Mutant(
        "an end that is still to come is taken for lost",
        "nodes/machine/ownership/ownership.py",
        "state.end_offset if state.end_reached and state.end_offset is not None",
        "state.end_offset if state.end_offset is not None",
        tests=(TESTS,),
    ),
    Mutant(
        "a checkpoint of more of the control topic than there is, is passed over",
        "nodes/runtime/control_topic.py",
        "if newest is not None and newest.offset > (end := log.end_offset(self.name, 0)):",
        "end = log.end_offset(self.name, 0)\n        if False:",
        tests=(TESTS,),
    ),
    Mutant(
        "a place on the broadcast that is gone is tried for ever",
        "nodes/streams/driver.py",
        "if self.truncation.broadcast_lost(partition, offset, error):",
        "if False:",
        tests=(TESTS,),
    ),
)
