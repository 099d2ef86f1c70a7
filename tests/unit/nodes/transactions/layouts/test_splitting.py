"""Splits of a partition on nodes in memory: what moves, what is refused before, and the heat that decides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from nodes.cli.txn.layout import lines
from nodes.errors import RunFailed, SettingsError, UnknownName
from nodes.log.memory import MemoryLog
from nodes.transactions.layouts.cpu import RecentCpu
from nodes.transactions.layouts.halves import Bucket, buckets_of, moving_half
from nodes.transactions.layouts.heat import BYTES_A_CALL, KeyPart, Work, recent
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.layouts.shown import layout_shown
from nodes.transactions.layouts.splitting import (
    BUCKETS,
    CHECKPOINT,
    CPU,
    RECENT,
    Split,
    measured,
    request_split,
    wait_for_split,
)
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional.epochs.messages import (
    Calls,
    Commit,
    Forward,
    MessageBatch,
    RoundBarrier,
    WireCall,
    WireResult,
    to_bytes,
)
from transactional.layout import Group, Layout

JOB = "split"
GROUP = Group(2, None)
FIRST = Layout.first_of({GROUP})
KEYS = [next(key for key in map(str, count()) if GROUP.bucket(key) == bucket) for bucket in range(0, 8, 2)]
"""Of four buckets of partition 0."""
OTHER = next(key for key in map(str, count()) if GROUP.bucket(key) == 1)


def stage(*, interval_ms: int = 10_000) -> Stage:
    made = Stage(
        counters(JOB, 2), interval_ms=interval_ms, new_log=lambda on_wait: MemoryLog(on_wait=lambda s: made.turn(20))
    )
    made.start("a")
    made.turn(10)
    return made


def split(made: Stage, partition: int, to: int | None = None) -> Split:
    requests = Repartitioning(made.log, made.topics)
    _, told = request_split(requests, JOB, made.store, partition, to)
    return wait_for_split(requests, told, 60)


def count_up(made: Stage, key: str, times: int) -> None:
    for _ in range(times):
        made.call("count", key, "add", [1])
    made.turn(20)  # commits are held back for a moment


@pytest.mark.slow
def test_the_hotter_half_moves_and_every_count_is_as_it_was() -> None:
    made = stage()
    for key, times in zip(KEYS, (9, 2, 4, 3), strict=True):
        count_up(made, key, times)
    count_up(made, OTHER, 12)
    told = split(made, 0)
    assert (told.partition, told.target, told.new, told.layout, told.partitions) == (0, 2, True, 1, 3)
    assert (told.heat_by, told.buckets, told.keys) == (RECENT, 1, 1) and told.heat_share == pytest.approx(0.5, abs=0.02)
    layout = Repartitioning(made.log, made.topics).layout()
    assert layout.homes_of(GROUP) == tuple(2 if bucket == 0 else bucket % 2 for bucket in range(GROUP.buckets))
    assert [made.call("count", key, "add", [0]) for key in (*KEYS, OTHER)] == [9, 2, 4, 3, 12]


def test_the_coldest_partition_gets_the_half_if_it_stays_cooler_than_the_split_one_was() -> None:
    made = stage()
    for key in KEYS:
        count_up(made, key, 3)
    count_up(made, OTHER, 2)
    told = split(made, 0)
    assert (told.target, told.new, told.partitions, told.buckets) == (1, False, 2, 2)
    assert [made.call("count", key, "add", [0]) for key in (*KEYS, OTHER)] == [3, 3, 3, 3, 2]


def test_costly_calls_are_divided_by_cpu_though_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stage()
    for key, times in zip(KEYS, (1, 1, 9, 3), strict=True):
        count_up(made, key, times)
    count_up(made, OTHER, 40)
    hot = {0: {("count", GROUP.bucket(key)): 0.45 for key in KEYS[:2]}}
    monkeypatch.setattr(Repartitioning, "cpu", lambda self: RecentCpu(60.0, {0: 0.4, 1: 0.1}, hot))
    requests = Repartitioning(made.log, made.topics)
    by_cpu, by = measured(requests, FIRST, JOB, None, 0)
    works = [sum(by_cpu.get(bucket, 0) for bucket in buckets_of(FIRST, each)) for each in range(2)]
    assert by == CPU and works == [pytest.approx(800_000, abs=5), pytest.approx(200_000, abs=5)]
    told = split(made, 0)
    homes = Repartitioning(made.log, made.topics).layout().homes_of(GROUP)
    moved = [homes[GROUP.bucket(key)] for key in KEYS[:2]]
    assert told.heat_by == CPU and sorted(moved) == [0, 1], "by heat both would stay together"
    assert told.heat_share == pytest.approx(0.5, abs=0.03) and (told.target, told.new) == (1, False)


@pytest.mark.slow
def test_without_commits_stored_bytes_decide_and_without_any_numbers_of_buckets() -> None:
    made = stage(interval_ms=100)
    count_up(made, KEYS[0], 1)
    made.turn(100)
    for topic, partitions in ((made.topics.commits, 2),):
        for partition in range(partitions):
            made.log.delete_before(topic, partition, made.log.end_offset(topic, partition))
    assert (told := split(made, 0, 2)).heat_by == CHECKPOINT and (told.buckets, told.keys) == (1, 1)
    told = split(made, 1, 2)
    assert (told.heat_by, told.buckets, told.heat_share) == (BUCKETS, GROUP.buckets // 4, 0.5)


def test_one_hot_bucket_moves_alone_to_a_new_partition_and_leaves_its_neighbours_to_a_loaded_one() -> None:
    heats = dict.fromkeys(buckets_of(FIRST, 0), 0) | {Bucket(0, 6): 50}
    assert moving_half(heats, 0) == {Bucket(0, 6)}
    assert moving_half(heats, 1) == heats.keys() - {Bucket(0, 6)}


@pytest.mark.parametrize(
    ("partition", "to", "error", "text"),
    [
        (7, None, UnknownName, "no state partition '7'; known: 0, 1"),
        (-1, None, UnknownName, "no state partition '-1'"),
        (1, 1, SettingsError, "--to 1: partition 1 cannot be split with itself"),
        (1, 3, SettingsError, "--to 3: partitions 0 to 1 are there, and 2 is a new one"),
        (1, -1, SettingsError, "--to -1: partitions 0 to 1"),
    ],
)
def test_partitions_that_cannot_be_are_named_and_nothing_is_written(
    partition: int, to: int | None, error: type[Exception], text: str
) -> None:
    made = stage()
    refused(made, lambda: split(made, partition, to), error, text)


def test_a_partition_with_a_single_bucket_is_not_split() -> None:
    made = stage()
    requests = Repartitioning(made.log, made.topics)
    homes = (0, *([1] * (GROUP.buckets - 1)))
    requests.outcome(requests.propose(FIRST.changed({GROUP: homes}), {}).number, 60)
    refused(made, lambda: split(made, 0), SettingsError, "partition 0 has 1 bucket: only two and more can be divided")


def test_another_layout_under_way_is_named() -> None:
    made = stage()
    Repartitioning(made.log, made.topics).request(["count"], 3, "least")
    refused(made, lambda: split(made, 0), RunFailed, "layout 1 is under way .count to 3 partitions.")
    made.turn(300)
    request_split(Repartitioning(made.log, made.topics), JOB, made.store, 0, 1)
    text = "layout 2 is under way .split of partition 0, half of it to partition 1."
    refused(made, lambda: split(made, 1), RunFailed, text)


def test_without_a_node_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.transactions.layouts.repartitioning.HEARTBEAT_WAIT_S", 0.01)
    made = stage()
    made.nodes.clear()
    refused(made, lambda: split(made, 0), RunFailed, "no node of job 'split' runs: nothing was changed")


def written(made: Stage) -> list[int]:
    places = [made.log.partitions(topic) for topic in made.topics.of_state_partitions]
    return [made.log.end_offset(made.topics.control, 0), *places]


def refused(made: Stage, work: Callable[[], object], error: type[Exception], text: str) -> None:
    before = written(made)
    with pytest.raises(error, match=text):
        work()
    assert written(made) == before


def test_heat_is_calls_and_written_bytes_of_the_same_epochs_in_all_partitions() -> None:
    made = stage()
    for epoch in range(1, 9):
        made.log.append(made.topics.commits, 0, [commit(0, epoch, KEYS[0], 1), commit(0, epoch, KEYS[1], 5)])
    sizes = [len(KEYS[0]) + 1, len(OTHER) + 10]
    for epoch in (2, 3, 7, 8, 9):
        made.log.append(made.topics.commits, 1, [commit(1, epoch, OTHER, 10), commit(0, epoch, KEYS[2], 99), b"none"])
    requests = Repartitioning(made.log, made.topics)
    found = requests.recent()
    assert (found.first_epoch, found.last_epoch) == (1, 9)
    assert found.by_part == {KeyPart(0, KEYS[0]): Work(0, 8 * sizes[0]), KeyPart(0, OTHER): Work(0, 5 * sizes[1])}
    assert parts(made, records=12) == {KEYS[0]: Work(0, 5 * sizes[0]), OTHER: Work(0, 3 * sizes[1])}, "from epoch 4 on"
    assert parts(made, complete_from=8) == {KEYS[0]: Work(0, sizes[0]), OTHER: Work(0, 2 * sizes[1])}
    assert Work(3, 5).heat == 3 * BYTES_A_CALL + 5


def test_calls_from_other_partitions_are_heat_wherever_they_travel_and_count_once() -> None:
    made = stage()
    for _ in range(2):  # two owners of a partition write the same
        made.log.append(made.topics.epochs, 0, [barrier(1, 3), to_bytes(MessageBatch([barrier(2, 1)])), b"none"])
        made.log.append(made.topics.calls, 1, [to_bytes(calls(3, 4))])
    made.log.append(made.topics.calls, 0, [to_bytes(calls(3, 1)), to_bytes(Forward(0, 3, [], [])), b"none"])
    assert parts(made) == {OTHER: Work(9, 0)}
    assert parts(made, complete_from=2) == {OTHER: Work(6, 0)}


def test_where_topics_are_trimmed_epochs_count_of_which_all_partitions_have_the_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = stage(interval_ms=100)
    count_up(made, KEYS[0], 4)
    made.turn(100)
    count_up(made, OTHER, 4)
    requests = Repartitioning(made.log, made.topics)
    assert requests.recent().total.calls == 8
    made.log.delete_before(made.topics.commits, 1, made.log.end_offset(made.topics.commits, 1) - 1)
    oldest = requests.read().checkpoints(SEQUENCERS + 1)[-1].offset
    assert requests.recent().first_epoch > oldest > 0 and requests.recent().total.calls == 1


def parts(made: Stage, **given: int) -> dict[str, Work]:
    found = recent(made.log, made.topics, FIRST, {"count": GROUP}, **given).by_part
    return {each.part: work for each, work in found.items()}


def calls(epoch: int, count: int) -> Calls:
    result = WireResult(1, (), (), b"", None)
    return Calls(0, epoch, 1, [result, *[WireCall(1, 0, (), (), "count", OTHER, "add", b"", 0)] * count])


def barrier(epoch: int, count: int) -> bytes:
    return to_bytes(RoundBarrier(0, epoch, 1, [(1, to_bytes(calls(epoch, count)))], None, inline=True))


def commit(partition: int, epoch: int, key: str, size: int) -> bytes:
    return to_bytes(Commit(partition, epoch, 0, [("count", key, bytes(size))], [], []))


def test_the_layout_shows_shares_of_work_and_names_keys_that_are_too_hot() -> None:
    made = stage()
    count_up(made, KEYS[0], 6)
    count_up(made, OTHER, 2)
    found = layout_shown(JOB, Repartitioning(made.log, made.topics), made.store)
    assert [round(row.calls_share, 2) for row in found.partitions] == [0.75, 0.25]
    assert sum(row.heat_share for row in found.partitions) == pytest.approx(1)
    heat = found.heat
    assert (heat.calls, [each.key for each in heat.hottest]) == (8, [KEYS[0], OTHER]) and heat.bytes > 8
    assert [each.too_hot for each in heat.hottest] == [True, False]
    hot = heat.hottest[0]
    assert (hot.operators, hot.partition, hot.calls, hot.calls_share) == (["count"], 0, 6, 0.75)
    text = "\n".join(lines(found))
    assert f"6 calls, {hot.bytes} bytes: {KEYS[0]!r} of count in partition 0; too hot for one partition" in text
    assert text.count("too hot") == 1 and "heat: 8 calls" in text
    request_split(Repartitioning(made.log, made.topics), JOB, made.store, 0, 2)
    text = "\n".join(lines(layout_shown(JOB, Repartitioning(made.log, made.topics), None)))
    assert "under way: split of partition 0, half of it to partition 2" in text


def test_a_job_without_commits_has_no_heat() -> None:
    made = stage()
    found = layout_shown(JOB, Repartitioning(made.log, made.topics), None)
    assert [row.heat_share for row in found.partitions] == [0, 0] and not found.heat.hottest
    assert "heat: no epoch has committed anything that the log still has" in list(lines(found))
