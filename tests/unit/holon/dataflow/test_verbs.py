"""Verbs that unite, part and retype streams: their rows are those of plain Python, whatever fails and is cut."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from statistics import pvariance
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest

from holon import Json
from holon.dataflow import Flow, FlowError, Stream, Tumbling
from holon.testing import JobTestDriver
from wcrdt import GSet, Max, Variance


class Bid(msgspec.Struct, tag="bid"):
    auction: int
    price: int
    channel: str
    at: int
    note: str | None = None


class Auction(msgspec.Struct, tag="auction"):
    id: int
    seller: int
    at: int


class Person(msgspec.Struct):
    name: str


class Priced(msgspec.Struct):
    auction: int
    euros: float


def bids(rows: int = 300) -> list[Bid]:
    return [Bid(n * 7 % 6, n * 13 % 50 - 5, ("web", "app", "tv")[n % 3], 50 * n) for n in range(rows)]


def bids_of(flow: Flow) -> Stream[Bid]:
    return flow.source("bids", Json(Bid), time=lambda b: b.at, out_of_order="1s")


def ran(flow: Flow, rows: list[Any], cut: int, partitions: int = 2) -> JobTestDriver:
    """The job at the end of these rows, dealt to partitions, fed in pieces of ``cut`` with failures between."""
    test = JobTestDriver(flow.job, partitions=partitions)
    for first in range(0, len(rows), cut):
        piece = rows[first : first + cut]
        for partition in range(partitions):
            mine = [row for number, row in enumerate(piece, first) if number % partitions == partition]
            test.feed(partition, *mine)
        if cut < len(rows):
            test.fail(first // cut % partitions)
            if first % 3 == 0:
                test.checkpoint(partitions - 1)
    test.finish()
    return test


def results(flow: Flow, rows: list[Any], cut: int) -> list[Any]:
    return ran(flow, rows, cut).outputs()


def hows(flow: Flow) -> list[str]:
    return [step.how for step in flow.explain() if step.how]


CUTS = [1000, 7]


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_union_gives_the_rows_of_all_streams_to_one_window(cut: int) -> None:
    flow = Flow("united")
    dear, cheap = bids_of(flow).split(lambda b: b.price > 30)
    some = dear.union(cheap.filter(lambda b: b.price < 3), cheap.filter(lambda b: b.price < 0))
    some.key_by(lambda b: b.channel).window(Tumbling("2s")).agg(lambda g: (g.window.end_ms, g.key, g.count())).sink(
        "out"
    )
    rows = bids()
    wanted = Counter[tuple[int, str]]()
    for b in rows:
        wanted[b.at // 2000 * 2000 + 2000, b.channel] += (b.price > 30) + (b.price < 3) + (b.price < 0)
    assert sorted(results(flow, rows, cut)) == sorted([*key, n] for key, n in wanted.items() if n)
    assert hows(flow) == ["columns"] * 5
    assert [(step.after, step.also_after) for step in flow.explain()][5] == (2, (4, 5))


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_united_rows_of_windows_go_into_further_windows(cut: int) -> None:
    flow = Flow("windows")
    stream = bids_of(flow)
    seconds = stream.window(Tumbling("1s")).agg(lambda g: g.count())
    pairs = stream.window(Tumbling("2s")).agg(lambda g: g.count())
    seconds.union(pairs).window(Tumbling("4s")).agg(lambda g: (g.window.end_ms, g.sum(lambda n: n))).sink("out")
    rows = bids()
    totals = Counter(b.at // 4000 * 4000 + 4000 for b in rows)
    assert sorted(results(flow, rows, cut)) == [[end, 2 * n] for end, n in sorted(totals.items())]


@pytest.mark.parametrize("cut", CUTS)
def test_union_of_rows_of_two_kinds_is_called_for_each_row(cut: int) -> None:
    flow = Flow("kinds")
    stream = bids_of(flow)
    one = stream.map(lambda b: Priced(b.auction, b.price / 2))
    two = stream.flat_map(lambda b: [Priced(b.auction, 0.5)] * (b.price % 2))
    one.union(two).map(lambda p: p.euros * 2).sink("out")
    rows = bids()
    assert Counter(results(flow, rows, cut)) == Counter([*(b.price for b in rows), *(1 for b in rows if b.price % 2)])
    assert flow.explain()[4].how == "row by row: its rows are objects"


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_of_gives_the_rows_of_one_struct_as_columns(cut: int) -> None:
    flow = Flow("tagged")
    events = flow.source("events", Json[Bid | Auction](Bid | Auction), time=lambda e: e.at)
    dear = events.filter(lambda e: e.at >= 0).of(Bid).filter(lambda b: b.price > 30)
    dear.key_by(lambda b: b.auction).window(Tumbling("2s")).agg(lambda g: (g.key, g.count())).sink("bids")
    events.of(Auction).map(lambda a: a.id + a.seller).sink("auctions")
    rows: list[Any] = [row for b in bids() for row in (b, Auction(b.auction, b.price, b.at))]
    test = ran(flow, rows, cut, partitions=1)
    wanted = Counter((b.at // 2000, b.auction) for b in bids() if b.price > 30)
    assert sorted(test.outputs()) == sorted([auction, n] for (_, auction), n in wanted.items())
    assert test.outputs("auctions") == [b.auction + b.price for b in bids()]
    assert hows(flow)[2:] == ["columns"] * 5


def test_of_with_ints_beyond_64_bits_is_exact() -> None:
    flow = Flow("large")
    flow.source("events", Json[Bid | Auction](Bid | Auction)).of(Bid).map(lambda b: b.price + 1).sink("out")
    assert flow.collect({"events": [Bid(1, 2**64, "", 0), Bid(1, 2**63 - 1, "", 0)]}) == [2**64 + 1, 2**63]


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_distinct_gives_each_value_of_a_window_once(cut: int) -> None:
    flow = Flow("distinct")
    stream = bids_of(flow)
    stream.window(Tumbling("3s")).distinct(lambda b: b.price % 4).sink("all")
    stream.key_by(lambda b: b.channel).window(Tumbling("3s")).distinct(lambda b: b.auction).sink("each")
    rows = bids()
    test = ran(flow, rows, cut)
    assert Counter(test.outputs()) == Counter(value for _, value in {(b.at // 3000, b.price % 4) for b in rows})
    pairs = {(b.at // 3000, b.channel, b.auction) for b in rows}
    assert Counter(map(tuple, test.outputs("each"))) == Counter((channel, auction) for _, channel, auction in pairs)
    assert hows(flow) == ["columns"] * 2


@pytest.mark.parametrize("cut", CUTS)
def test_windows_of_days_of_a_time_zone_count_by_its_calendar(cut: int) -> None:
    zone, began_ms = ZoneInfo("America/New_York"), 1_793_000_000_000  # a week with a day of 25 hours
    rows = [Bid(0, n, "web", began_ms + n * 1_900_000) for n in range(400)]
    flow = Flow("days")
    days = bids_of(flow).window(Tumbling("1d", tz="America/New_York"))
    days.agg(lambda g: (g.window.start_ms, g.count())).sink("out")
    dates = Counter(datetime.fromtimestamp(row.at / 1000, zone).date() for row in rows)
    found = {datetime.fromtimestamp(start / 1000, zone): count for start, count in ran(flow, rows, cut).outputs()}
    assert {start.date(): count for start, count in found.items()} == dates
    assert {(start.hour, start.minute) for start in found} == {(0, 0)}


@pytest.mark.parametrize("cut", CUTS)
def test_fold_takes_any_lattice_with_and_without_keys(cut: int) -> None:
    flow = Flow("folded")
    stream = bids_of(flow)
    stream.window(Tumbling("5s")).fold(Max[int](), lambda b: b.price).sink("largest")
    by_channel = stream.key_by(lambda b: b.channel).window(Tumbling("5s"))
    by_channel.fold(GSet[int](), lambda b: b.auction).map(lambda row: (row[0], sorted(row[1]))).sink("sets")
    rows, prices, sets = bids(), defaultdict[int, list[int]](list), defaultdict[Any, set[int]](set)
    for b in rows:
        prices[b.at // 5000].append(b.price)
        sets[b.at // 5000, b.channel].add(b.auction)
    test = ran(flow, rows, cut)
    assert sorted(test.outputs()) == sorted(map(max, prices.values()))
    assert sorted(test.outputs("sets")) == sorted([channel, sorted(some)] for (_, channel), some in sets.items())


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_lattices_and_keys_that_are_no_columns_are_read_too(cut: int) -> None:
    flow, rows = Flow("objects"), bids()
    by_channel = bids_of(flow).key_by(lambda b: b.channel if b.auction % 2 else 0).window(Tumbling("5s"))
    by_channel.fold(Variance(), lambda b: b.price).sink("variances")
    by_channel.agg(lambda g: (g.window, g.key, g.count())).sink("counts")
    prices = defaultdict[Any, list[int]](list)
    for b in rows:
        prices[b.at // 5000 * 5000, b.channel if b.auction % 2 else 0].append(b.price)
    test = ran(flow, rows, cut)
    variances = [[key, pvariance(some)] for (_, key), some in prices.items()]
    assert sorted(test.outputs(), key=repr) == sorted(variances, key=repr)
    counts = [[[start, start + 5000], key, len(some)] for (start, key), some in prices.items()]
    assert sorted(test.outputs("counts"), key=repr) == sorted(counts, key=repr)


@pytest.mark.parametrize("cut", CUTS)
def test_map_columns_gives_the_rows_of_its_columns(cut: int) -> None:
    def priced(columns: Any) -> dict[str, Any]:
        return {"auction": columns["auction"].astype(np.int32), "euros": columns["price"] * np.float32(0.5)}

    flow = Flow("columns")
    halves = bids_of(flow).filter(lambda b: b.channel == "web").map_columns(priced, Priced)
    halves.filter(lambda p: p.euros > 10).sink("out")
    wanted = Counter((b.auction, b.price / 2) for b in bids() if b.channel == "web" and b.price > 20)
    assert Counter((row["auction"], row["euros"]) for row in results(flow, bids(), cut)) == wanted
    assert hows(flow) == ["columns"] * 3


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda c: {"auction": c["auction"]}, "it gave the columns auction; Priced has auction, euros"),
        (lambda c: {"auction": c["auction"], "euros": [1.0]}, "its column 'euros' has 1 rows, and it was given 2"),
    ],
)
def test_map_columns_refuses_other_columns(made: Callable[[Any], Any], what: str) -> None:
    flow = Flow("columns")
    bids_of(flow).map_columns(made, Priced).sink("out")
    with pytest.raises(Exception, match=rf"step 2 \(map_columns, test_verbs.py:\d+\): {what}"):
        flow.collect({"bids": bids(2)})


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_each_partition_alone_and_all_together_behind_it(cut: int) -> None:
    flow = Flow("alone")
    by = bids_of(flow).per_partition().filter(lambda b: b.price > 0).key_by(lambda b: b.channel).window(Tumbling("2s"))
    counts = by.agg(lambda g: (g.window.end_ms, g.key, g.count()))
    counts.top(1, by=lambda row: row[2]).sink("each")
    counts.map(lambda row: row[2]).all_partitions().window(Tumbling("4s")).agg(lambda g: g.sum(lambda n: n)).sink("all")
    rows = bids()
    test = ran(flow, rows, cut)
    found: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for number, b in enumerate(rows):
        if b.price > 0:
            found[number % 2, b.at // 2000 * 2000 + 2000][b.channel] += 1
    wanted = [[end, *min(by.items(), key=lambda item: (-item[1], item[0]))] for (_, end), by in found.items()]
    assert sorted(test.outputs()) == sorted(wanted)
    totals = Counter(b.at // 4000 for b in rows if b.price > 0)
    assert sorted(test.outputs("all")) == sorted(totals.values())


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_filter_map_is_followed_where_none_is_written_or_computed(cut: int) -> None:
    flow = Flow("followed")
    stream = bids_of(flow)
    stream.filter_map(lambda b: Priced(b.auction, b.price / 4) if b.price > 0 else None).sink("structs")
    stream.filter_map(lambda b: b.price + 1 if b.price > 0 else b.note).sink("values")
    stream.filter_map(lambda b: None if b.price > 0 else Priced(b.auction, -1.0) if b.price else None).sink("negative")
    stream.filter_map(lambda b: (b.auction, b.at) if b.price > 30 else (b.at, 0) if b.price > 0 else None).sink("ways")
    rows = bids()
    test = ran(flow, rows, cut)
    ways = [[b.auction, b.at] if b.price > 30 else [b.at, 0] for b in rows if b.price > 0]
    assert sorted(test.outputs("ways")) == sorted(ways)
    assert Counter((row["auction"], row["euros"]) for row in test.outputs()) == Counter(
        (b.auction, b.price / 4) for b in rows if b.price > 0
    )
    assert Counter(test.outputs("values")) == Counter(b.price + 1 for b in rows if b.price > 0)
    assert len(test.outputs("negative")) == sum(b.price < 0 for b in rows)
    assert hows(flow) == ["columns"] * 4


def alone_twice(flow: Flow) -> Any:
    alone = bids_of(flow).per_partition().window(Tumbling(5)).agg(lambda g: 1)
    return alone.window(Tumbling(9)).agg(lambda g: 2)


def attribute(b: Any) -> bool:
    return b.price > 0


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (
            lambda f: bids_of(f).filter(lambda b: f"{b.price}" > "3", columnar=True),
            "columnar=True, but it goes row by row: it",
        ),
        (
            lambda f: bids_of(f).window(Tumbling(5)).distinct(str, columnar=True),
            r"2 \(distinct.*: a type is no function",
        ),
        (lambda f: bids_of(f).window(Tumbling(5)).fold(Max(), hash, columnar=True), r"2 \(fold.*row by row: a builtin"),
        (lambda f: bids_of(f).map(len, columnar=True), r"2 \(map.*row by row: a builtin.*; write it with fields"),
        (lambda f: bids_of(f).union(bids_of(Flow("b"))), r"2 \(union.*a stream of another flow"),
        (lambda f: [s := bids_of(f), s.union(s.per_partition())], "use per_partition"),
        (lambda f: [s := bids_of(f), s.union(s.window(Tumbling(5)).agg(lambda g: g.key))], "behind 0 and 1 windows"),
        (
            lambda f: [w := bids_of(f).window(Tumbling(5)).agg(lambda g: 1), w.union(w).top(1, by=abs)],
            "in parts behind",
        ),
        (lambda f: bids_of(f).top(0, by=lambda b: b.at), r"2 \(top.*n is 1 or more, got 0"),
        (lambda f: bids_of(f).top(1, by=lambda b: b.at), "put window.* and agg.* before it"),
        (lambda f: bids_of(f).of(Person), "no row is a Person: rows are one of Bid"),
        (
            lambda f: f.source("e", Json(Bid | Auction)).of(Person),
            "no row is a Person: rows are one of Bid, Au",
        ),
        (lambda f: f.source("e", Json(Bid | Auction)).of(int), "one of the Structs that rows are, got <class 'int'>"),
        (lambda f: bids_of(f).map(lambda b: b.at).map_columns(dict, Priced), "step 2 .map. gives values; put a map"),
        (lambda f: bids_of(f).map(str).map_columns(dict, Priced), "gives objects .a type is no.*; put a map"),
        (lambda f: bids_of(f).map_columns(dict, int), "are those of a msgspec.Struct"),
        (
            lambda f: (
                bids_of(f).per_partition().window(Tumbling(5)).agg(lambda g: 1).window(Tumbling(9)).agg(lambda g: 2)
            ),
            "put all_partitions",
        ),
        (
            lambda f: bids_of(f).window(Tumbling(5)).agg(lambda g: f"{g.key}"[:1]),
            r"step 2 \(agg.*which aggregates",
        ),
    ],
)
def test_mistakes_are_named_with_their_step_and_line(build: Callable[[Flow], Iterable[Any]], what: str) -> None:
    with pytest.raises(FlowError, match=what) as caught:
        build(Flow("wrong"))
    assert re.match(r"step \d+ \(\w+, test_verbs.py:\d+\): ", str(caught.value))


def test_a_columnar_flow_takes_no_step_that_goes_row_by_row() -> None:
    flow = Flow("strict", columnar=True)
    stream = bids_of(flow).filter(attribute)
    with pytest.raises(FlowError, match=r"step 3 \(flat_map, test_verbs.py:\d+\): columnar=True, but it goes row by"):
        stream.flat_map(lambda b: [b] * b.price)
    stream.key_by(lambda b: b.channel).window(Tumbling("1s")).agg(lambda g: g.count()).sink("out")
    assert sum(flow.collect({"bids": bids()})) == sum(b.price > 0 for b in bids())


def test_a_step_that_was_refused_gets_no_rows() -> None:
    flow, seen = Flow("refused"), list[int]()
    stream = bids_of(flow)
    with pytest.raises(FlowError, match="columnar=True"):
        stream.map(lambda b: seen.append(b.price), columnar=True)
    stream.map(lambda b: b.price).sink("out")
    assert flow.collect({"bids": bids(3)}) == [b.price for b in bids(3)]
    assert seen == []


def test_the_fingerprint_holds_functions_of_these_verbs() -> None:
    def fingerprint(one: Callable[[Bid], int], lattice: Any) -> str:
        flow = Flow("printed")
        stream = bids_of(flow).key_by(lambda b: b.channel).window(Tumbling("1s"))
        stream.distinct(one).sink("out")
        stream.fold(lattice, one).sink("folded")
        return flow.job.fingerprint()

    base = fingerprint(lambda b: b.price, Max[int]())
    assert fingerprint(lambda b: b.price, Max[int]()) == base
    assert fingerprint(lambda b: b.auction, Max[int]()) != base
    assert fingerprint(lambda b: b.price, GSet[int]()) != base


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_rows_that_no_branch_takes_count_as_filtered(cut: int) -> None:
    flow = Flow("counted", on_error="dead-letter")
    dear, cheap = bids_of(flow).split(lambda b: b.price > 20)
    dear.filter_map(lambda b: b.auction if b.auction > 1 else None).sink("dear")
    cheap.flat_map(lambda b: [100 // b.price] * (b.auction % 2)).sink("cheap")
    odd = cheap.filter(lambda b: b.channel == "tv")
    odd.window(Tumbling("1s")).agg(lambda g: g.count()).sink("counts")
    rows = bids()
    test = ran(flow, rows, cut)
    dead = [b for b in rows if b.price == 0]
    taken = [
        b for b in rows if (b.price > 20 and b.auction > 1) or (b.price <= 20 and (b.auction % 2 or b.channel == "tv"))
    ]
    accepted = len(taken) - sum(b in taken for b in dead)
    assert 0 < len(dead) < 20 and accepted < 250
    counts = test.counts
    assert (counts.accepted, counts.filtered, counts.late, counts.dead) == (
        accepted,
        len(rows) - accepted - len(dead),
        0,
        len(dead),
    )
    assert len(test.outputs()) + len(test.outputs("cheap")) > 100


def test_late_records_that_a_filter_drops_are_filtered_and_others_are_late() -> None:
    flow = Flow("late")
    stream = bids_of(flow).filter(lambda b: b.price > 0)
    stream.window(Tumbling("1s")).agg(lambda g: g.count()).sink("counts")
    test = JobTestDriver(flow.job)
    test.feed(0, Bid(1, 1, "", 5000), Bid(1, 0, "", 100), Bid(1, 1, "", 100), Bid(1, 0, "", 6000))
    test.finish()
    assert (test.counts.accepted, test.counts.filtered, test.counts.late) == (1, 2, 1)
