"""CPU of partitions, from one step of some (transactional/sampled_cpu.py)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.unit.txn_stage import counters
from transactional import events as e
from transactional.node import TransactionNode
from transactional.sampled_cpu import EVERY, SampledCpu


def test_one_step_of_so_many_is_measured_and_stands_for_all() -> None:
    cpu = SampledCpu(lambda: 0)
    due = [cpu.is_due() for _ in range(3 * EVERY)]
    assert [number for number, each in enumerate(due, 1) if each] == [EVERY, 2 * EVERY, 3 * EVERY]
    cpu.add(2, 5)
    cpu.add(2, 7)
    assert cpu.ns == {2: 12 * EVERY}


def reading(ticks: Iterator[int]) -> tuple[SampledCpu, list[int]]:
    read: list[int] = []

    def clock_ns() -> int:
        read.append(next(ticks))
        return read[-1]

    return SampledCpu(clock_ns), read


@pytest.mark.parametrize("standby", [False, True])
def test_a_node_reads_the_clock_in_measured_steps_alone_and_counts_what_it_owns(standby: bool) -> None:
    cpu, read = reading(count(100, 10))
    node = TransactionNode(counters("cpu", 2), 1, cpu=cpu)
    for partition in range(2):
        if standby and partition == 1:
            node.receive(e.StandbyBegun(1 + partition))
        node.receive(e.PartitionTaken(partition))
    for _ in range(2 * EVERY):
        node.step(e.Ticked(), 5)
    assert len(read) == (6 if standby else 8), "twice for each owned partition in each of two steps"
    assert cpu.ns == ({0: 20 * EVERY} if standby else {0: 20 * EVERY, 1: 20 * EVERY})
