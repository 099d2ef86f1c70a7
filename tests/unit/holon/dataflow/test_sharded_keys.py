"""Keys that partitions share out: the rows of ``key_by`` without that, each from the partition that answers for it."""

from __future__ import annotations

import msgspec
import pytest

from holon import Json
from holon.dataflow import Count, Flow, Session, Tumbling
from holon.dataflow.errors import FlowError
from holon.outputs.shards import shard_of
from holon.testing import JobTestDriver
from nodes.machine.config import contributed_states

PARTITIONS = 3


class Sale(msgspec.Struct):
    at: int
    item: int
    amount: int


def sales(sharded: bool) -> Flow:
    flow = Flow("sales")
    by_item = flow.source("sales", Json(Sale), time=lambda s: s.at).key_by(lambda s: s.item, sharded=sharded)
    totals = by_item.window(Tumbling(100)).agg(lambda g: (g.key, g.count(), g.sum(lambda s: s.amount)))
    totals.sink("totals")
    totals.window(Tumbling(1000)).agg(lambda g: g.sum(lambda row: row[2])).sink("all")
    return flow


def ran(sharded: bool) -> JobTestDriver:
    test = JobTestDriver(sales(sharded).job, partitions=PARTITIONS)
    for number in range(300):
        test.feed(number % PARTITIONS, {"at": number, "item": number * 7 % 80, "amount": number})
    test.finish()
    return test


@pytest.mark.slow
def test_rows_are_the_same_and_each_partition_has_its_keys() -> None:
    sharded, whole = ran(True), ran(False)
    assert sorted(sharded.outputs("totals")) == sorted(whole.outputs("totals"))
    assert sharded.outputs("all") == whole.outputs("all") == [sum(range(300))]
    output = next(name for name, each in sales(True).job.outputs.items() if each.topic == "totals")
    rows = [(partition, msgspec.json.decode(value)[0]) for partition, _, value in sharded.raw_outputs(output)]
    assert rows and all(partition == shard_of(item, PARTITIONS) for partition, item in rows)


def test_what_needs_all_keys_at_once_is_refused_behind_them() -> None:
    flow = Flow("sales")
    by_item = flow.source("sales", Json(Sale), time=lambda s: s.at).key_by(lambda s: s.item, sharded=True)
    with pytest.raises(FlowError, match="rows come in parts"):
        by_item.window(Tumbling(100)).agg(lambda g: (g.key, g.count())).top(1, by=lambda row: row[1]).sink("most")


# --- sessions, early results and windows by data ----------------------------------------------------------------------


class Visit(msgspec.Struct):
    item: int
    start_ms: int
    count: int
    sum: int


class Update(msgspec.Struct):
    end_ms: int
    item: int
    sum: int
    final: bool
    retracted: bool


def windows_of_slices(sharded: bool) -> Flow:
    flow = Flow("slices")
    sales = flow.source("sales", Json(Sale), time=lambda s: s.at)
    by_item = sales.key_by(lambda s: s.item, sharded=sharded)
    for topic, windows in [("visits", Session(30, 10)), ("fives", Count(5, timeout=120, slice=30))]:
        by_item.window(windows).agg(
            lambda g: Visit(g.key, g.window.start_ms, g.count(), g.sum(lambda s: s.amount))
        ).sink(topic)
    by_item.window(Tumbling(100), early=20, updates="retract").agg(
        lambda g: Update(g.window.end_ms, g.key, g.sum(lambda s: s.amount), g.final, g.retracted)
    ).sink("updates")
    return flow


@pytest.mark.slow
@pytest.mark.parametrize("items", [7, 300], ids=["objects", "columns"])
def test_windows_of_slices_are_the_same_and_each_partition_has_its_keys(items: int) -> None:
    tests = [JobTestDriver(windows_of_slices(sharded).job, partitions=PARTITIONS) for sharded in (True, False)]
    for test in tests:
        for first in range(0, 450, 45):  # no row is late: partitions are fed in turn, up to the same time
            rows = [
                {"at": n, "item": n * 11 % items if n % 90 < 60 else n % 3, "amount": n}
                for n in range(first, first + 45)
            ]
            for partition in range(PARTITIONS):
                test.feed(partition, *rows[partition::PARTITIONS])
        test.finish()
    for output in ("main", "fives", "updates"):
        sharded, whole = (test.raw_outputs(output) for test in tests)
        assert sharded == whole and len(sharded) > 5
        assert all(partition == shard_of(msgspec.json.decode(row)["item"], PARTITIONS) for partition, _, row in sharded)


def test_slices_are_sharded_and_what_marks_them_is_not() -> None:
    assert windows_of_slices(True).job.program.sharded == {"agg2", "agg4", "agg6"}
    assert not windows_of_slices(False).job.program.sharded


# --- what is shown of it ----------------------------------------------------------------------------------------------


def of_all_kinds(sharded: bool, idle: str | None) -> Flow:
    """Windows of a fixed time and of slices, with keys and without, of records and of windows, of all and of each."""
    flow = Flow("kinds")
    sales = flow.source("sales", Json(Sale), time=lambda s: s.at, idle=idle)
    by_item = sales.key_by(lambda s: s.item, sharded=sharded)
    totals = by_item.window(Tumbling(100)).agg(lambda g: Total(g.key, g.count()))
    by_item.window(Session(30, 10)).agg(lambda g: (g.key, g.count())).sink("visits")
    totals.key_by(lambda t: t.item, sharded=sharded).window(Tumbling(1000)).agg(lambda g: (g.key,)).sink("again")
    sales.window(Tumbling(100)).agg(lambda g: g.count()).sink("all")
    own = sales.per_partition().key_by(lambda s: s.item)
    own.window(Tumbling(100)).agg(lambda g: (g.key, g.count())).sink("own")
    return flow


class Total(msgspec.Struct):
    item: int
    count: int


@pytest.mark.parametrize("sharded", [True, False])
@pytest.mark.parametrize("idle", [None, "5s"])
def test_explain_shows_of_each_window_who_holds_its_keys_and_why(sharded: bool, idle: str | None) -> None:
    flow = of_all_kinds(sharded, idle)
    shown = {f"agg{step.step}": step.keys for step in flow.explain() if step.keys}
    alone, *_ = [name for name, keys in shown.items() if keys.startswith("per partition")]
    declared = flow.job.program.windowed()
    assert {name for name in declared if not name.endswith("due")} == set(shown) and not declared[alone].shared
    apart = {name for name, keys in shown.items() if keys.startswith("sharded: ")}
    assert apart == contributed_states(flow.job), "what nodes do"
    assert len(apart) == (2 if sharded and idle is None else 0)
    assert all(keys.startswith("all-to-all: ") for name, keys in shown.items() if name not in apart | {alone})
    reasons = [keys.removeprefix("all-to-all: ") for keys in shown.values() if keys.startswith("all-to-all: ")]
    assert "one group of all rows" in reasons
    assert ("its rows come from windows, and only those of records are sent by key" in reasons) is sharded
    assert ("its key_by is without sharded=True" in reasons) is not sharded
    assert any("the source sales has idle=" in reason for reason in reasons) is (sharded and idle is not None)


def test_the_choice_is_part_of_what_the_log_has_of_a_job() -> None:
    assert sales(True).job.fingerprint() != sales(False).job.fingerprint()
