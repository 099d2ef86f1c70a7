"""Flows and jobs of several topics, which have formats, event times and out-of-orderness of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

import msgspec
import pytest

from holon import Batch, Context, Job, Json, JsonColumns, Source
from holon.dataflow import Flow, FlowError, Stream, Tumbling
from holon.testing import JobTestDriver, run_job


class Click(msgspec.Struct):
    at: int
    user: str


class Order(msgspec.Struct):
    """Its time is in seconds."""

    when: int
    who: str
    price: int


class Act(msgspec.Struct):
    user: str
    price: int


CLICKS = [{"at": at, "user": user} for at, user in ((1_000, "a"), (2_500, "b"), (11_000, "a"))]
ORDERS = [{"when": when, "who": who, "price": 7} for when, who in ((9, "b"), (2, "a"), (12, "b"))]


def acts(flow: Flow, *topics: str) -> Stream[Act]:
    """Clicks of these topics, and orders."""
    clicks = flow.source(list(topics), Json(Click), time=lambda c: c.at)
    orders = flow.source("orders", Json(Order), time=lambda o: o.when, unit="s", out_of_order="8s")
    return clicks.map(lambda c: Act(c.user, 0)).union(orders.map(lambda o: Act(o.who, o.price)))


def by_user(name: str = "two", **settings: Any) -> Flow:
    flow = Flow(name, **settings)
    windows = acts(flow, "eu", "us").key_by(lambda a: a.user).window(Tumbling("10s"))
    windows.agg(lambda g: [g.window.end_ms, g.key, g.count(), g.sum(lambda a: a.price)]).sink("out")
    return flow


def test_a_window_takes_rows_of_all_topics() -> None:
    wanted = [[10_000, "a", 3, 7], [10_000, "b", 2, 7], [20_000, "a", 2, 0], [20_000, "b", 1, 7]]
    given = {"us": CLICKS, "orders": ORDERS, "eu": [CLICKS[0], CLICKS[2]]}
    assert by_user().collect(given) == wanted
    assert by_user().collect(dict(reversed(given.items()))) == wanted


def test_a_window_waits_for_all_partitions_of_all_topics() -> None:
    test = JobTestDriver(by_user().job, {"eu": 2, "orders": 1})
    assert test.layout.topics == {"eu": 2, "us": 1, "orders": 1}
    test.feed(("eu", 0), {"at": 30_000, "user": "a"})
    test.feed(("eu", 1), {"at": 1, "user": "a"}, {"at": 30_000, "user": "a"})
    test.feed("us", {"at": 30_000, "user": "a"})
    test.feed("orders", {"when": 17, "who": "a", "price": 1})
    assert test.outputs() == [], "orders may still come for 8 s of event time"
    test.feed("orders", {"when": 18, "who": "a", "price": 1})
    assert test.outputs() == [[10_000, "a", 1, 0]]


def test_each_topic_judges_what_is_late_by_its_own_out_of_orderness() -> None:
    test = JobTestDriver(by_user().job)
    test.feed("us", {"at": 12_000, "user": "x"}, {"at": 9_000, "user": "x"})
    test.feed("orders", {"when": 12, "who": "x", "price": 1}, {"when": 9, "who": "x", "price": 1})
    test.finish()
    assert [(letter["topic"], letter["partition"], letter["offset"]) for letter in test.late()] == [("us", 0, 1)]
    assert test.outputs() == [[10_000, "x", 1, 1], [20_000, "x", 2, 1]]


def test_streams_of_two_topics_have_windows_of_their_own() -> None:
    flow = Flow("own")
    clicks = flow.source("clicks", Json(Click), time=lambda c: c.at)
    orders = flow.source("orders", Json(Order), time=lambda o: o.when, unit="s", out_of_order="8s")
    clicks.window(Tumbling("10s")).agg(lambda g: ["clicks", g.window.end_ms, g.count()]).sink("out")
    orders.window(Tumbling("5s")).agg(lambda g: [g.window.end_ms, g.count()]).sink("orders-out")
    test = JobTestDriver(flow.job)
    test.feed("clicks", *CLICKS)
    test.feed("orders", *ORDERS)
    test.finish()
    assert test.outputs() == [["clicks", 10_000, 2], ["clicks", 20_000, 1]]
    assert test.outputs("orders-out") == [[5_000, 1], [10_000, 1], [15_000, 1]]
    assert test.counts.accepted == 6 and test.counts.filtered == 0


def test_a_bad_record_is_a_letter_of_its_topic_and_partition() -> None:
    test = JobTestDriver(by_user().job, 2)
    test.feed(("us", 1), b"{", {"at": 1, "user": "a"})
    test.feed(("orders", 1), {"at": 1, "user": "a"})
    test.finish()
    assert [(one["topic"], one["partition"], one["offset"]) for one in test.dead()] == [("us", 1, 0), ("orders", 1, 0)]
    assert test.counts.accepted == 1


def test_a_row_behind_a_window_names_the_topic_of_its_partition() -> None:
    flow = Flow("rows", on_error="dead-letter")
    acts(flow, "eu").window(Tumbling("10s")).agg(lambda g: g.count()).map(lambda n: 1 // (n - n)).sink("out")
    test = JobTestDriver(flow.job)
    test.feed("orders", *ORDERS)
    test.finish()
    assert {(one["topic"], one["partition"]) for one in test.dead()} <= {("eu", 0), ("orders", 0)}
    assert len(test.dead()) == 2


def test_lost_state_is_made_again() -> None:
    test = JobTestDriver(by_user().job)
    test.feed("us", *CLICKS[:2])
    test.checkpoint("orders")
    test.feed("orders", *ORDERS)
    test.fail("orders")
    test.fail(("us", 0))
    test.feed("us", CLICKS[2])
    test.finish()
    assert test.outputs() == [[10_000, "a", 2, 7], [10_000, "b", 2, 7], [20_000, "a", 1, 0], [20_000, "b", 1, 7]]


def test_explain_shows_the_topics_of_each_source() -> None:
    assert [step.topics for step in by_user().explain()[:3]] == [("eu", "us"), ("orders",), ()]


@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (lambda f: acts(f, "a", "a"), "topic 'a' has a source already"),
        (lambda f: acts(f, "orders"), "topic 'orders' has a source already"),
        (lambda f: acts(f), "topics are texts"),
        (lambda f: f.source([1], Json(Click)), "topics are texts"),
    ],
)
def test_topics_that_cannot_be_read_are_named(write: Callable[[Flow], Any], problem: str) -> None:
    with pytest.raises(FlowError, match=f"source.*test_sources.*{problem}"):
        write(Flow("bad"))


def test_collect_refuses_a_topic_that_the_flow_does_not_read() -> None:
    with pytest.raises(FlowError, match="does not read uk; it reads eu, us, orders"):
        by_user().collect({"uk": []})


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_a_function_of_records_sees_the_topic_and_its_own_events() -> None:
    def process(event: Any, ctx: Context) -> None:
        ctx.emit([ctx.topic, ctx.partition, type(event).__name__, ctx.timestamp_ms])

    sources = [
        Source("clicks", Json(Click), timestamp=lambda c: c.at),
        Source("orders", Json(Order), timestamp=lambda o: o.when, timestamp_unit="s"),
    ]
    job: Job[Any] = Job("both", sources, process, output="out")
    results = run_job(job, {"orders": ORDERS[:1], "clicks": CLICKS[:1]})
    assert results == [["clicks", 0, "Click", 1_000], ["orders", 1, "Order", 9_000]]
    with pytest.raises(AssertionError, match="give the records of each topic"):
        run_job(job, [CLICKS, ORDERS])


def test_a_function_of_batches_gets_rows_of_one_topic() -> None:
    def process_batch(batch: Batch[Any], ctx: Context) -> None:
        ctx.emit_many([[ctx.topic, *sorted(batch.columns)] for _ in range(len(batch))])

    sources = [Source("clicks", JsonColumns(Click), "at"), Source("orders", JsonColumns(Order), "when")]
    job: Job[Any] = Job("both", sources, process_batch=process_batch, output="out")
    results = run_job(job, {"clicks": CLICKS[:1], "orders": ORDERS[:1]})
    assert results == [["clicks", "at", "user"], ["orders", "price", "when", "who"]]


def test_a_failing_record_is_named_with_its_topic_and_partition() -> None:
    def process(event: Any, ctx: Context) -> None:
        raise ValueError("no")

    job: Job[Any] = Job("both", [Source(topic, Json(Click)) for topic in ("a", "b")], process)
    test = JobTestDriver(job, 2)
    with pytest.raises(Exception, match="on partition 1 at offset 0 of topic 'b'"):
        test.feed(("b", 1), CLICKS[0])


class _Row(TypedDict):
    at: int


class _MayLack(TypedDict, total=False):
    at: int


class _Checked(msgspec.Struct):
    at: int

    def __post_init__(self) -> None:
        pass


_COLUMNS = "those of a msgspec.Struct, dataclass, TypedDict or NamedTuple are read as columns"


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (dict, f"events are objects of dict: {_COLUMNS}"),
        (_MayLack, f"events are objects of _MayLack (_MayLack has keys that may be missing): {_COLUMNS}"),
        (_Checked, "_Checked checks itself (__post_init__), so its events are objects"),
        (_Row, ""),
        (Click, ""),
    ],
)
def test_a_source_of_objects_says_what_would_be_columns(of: Any, why: str) -> None:
    flow = Flow("objects")
    flow.source("in", Json(of), time=lambda event: 0).map(lambda event: 1).sink("out")
    assert flow.explain()[0].how == (f"row by row: {why}" if why else "")
