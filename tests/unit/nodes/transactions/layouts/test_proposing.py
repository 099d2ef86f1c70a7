"""The owner of the first unit proposes a layout as soon as it may."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from nodes.log.memory import MemoryLog
from nodes.machine.ownership.layouts import ProposedLayout
from nodes.transactions.layouts.proposing import AGAIN_MS, LayoutProposer
from nodes.transactions.topics import TransactionTopics
from transactional import Operator, Program
from transactional.epochs.copies import PORTION_BYTES
from transactional.epochs.layout_messages import Copied, NewLayout, PlannedLayout
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import epoch_message, to_bytes
from transactional.layout import Group, Layout

COUNT = Operator("count", partitions=2)
PROGRAM = Program("counts", [COUNT])
NEXT = Layout.first(PROGRAM.operators).changed({Group.of(COUNT): (2, *([0, 1] * 511), 2)})
TIMEOUT_MS = 300


def test_the_layout_follows_at_once_when_copies_are_ready_however_new_its_plan_is() -> None:
    log, topics, ledger = MemoryLog(), TransactionTopics("counts"), Ledger(PROGRAM, 1)
    log.create_topic(topics.epochs, 1)
    wanted = ProposedLayout(1, 4, msgspec.Raw(msgspec.json.encode(NEXT)), {"to": 3}, online=True)
    claiming: Any = SimpleNamespace(
        owned={0: 1},
        ownership=SimpleNamespace(layouts=SimpleNamespace(open=wanted), members=["a", "b"]),
        detector=SimpleNamespace(failure_timeout_ms=TIMEOUT_MS),
    )
    checkpoints: Any = SimpleNamespace(new_units_without=lambda units: [], sequencers=1)
    proposer = LayoutProposer(log, topics, claiming, checkpoints, PORTION_BYTES, lambda present, target: None)

    def written() -> list[Any]:
        return [epoch_message(value) for value in log.read(topics.epochs, 0, 0).values]

    proposer.turn(ledger, 0)
    proposer.turn(ledger, TIMEOUT_MS)
    assert written() == [PlannedLayout(NEXT)]
    ledger.apply(to_bytes(PlannedLayout(NEXT)))
    now_ms = TIMEOUT_MS + 1
    assert not proposer.turn(ledger, now_ms), "nothing new"
    for source in (0, 1):
        for sweep in (0, 1):
            ledger.apply(to_bytes(Copied(source, 1, sweep, sweep, 1, None, [], 0, 0)))
    assert ledger.copies.are_ready
    assert not proposer.turn(ledger, now_ms + 1)
    assert written()[1:] == [NewLayout(NEXT)], "though the plan was written a moment ago"
    proposer.turn(ledger, now_ms + AGAIN_MS)
    assert len(written()) == 2
    proposer.turn(ledger, now_ms + 1 + AGAIN_MS)
    assert written()[2:] == [NewLayout(NEXT)], "it may be lost"
