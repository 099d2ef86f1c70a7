"""When a standby becomes active for an owner that is late, and for which of its units."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from nodes.log.memory import MemoryLog
from nodes.transactions.topics import TransactionTopics
from nodes.transactions.units.standbys import ACTIVE_MS, CALM_MS, PATIENCE_MS, Standbys
from transactional import events as e
from transactional.epochs.appends import Append, AppendCommit, AppendEpochs
from transactional.epochs.messages import Cut, to_bytes
from transactional.node import TransactionNode
from transactional.operators import Operator, Program

OWNERS = {0: "one", 1: "other", 2: "one", 3: "other"}


@dataclass
class Watch:
    """A node that stands by for two others, each with a request partition and a state partition."""

    now_ms: int = 1_000
    node: TransactionNode = field(
        default_factory=lambda: TransactionNode(Program("p", [Operator("account", partitions=2)]), 2)
    )

    def __post_init__(self) -> None:
        claiming = cast("Any", SimpleNamespace(node="c", groups=(4,), ownership=SimpleNamespace(owners=lambda: OWNERS)))
        clock = lambda: self.now_ms  # noqa: E731
        self.standbys = Standbys(MemoryLog(), TransactionTopics("p"), claiming, 2, clock, clock)
        for unit in OWNERS:
            self.node.receive(e.StandbyBegun(unit))

    def hold(self, unit: int, append: Append) -> None:
        """The node has made what the owner should write."""
        self.node.standbys[unit].keep(1, self.now_ms, [append])

    def activated(self, after_ms: int) -> list[int]:
        """The units that are active after a while."""
        self.now_ms += after_ms
        self.standbys.activate_late(self.node)
        return [unit for unit, standby in self.node.standbys.items() if standby.is_active]


def cut(sequencer: int) -> AppendEpochs:
    return AppendEpochs(to_bytes(Cut(sequencer, 1, 0, 1, 1, 0, [])))


def test_who_is_late_with_one_unit_is_spoken_for_in_all_and_nobody_else_is() -> None:
    watch = Watch()
    watch.hold(0, cut(0))
    watch.hold(2, AppendCommit(0, b"of the same owner"))
    assert watch.activated(PATIENCE_MS) == []
    assert watch.activated(1) == [0, 2]
    assert watch.standbys.published == 2
    assert watch.activated(ACTIVE_MS) == []


def test_after_an_alarm_a_standby_has_more_patience_for_a_while() -> None:
    watch = Watch()
    watch.hold(0, cut(0))
    assert watch.activated(PATIENCE_MS + 1) == [0, 2]
    watch.hold(1, cut(1))
    assert watch.activated(PATIENCE_MS + 1) == [0, 2], "the machine may be slow"
    assert watch.activated(PATIENCE_MS) == [0, 1, 2, 3]
    watch.activated(CALM_MS + 1)
    watch.hold(0, cut(0))
    assert watch.activated(PATIENCE_MS + 1) == [0, 2]
