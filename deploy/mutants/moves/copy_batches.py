"""Bugs in batches of copies ahead of a move: in how long they are, and in which of them counts."""

from __future__ import annotations

from deploy.mutants.model import Mutant

COPYING = "transactional/state/copying.py"
PIECES = "transactional/epochs/pieces.py"
SIZES = "nodes/transactions/layouts/batch_sizes.py"
SLICES = ("tests/unit/nodes/transactions/layouts/test_slices.py",)
BATCHES = ("tests/unit/transactional/test_copy_batches.py",)
PACED = ("tests/unit/nodes/transactions/layouts/test_batch_sizes.py",)

COPY_BATCHES = (
    *(
        Mutant(name, "transactional/state/moving.py", old, new, tests=SLICES)
        for name, old, new in (
            (
                "what leaves is looked for in one slice of keys",
                "        while some := [key for key, _ in islice(rows, self._slice_rows)]:\n",
                "        if some := [key for key, _ in islice(rows, self._slice_rows)]:\n",
            ),
            (
                "a store that spills takes one slice of what comes",
                "        while some := dict(islice(taken, self._slice_rows)):\n",
                "        if some := dict(islice(taken, self._slice_rows)):\n",
            ),
        )
    ),
    *(
        Mutant(name, COPYING, old, new, tests=BATCHES)
        for name, old, new in (
            (
                "behind another owner's batch the next one begins where the own one ended",
                "                self._drop()  # that may end at another item\n",
                "                pass\n",
            ),
            (
                "a target acknowledges one record of a batch",
                "                    said.add(name)\n",
                "                    said.update(every for _, every in each.missing)\n",
            ),
            (
                "a batch names the records of its last step alone",
                "            open_.sends.append((to, digest(data)))\n",
                "            open_.sends = [(to, digest(data))]\n",
            ),
            (
                "a batch is as long as a step, whatever the pace",
                "self._ledger.copies.batch_bytes or self._copy_bytes",
                "self._copy_bytes",
            ),
            (
                "copies give way to no epoch",
                "return self._made_before == epoch and self._ledger.is_open(epoch)",
                "return False",
            ),
            (
                "a long batch is made in one step",
                "size, step_bytes = 0, min(self._copy_bytes, most)",
                "size, step_bytes = 0, most",
            ),
        )
    ),
    *(
        Mutant(name, SIZES, old, new, tests=PACED)
        for name, old, new in (
            (
                "long epochs shorten no batch",
                "max(self._step_bytes // LEAST_SHARE, self._bytes // FEWER), True",
                "self._bytes, False",
            ),
            (
                "a batch grows though an epoch was long meanwhile",
                "if arrived[0] == self._arrived[0] and not self._was_long:",
                "if arrived[0] == self._arrived[0]:",
            ),
            (
                "batches double while epochs are in work",
                "more = self._step_bytes // LEAST_SHARE if self._was_busy else self._bytes",
                "more = self._bytes",
            ),
            (
                "epochs during copies count as usual",
                "        if plan is None:\n            if took_ms is not None:",
                "        if plan is None or took_ms is not None:\n            if took_ms is not None:",
            ),
            (
                "the time between two epochs counts",
                "            self._done, self._since_ms = done, None\n",
                "            self._done, self._since_ms = done, now_ms\n",
            ),
        )
    ),
    Mutant(
        "a layout waits for the next progress of copies that are ready",
        "nodes/transactions/layouts/proposing.py",
        "if not self._proposed or self._is_due(now_ms):",
        "if self._is_due(now_ms):",
        tests=("tests/unit/nodes/transactions/layouts/test_proposing.py",),
    ),
    Mutant(
        "homes of many keys are those of the keys before them",
        "transactional/layout.py",
        "            for index, home in zip(indexes, homes, strict=True):\n",
        "            for index, home in zip(indexes, sorted(homes), strict=True):\n",
        tests=("tests/laws/test_layouts.py",),
    ),
    Mutant(
        "copies are sent by a ledger that is behind its partition's checkpoint",
        COPYING,
        "is_behind = self._ledger.done < epoch - 1",
        "is_behind = False",
        tests=("tests/sim/transactions/test_trimmed.py",),
    ),
    Mutant(
        "pieces of a batch are of the epoch whose number its layout has",
        PIECES,
        "        return copies_epoch(self.epoch) if self.kind == _COPIED else self.epoch\n",
        "        return self.epoch\n",
        tests=BATCHES,
    ),
    Mutant(
        "pieces of a batch are kept when its layout holds",
        PIECES,
        " or copies_epoch(0) < epoch <= copies_epoch(layout)\n",
        "\n",
        tests=BATCHES,
    ),
)
