"""Bugs where deltas cannot be read, which alone tell how far an input went."""

from __future__ import annotations

from deploy.mutants.model import Mutant

TRUNCATION = ("tests/unit/nodes/streams/test_truncation.py",)

DAMAGED_DELTAS = (
    Mutant(
        "the request of a node that has read further tells nothing of the input",
        "nodes/machine/node.py",
        "max(self.replica.reported[partition], position[0])",
        "self.replica.reported[partition]",
        tests=TRUNCATION,
    ),
    Mutant(
        "a delta that is damaged on the way is not read again",
        "nodes/machine/broadcast/reading.py",
        "        elif readings < MAX_READINGS:\n",
        "        elif False:\n",
        tests=TRUNCATION,
    ),
    Mutant(
        "a delta that is damaged on the log is read for ever",
        "nodes/machine/broadcast/reading.py",
        "readings = readings + 1 if offset == read.offset else 1",
        "readings = 1",
        tests=("tests/unit/nodes/machine/test_gaps.py",),
    ),
    Mutant(
        "reading a batch again passes over what a rewind has set back",
        "nodes/streams/driver.py",
        "min(effect.offset, self._broadcast_at[effect.partition])",
        "effect.offset",
        tests=("tests/unit/nodes/machine/test_batched_steps.py",),
    ),
)
