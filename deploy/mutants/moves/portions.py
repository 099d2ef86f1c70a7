"""Planted bugs in the portions of an online move."""

from __future__ import annotations

from deploy.mutants.model import Mutant

_FOLD = "nodes/machine/ownership/layouts.py"
_PORTIONS = "nodes/transactions/layouts/portions.py"
_PROPOSING = "nodes/transactions/layouts/proposing.py"
_TESTS = ("tests/unit/nodes/transactions/layouts/test_portions.py",)

_REPARTITIONING = "nodes/transactions/layouts/repartitioning.py"
_FULL = ("tests/unit/nodes/transactions/layouts/test_repartitioning.py",)

PORTIONS = (
    Mutant(
        "a command takes nodes that wait for room for nodes that do not run",
        _REPARTITIONING,
        " and not (self._waited_for_heartbeats() and self._nodes_at_work())",
        "",
        tests=_FULL,
    ),
    Mutant(
        "a portion moves keys that have their last homes already",
        _PORTIONS,
        "homes[bucket] = now[bucket]",
        "homes[bucket] = now[bucket - 1]",
        tests=_TESTS,
    ),
    Mutant(
        "the last portion leaves a bucket behind",
        _PORTIONS,
        "    if portions <= 1:\n        return spread\n",
        "",
        tests=_TESTS,
    ),
    Mutant(
        "a portion has the buckets of few sources",
        _PORTIONS,
        "key=lambda bucket: bucket * _SPREAD % 2**32",
        "key=lambda bucket: bucket % 16",
        tests=_TESTS,
    ),
    Mutant(
        "large buckets move together",
        _PORTIONS,
        "if end * portions < ends[-1]",
        "if end < ends[-1] / 2",
        tests=_TESTS,
    ),
    Mutant(
        "keys that stay count for the portions of those that move",
        _PORTIONS,
        "for bucket in moved(was, now)\n    ]",
        "for bucket in range(len(now))\n    ]",
        tests=_TESTS,
    ),
    Mutant(
        "a key stands for itself alone, though few of many keys are looked at",
        _PORTIONS,
        "mine[bucket] += factor * size",
        "mine[bucket] += size",
        tests=_TESTS,
    ),
    Mutant(
        "bytes in files are in no bucket",
        _PORTIONS,
        "for place, bucket in mine if beyond else ():",
        "for place, bucket in ():",
        tests=_TESTS,
    ),
    Mutant(
        "buckets of partitions of which nothing is known are empty",
        _PORTIONS,
        "            each[bucket] = mean\n",
        "            each[bucket] = 0.0\n",
        tests=_TESTS,
    ),
    Mutant(
        "portions that hold do not count",
        _PORTIONS,
        "MOST_PORTIONS - done",
        "MOST_PORTIONS",
        tests=_TESTS,
    ),
    Mutant(
        "the first portion that holds ends the request",
        _FOLD,
        "        if made.is_last:\n",
        "        if True:\n",
        tests=_TESTS,
    ),
    Mutant(
        "a portion that is told twice counts twice",
        _FOLD,
        "        if made.outcome.number != is_open.number or made.outcome.problem:\n",
        "        if made.outcome.problem:\n",
        tests=_TESTS,
    ),
    Mutant(
        "the homes of the requested layout are taken for those of a portion",
        _FOLD,
        "self.layout = _text(msgspec.structs.replace(is_open, layout=made.layout))",
        "self.layout = _text(is_open)",
        tests=_TESTS,
    ),
    Mutant(
        "the outcome is that of the last portion alone",
        _FOLD,
        "self.outcome = _text(so_far)",
        "self.outcome = _text(made.outcome)",
        tests=_TESTS,
    ),
    Mutant(
        "nodes that know no portions go on",
        _FOLD,
        "        if self.in_portions:\n            return m.PORTIONS_VERSION\n",
        "",
        tests=_TESTS,
    ),
    Mutant(
        "a node that knows no portions reads the record of one",
        "nodes/machine/messages.py",
        "COPIES_VERSION if self.name == ONLINE_LAYOUT else PORTIONS_VERSION",
        "COPIES_VERSION",
        tests=_TESTS,
    ),
    Mutant(
        "a planned portion is followed by the requested layout",
        _PROPOSING,
        "            layout = plan.layout\n",
        "            pass\n",
        tests=_TESTS,
    ),
    Mutant(
        "all moves at once, whatever it has",
        _PROPOSING,
        "self._planned = next_portion(newest, target, self._sizes_for(newest, target, wanted), portions)",
        "self._planned = target",
        tests=_TESTS,
    ),
    Mutant(
        "the next portion has the number of the first",
        _PROPOSING,
        "return layout if wanted.so_far is None else msgspec.structs.replace(layout, number=wanted.number)",
        "return layout",
        tests=_TESTS,
    ),
    Mutant(
        "a request goes on after its last portion",
        _PROPOSING,
        "LayoutPortion(outcome, held, target == newest)",
        "LayoutPortion(outcome, held, False)",
        tests=_TESTS,
    ),
    Mutant(
        "another node's portions are taken for its own",
        _PROPOSING,
        "not self._proposed or self._began != wanted.as_requested.number",
        "not self._proposed",
        tests=_TESTS,
    ),
    Mutant(
        "a node that knows no portions ends a request with one of them",
        _FOLD,
        "        if is_open.in_portions and not made.problem:\n            return\n",
        "",
        tests=_TESTS,
    ),
    Mutant(
        "a portion is planned while nodes that know none are at work",
        _PROPOSING,
        "self._ended(_named(m.IN_PORTIONS, str(wanted.number)), now_ms)",
        "self._copies(ledger, wanted, self._requested(wanted)[0], now_ms)",
        tests=_TESTS,
    ),
    Mutant(
        "a portion is as small as that of one node, however many there are",
        _PROPOSING,
        "self._portion_bytes * max(1, len(self._claiming.ownership.members))",
        "self._portion_bytes",
        tests=_TESTS,
    ),
    Mutant(
        "batches of the portion before count for this one",
        "nodes/transactions/layouts/batch_sizes.py",
        "self._layout, self._arrived, self._was_long = plan.layout.number, (None, 0), False",
        "self._layout, self._was_long = plan.layout.number, False",
        tests=("tests/unit/nodes/transactions/layouts/test_batch_sizes.py",),
    ),
)
