"""Bugs in copies ahead of a move: what they cover, who has them, and what is left for the move."""

from __future__ import annotations

from deploy.mutants.model import Mutant

COPIED = ("tests/unit/transactional/test_copying.py",)

COPIES = (
    *(
        Mutant(name, file, old, new, tests=COPIED)
        for name, file, old, new in (
            (
                "writes after a copy are not noted",
                "transactional/state/copying.py",
                "                self.written[item_of_key(to, key)] = epoch\n",
                "                pass\n",
            ),
            (
                "a copy covers the epoch after it",
                "transactional/state/copying.py",
                "return as_of is not None and as_of >= epoch",
                "return as_of is not None and as_of + 1 >= epoch",
            ),
            (
                "a deleted key stays where it was copied to",
                "transactional/state/moving.py",
                "came = self._take({key: value for key, value in rows.items() if value is not None})",
                "came = self._take({key: value or b'' for key, value in rows.items()})",
            ),
            (
                "a key that was deleted after its copy is not sent again",
                "transactional/state/moving.py",
                "            if is_key(item) and copies.as_of(item) is not None:\n",
                "            if is_key(item) and self._store.read((operator, name)) is not None:\n",
            ),
            (
                "a batch counts before it has arrived",
                "transactional/epochs/copies.py",
                "        if batch.sends:\n",
                "        if False:\n",
            ),
            (
                "a batch of any index counts",
                "transactional/epochs/copies.py",
                "return batch.index == len(self.batches) and is_behind",
                "return is_behind",
            ),
            (
                "a batch may be of an epoch before the last one's",
                "transactional/epochs/copies.py",
                "and not (self.batches and as_of < self.batches[-1].as_of)",
                "",
            ),
            (
                "a batch of an epoch before the plan counts",
                "transactional/epochs/copies.py",
                "if batch.as_of < plan.since or not",
                "if not",
            ),
            (
                "another layout than the planned one may follow",
                "transactional/layout.py",
                "is not None and plan.layout != layout:",
                "is not None and False:",
            ),
            (
                "a snapshot forgets what was written since the plan",
                "transactional/state/partition.py",
                "all_replies, self._moves.copying.kept(self.epoch - 1),",
                "all_replies, [],",
            ),
            (
                "a checkpoint forgets copies",
                "transactional/epochs/ledger.py",
                "            copies=self.copies.state(self.done),\n",
                "",
            ),
            (
                "copies are let go when they have moved, and not an epoch later",
                "transactional/state/moving.py",
                "        received.copies_moved(epoch, change.after.number)\n",
                "        received.forget_copies(change.after.number)\n",
            ),
            (
                "a new owner keeps copies to homes that hold",
                "transactional/state/partition.py",
                "self.received.forget_copies(self._moves.copying.restore(state.ledger, state.written))",
                "self._moves.copying.restore(state.ledger, state.written)",
            ),
            (
                "nobody makes again a batch of another owner",
                "transactional/state/copying.py",
                "if self._waited <= PATIENCE:",
                "if True:",
            ),
            (
                "no sweep follows while others copy",
                "transactional/state/copying.py",
                "if copies.is_ready and len(self.written)",
                "if copies.is_ready or len(self.written)",
            ),
        )
    ),
)
