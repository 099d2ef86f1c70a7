"""CPU of partitions, from one step of some (transactional/sampled_cpu.py)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.unit.txn_stage import counters
from transactional import events as e
from transactional.layout import Group
from transactional.node import TransactionNode
from transactional.sampled_cpu import EVERY, SampledCpu

COUNT = counters("cpu", 2).operators["count"]
BUCKET = Group.of(COUNT).bucket


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
    assert len(read) == (4 if standby else 8), "twice for each owned partition in each of two steps"
    assert cpu.ns == ({0: 20 * EVERY} if standby else {0: 20 * EVERY, 1: 20 * EVERY})


def spent(*calls: tuple[str, int, int], all_ns: int, cpu: SampledCpu | None = None) -> SampledCpu:
    """Calls of a key, their number, and ns of each; ``all_ns`` of the partition."""
    cpu = SampledCpu(lambda: 0) if cpu is None else cpu
    cpu.begin(1)
    for key, number, ns in calls:
        for _ in range(number):
            cpu.add_call(COUNT, key, ns)
    cpu.add(1, all_ns)
    return cpu


def test_a_bucket_is_hot_that_has_much_of_its_partitions_cpu_by_enough_calls() -> None:
    cpu = spent(("dear", 5, 50), ("few", 4, 90), ("cheap", 90, 1), ("some", 5, 7), all_ns=1_000)
    assert cpu.hot(1) == {
        ("count", BUCKET("dear")): 0.25,
        ("count", BUCKET("some")): 0.035,
        ("count", BUCKET("cheap")): 0.09,
    }
    assert spent(("some", 6, 5), all_ns=1_000).hot(1) == {} and cpu.hot(0) == {}


def test_older_calls_fade_and_those_of_no_weight_are_forgotten() -> None:
    cpu = spent(("old", 90, 50), all_ns=9_000)
    for _ in range(60):
        cpu.fade()
    spent(("new", 5, 100), all_ns=1_000, cpu=cpu)
    assert list(cpu.hot(1)) == [(COUNT.name, BUCKET("new"))] and cpu.hot(1)[COUNT.name, BUCKET("new")] > 0.3
    spent(("rare", 1, 1), all_ns=100_000, cpu=cpu)
    for _ in range(200):
        cpu.fade()
    assert cpu.hot(1) == {}
