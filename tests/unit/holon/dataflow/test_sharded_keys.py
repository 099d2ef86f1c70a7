"""Keys that partitions share out: the rows of ``key_by`` without that, each from the partition that answers for it."""

from __future__ import annotations

import msgspec
import pytest

from holon import Json
from holon.dataflow import Flow, Session, Tumbling
from holon.dataflow.errors import FlowError
from holon.outputs.shards import shard_of
from holon.testing import JobTestDriver

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
    with pytest.raises(FlowError, match="early results have no sharded=True keys; leave it out"):
        by_item.window(Session("1s")).agg(lambda g: g.count())
    with pytest.raises(FlowError, match="rows come in parts"):
        by_item.window(Tumbling(100)).agg(lambda g: (g.key, g.count())).top(1, by=lambda row: row[1]).sink("most")
