"""A large online move goes in portions: how many, and which keys move in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from nodes.errors import RunFailed
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.ownership import commands as c
from nodes.machine.ownership.layouts import (
    LayoutFold,
    LayoutOutcome,
    LayoutPortion,
    ProposedLayout,
    first_format,
    outcome_of,
)
from nodes.transactions.checkpoints.spill import Spills
from nodes.transactions.layouts.portions import (
    MOST_PORTIONS,
    KnownState,
    bucket_sizes,
    next_portion,
    portions_left,
)
from nodes.transactions.layouts.repartitioning import Repartitioning
from tests.unit.txn_stage import Stage, counters
from transactional.epochs.layout_messages import PlannedLayout
from transactional.epochs.messages import epoch_messages
from transactional.layout import Group, Layout, moved, spread_all, spread_least
from transactional.operators import Operator
from transactional.state.store import Store

GROUP = Group(16, None)
BEFORE = Layout.first_of({GROUP})
AFTER = BEFORE.changed({GROUP: spread_all(BEFORE.homes_of(GROUP), 12)})
EQUAL = [[1.0] * GROUP.buckets]
MOVED = len(moved(BEFORE.homes_of(GROUP), AFTER.homes_of(GROUP)))
KEYS = [f"k{number}" for number in range(60)]


def text(value: object) -> str:
    return msgspec.json.encode(value).decode()


@pytest.mark.parametrize("spread", [spread_all, spread_least])
@pytest.mark.parametrize("to", [1, 12, 20])
def test_portions_move_each_bucket_once_in_parts_of_one_size_and_end_at_the_target(spread: object, to: int) -> None:
    assert callable(spread)
    target = BEFORE.changed({GROUP: spread(BEFORE.homes_of(GROUP), to)})
    found, portions = [BEFORE], 7
    for left in range(portions, 0, -1):
        found.append(next_portion(found[-1], msgspec.structs.replace(target, number=found[-1].number + 1), EQUAL, left))
    assert [each.number for each in found] == list(range(portions + 1))
    assert found[-1].groups == target.groups and found[-1].partitions == target.partitions
    steps = [moved(was.homes_of(GROUP), now.homes_of(GROUP)) for was, now in pairwise(found)]
    assert sorted(chain.from_iterable(steps)) == moved(BEFORE.homes_of(GROUP), target.homes_of(GROUP))
    assert max(map(len, steps)) - min(map(len, steps)) <= 1


def test_a_portion_moves_keys_of_all_sources_to_all_targets() -> None:
    portion = next_portion(BEFORE, AFTER, EQUAL, 5)
    pairs = {(was, now) for was, now in zip(BEFORE.homes_of(GROUP), portion.homes_of(GROUP), strict=True) if was != now}
    assert {was for was, _ in pairs} == set(range(16)) and {now for _, now in pairs} == set(range(12))


@pytest.mark.parametrize(
    ("size", "portion_bytes", "done", "expected"),
    [
        (1.0, 64, 0, -(-MOVED // 64)),
        (0.5, 64, 0, -(-MOVED // 128)),
        (100.0, MOVED * 100, 0, 1),
        (100.0, MOVED * 100 - 1, 0, 2),
        (2.0**40, 1, 0, MOST_PORTIONS),
        (2.0**40, 1, 10, MOST_PORTIONS - 10),
        (2.0**40, 1, MOST_PORTIONS + 3, 1),
        (None, 1, 0, 1),
        (0.0, 1, 0, 1),
        (2.0**40, 0, 0, 1),
    ],
)
def test_there_are_as_many_portions_as_what_moves_has_times_the_bytes_of_one(
    size: float | None, portion_bytes: int, done: int, expected: int
) -> None:
    sizes = None if size is None else [[size] * GROUP.buckets]
    assert portions_left(BEFORE, AFTER, sizes, portion_bytes, done) == expected


def test_what_does_not_move_takes_no_portion() -> None:
    stays = set(range(GROUP.buckets)).difference(moved(BEFORE.homes_of(GROUP), AFTER.homes_of(GROUP)))
    sizes = [[1000.0 if bucket in stays else 1.0 for bucket in range(GROUP.buckets)]]
    assert portions_left(BEFORE, AFTER, sizes, MOVED) == 1


def test_large_buckets_move_one_by_one() -> None:
    """As the warehouses of TPC-C do: ten groups of keys, of which each has one bucket."""
    moving = moved(BEFORE.homes_of(GROUP), AFTER.homes_of(GROUP))
    large = moving[:: len(moving) // 10][:10]
    sizes = [[100.0 if bucket in large else 0.01 for bucket in range(GROUP.buckets)]]
    found, left = [BEFORE], portions_left(BEFORE, AFTER, sizes, 64)
    assert left == 16
    while found[-1].groups != AFTER.groups:
        target = msgspec.structs.replace(AFTER, number=found[-1].number + 1)
        found.append(
            next_portion(found[-1], target, sizes, portions_left(found[-1], target, sizes, 64, len(found) - 1))
        )
    steps = [moved(was.homes_of(GROUP), now.homes_of(GROUP)) for was, now in pairwise(found)]
    assert sorted(chain.from_iterable(steps)) == moving
    assert max(len(set(step) & set(large)) for step in steps) == 1 and len(found) - 1 in (10, 11)


def test_the_last_portion_moves_buckets_without_a_byte_too() -> None:
    first = moved(BEFORE.homes_of(GROUP), AFTER.homes_of(GROUP))[0]
    sizes = [[float(bucket == first) for bucket in range(GROUP.buckets)]]
    assert next_portion(BEFORE, AFTER, sizes, 1) == AFTER
    assert 0 < len(moved(BEFORE.homes_of(GROUP), next_portion(BEFORE, AFTER, sizes, 2).homes_of(GROUP))) < MOVED


def test_buckets_without_a_byte_move_by_their_number() -> None:
    empty = [[0.0] * GROUP.buckets]
    assert (
        next_portion(BEFORE, AFTER, empty, 7)
        == next_portion(BEFORE, AFTER, None, 7)
        == next_portion(BEFORE, AFTER, EQUAL, 7)
    )


def table(*keys: str, size: int = 9) -> dict[tuple[str, str], bytes | None]:
    return {("count", key): bytes(size - len(key)) for key in keys}


def test_a_bucket_has_the_bytes_of_its_keys_and_one_of_another_partition_the_mean() -> None:
    group = Group(2, "/")
    present = Layout.first_of({group})
    operators = {"count": Operator("count", partitions=2, colocate="/")}
    mine = [key for key in KEYS if group.bucket(key) % 2 == 0]
    heavy, light = mine[0], mine[1]
    rows = table(heavy, f"{heavy}/1", f"{heavy}/2", light) | {("gone", "key"): b"12345"}
    sizes = bucket_sizes(present, present, operators, {0: KnownState([rows])})
    assert sizes is not None
    (found,) = sizes
    others = {bucket: size for bucket, size in enumerate(found) if bucket % 2}
    assert (found[group.bucket(heavy)], found[group.bucket(light)]) == (27, 9)
    assert list(others.values()) == pytest.approx([36 / (group.buckets / 2)] * (group.buckets // 2))
    assert sum(found) == pytest.approx(72)


def test_bytes_in_files_belong_to_all_buckets_of_a_partition_alike() -> None:
    group = Group(2, None)
    present = Layout.first_of({group})
    operators = {"count": Operator("count", partitions=2)}
    (key,) = [key for key in KEYS if group.bucket(key) % 2 == 0][:1]
    states = {0: KnownState([table(key), {}], 9 + group.buckets), 1: KnownState([], 0)}
    sizes = bucket_sizes(present, present, operators, states)
    assert sizes is not None
    assert sizes[0][group.bucket(key)] == 11 and sum(sizes[0]) == pytest.approx(9 + group.buckets)
    assert sizes[0][1] == 0 and bucket_sizes(present, present, operators, {}) is None
    assert bucket_sizes(present, present, operators, {2: KnownState([table(key)])}) is None, "it has no bucket"


def test_of_many_keys_a_few_are_looked_at() -> None:
    group = Group(1, None)
    present = Layout.first_of({group})
    rows: dict[tuple[str, str], bytes | None] = {("count", f"{number:09}"): b"1" for number in range(50_000)}
    sizes = bucket_sizes(present, present, {"count": Operator("count", partitions=1)}, {0: KnownState([rows])})
    assert sizes is not None and sum(sizes[0]) == pytest.approx(500_000)
    assert 300 < np.count_nonzero(sizes[0]) < group.buckets


def test_a_request_is_open_until_its_last_portion_holds_and_its_outcome_is_that_of_all() -> None:
    fold = LayoutFold()
    requested = ProposedLayout(1, 5, msgspec.Raw(b'"target"'), {"to": 3}, online=True)
    fold.take(m.ONLINE_LAYOUT, text(requested))

    def portion(outcome: LayoutOutcome, layout: bytes, *, is_last: bool = False) -> None:
        fold.take(m.LAYOUT_PORTION, text(LayoutPortion(outcome, msgspec.Raw(layout), is_last)))

    portion(LayoutOutcome(1, keys=3), b"1")
    fold.take(m.IN_PORTIONS, "2")
    assert fold.open == requested, "it is in no portions"
    fold.take(m.IN_PORTIONS, "1")
    assert fold.open == msgspec.structs.replace(requested, in_portions=True)
    portion(LayoutOutcome(2, keys=9), b"2")
    portion(LayoutOutcome(1, "no room"), b"1")
    fold.take(c.LAYOUT_DONE, text(LayoutOutcome(1, keys=9)))
    assert fold.open.as_requested == requested and fold.number == 0, "none is about it, or can be"
    portion(LayoutOutcome(1, keys=3, size_bytes=30, replies=1, took_ms=40, downtime_ms=7), b"1")
    assert fold.number == 1 and fold.newest is not None and bytes(fold.newest.layout) == b"1"
    assert fold.open is not None and fold.open.number == 2 and fold.open.as_requested == requested
    assert fold.take(m.ONLINE_LAYOUT, text(ProposedLayout(2, 5, msgspec.Raw(b"{}"), online=True))) is None
    portion(LayoutOutcome(1, keys=3), b"again")
    assert bytes(fold.newest.layout) == b"1", "it was written twice"
    portion(LayoutOutcome(2, keys=4, size_bytes=50, replies=0, took_ms=10, downtime_ms=5, resumed=True), b"2")
    assert outcome_of(fold, 1) is None
    portion(LayoutOutcome(3, keys=1, size_bytes=1, replies=0, took_ms=1, downtime_ms=9), b"3", is_last=True)
    assert fold.open is None and fold.number == 3 and fold.newest is not None and bytes(fold.newest.layout) == b"3"
    all_of_it = LayoutOutcome(3, "", 8, 81, 1, 51, 9, resumed=True, first=1)
    assert outcome_of(fold, 1) == outcome_of(fold, 3) == all_of_it and outcome_of(fold, 4) is None
    assert fold.newest_request is not None and fold.newest_request.as_requested == requested
    assert fold.take(m.ONLINE_LAYOUT, text(ProposedLayout(4, 5, msgspec.Raw(b"{}"), online=True))) is not None


def test_what_one_portion_does_not_know_is_not_known_of_all_and_a_problem_ends_them() -> None:
    fold = LayoutFold()
    fold.take(m.ONLINE_LAYOUT, text(ProposedLayout(1, 5, msgspec.Raw(b"{}"), online=True)))
    assert first_format((fold.proposed, fold.outcome, fold.layout)) == m.COPIES_VERSION
    fold.take(m.IN_PORTIONS, "1")
    assert first_format((fold.proposed, fold.outcome, fold.layout)) == m.PORTIONS_VERSION
    fold.take(m.LAYOUT_PORTION, text(LayoutPortion(LayoutOutcome(1, keys=3), msgspec.Raw(b"1"), is_last=False)))
    assert first_format((fold.proposed, fold.outcome, fold.layout)) == m.PORTIONS_VERSION
    fold.take(c.LAYOUT_DONE, text(LayoutOutcome(2, "it cannot be read", downtime_ms=4)))
    assert fold.open is None and fold.number == 1
    assert outcome_of(fold, 1) == LayoutOutcome(2, "it cannot be read", downtime_ms=4, first=1)


def test_a_control_record_of_a_portion_stops_nodes_that_would_take_the_request_for_open() -> None:
    assert {m.Command(1, name, "{}").format for name in (m.IN_PORTIONS, m.LAYOUT_PORTION)} == {m.PORTIONS_VERSION}
    assert m.Command(1, m.ONLINE_LAYOUT, "{}").format == m.COPIES_VERSION


class Fleet(Stage):
    """Nodes for which a portion has few bytes. ``plans``: the layouts that were planned, by the log."""

    def __init__(
        self, portion_bytes: int, others: Sequence[str] = (), partitions: int = 2, spills: Spills | None = None
    ) -> None:
        self.spills = spills
        new_store = Store if spills is None else spills.store
        program = counters("portions", partitions)
        super().__init__(
            program, new_store=new_store, new_log=lambda on_wait: MemoryLog(on_wait=lambda s: self.turn(20))
        )
        self.config = replace(self.config, portion_bytes=portion_bytes)
        for name in ("a", *others):
            self.start(name)
        self.turn(100)
        for key in KEYS:
            assert self.call("count", key, "add", [1]) == 1

    def more(self, name: str) -> dict[str, Any]:
        return {} if (spills := self.spills) is None else {"disk_bytes": lambda store: spills.size_of(store)[1]}

    @property
    def plans(self) -> list[Layout]:
        values = self.log.read(self.topics.epochs, 0, 0).values
        return [each.layout for value in values for each in epoch_messages(value) if isinstance(each, PlannedLayout)]


@pytest.mark.slow
def test_a_node_moves_keys_in_portions_and_the_next_request_follows_the_last_of_them() -> None:
    made = Fleet(40)
    requests, told = Repartitioning(made.log, made.topics), list[str]()
    proposed, begun = requests.request(["count"], 5, "all")
    with pytest.raises(RunFailed, match="layout 1 is under way"):
        Repartitioning(made.log, made.topics).check_settled()
    ended = requests.wait(proposed, begun, 60, told.append)
    assert len(made.plans) > 3 and [each.number for each in made.plans] == [*range(1, len(made.plans) + 1)]
    layout = Repartitioning(made.log, made.topics).layout()
    assert layout == made.plans[-1] and layout.partitions == ended.partitions == 5
    homes = begun.partitions, layout.groups[0].homes
    assert homes == (5, tuple(bucket % 5 for bucket in range(len(homes[1]))))
    first = Layout.first_of({Group(2, None)}).placement({"count": made.program.operators["count"]})
    last = layout.placement({"count": made.program.operators["count"]})
    assert ended.keys == sum(first.place("count", key) != last.place("count", key) for key in KEYS)
    assert [made.call("count", key, "add", [1]) for key in KEYS] == [2] * len(KEYS)
    again, begun = requests.request(["count"], 2, "least", "stop")
    assert again.number == layout.number + 1 and requests.wait(again, begun, 60).layout == again.number
    assert [made.call("count", key, "add", [1]) for key in KEYS] == [3] * len(KEYS)


@pytest.mark.slow
def test_of_more_nodes_more_move_at_once() -> None:
    found: list[int] = []
    for others in ((), ("b", "c", "d")):
        made = Fleet(10, others, 8)
        requests = Repartitioning(made.log, made.topics)
        proposed, begun = requests.request(["count"], 12, "all")
        requests.wait(proposed, begun, 60)
        found.append(len(made.plans))
    assert found[0] > 2 * found[1] > 2


def test_no_portion_is_planned_before_nodes_that_know_none_have_stopped() -> None:
    made = Fleet(20)
    requests = Repartitioning(made.log, made.topics)
    requests.request(["count"], 4, "all")
    made.turn(10)
    wanted, timeout_ms = requests.read().layouts.open, made.nodes["a"][0].claiming.detector.failure_timeout_ms
    assert wanted is not None and wanted.in_portions
    since_ms = made.now_ms
    while not made.plans:
        made.turn()
    assert timeout_ms - 50 <= made.now_ms - since_ms <= timeout_ms + 50


@pytest.mark.slow
def test_state_that_spills_moves_in_portions_too(tmp_path: Path) -> None:
    made = Fleet(20, spills=Spills(str(tmp_path), 1_000))
    requests = Repartitioning(made.log, made.topics)
    proposed, begun = requests.request(["count"], 5, "all")
    requests.wait(proposed, begun, 60)
    assert len(made.plans) > 1
    assert [made.call("count", key, "add", [1]) for key in KEYS] == [2] * len(KEYS)


@pytest.mark.slow
def test_another_node_goes_on_behind_the_last_portion_that_holds() -> None:
    made = Fleet(20)
    requests = Repartitioning(made.log, made.topics)
    proposed, begun = requests.request(["count"], 4, "all")
    while len(made.plans) < 3:
        made.turn()
    held = requests.layout().number
    assert held >= 2
    del made.nodes["a"]
    made.start("b")
    ended = requests.wait(proposed, begun, 60)
    assert len(made.plans) > 3 and ended.resumed and requests.layout().number > held
    assert [made.call("count", key, "add", [1]) for key in KEYS] == [2] * len(KEYS)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "portion_bytes"), [("stop", 1), ("online", 1 << 20)])
def test_what_is_small_or_stops_moves_at_once(mode: str, portion_bytes: int) -> None:
    made = Fleet(portion_bytes)
    requests = Repartitioning(made.log, made.topics)
    assert mode in ("stop", "online")
    proposed, begun = requests.request(["count"], 5, "all", "stop" if mode == "stop" else "online")
    assert requests.wait(proposed, begun, 60).partitions == 5 and requests.layout().number == 1
