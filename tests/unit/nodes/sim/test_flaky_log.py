"""The log as a simulated node meets it: what a broker that has lost acknowledged records says to its writers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from nodes.log.contract import Appended, LogInterrupted, TopicPartition
from nodes.log.memory import MemoryLog
from nodes.sim.faults.flaky_log import Meddler, NodeLog

RESULTS = TopicPartition("results", 0)


class Nothing:
    """Nothing goes wrong."""

    def before_append(self, topic: str, partition: int, values: Sequence[bytes], headers: Sequence[bytes]) -> bool:
        return True

    def rotted(self, topic: str, values: Sequence[bytes]) -> Sequence[bytes]:
        return values

    def after_append(self, topic: str, partition: int, done: Appended) -> None:
        pass


@pytest.mark.parametrize(("end", "knows_sequences", "refused"), [(1, True, True), (2, True, False), (1, False, False)])
def test_a_writer_whose_acknowledged_records_were_lost_is_refused(
    end: int, knows_sequences: bool, refused: bool
) -> None:
    """Also if another writer has overgrown the loss meanwhile."""
    log = MemoryLog()
    log.create_topic("results", 1)
    first, second = (NodeLog(log, cast("Meddler", Nothing()), {}) for _ in range(2))
    first.append("results", 0, [b"a", b"b"])
    log.truncate("results", 0, end)
    for node_log in (first, second):
        node_log.was_cut(RESULTS, end, knows_sequences=knows_sequences)
    second.append("results", 0, [b"c", b"d", b"e"])
    if refused:
        with pytest.raises(LogInterrupted, match=r"results\[0\]"):
            first.append("results", 0, [b"f"])
    else:
        first.append("results", 0, [b"f"])
    assert log.end_offset("results", 0) == end + (3 if refused else 4)
