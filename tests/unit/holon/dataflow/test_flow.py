"""Pipelines: their results are those of plain Python, whatever happens to partitions and batches."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, Literal

import msgspec
import pytest

from holon import GlobalWindow, Json, JsonColumns, Raw
from holon.dataflow import Flow, FlowError, Group, Session, Sliding, Stream, Tumbling
from holon.errors import UserFunctionError
from holon.formats.formats import Decoded
from holon.testing import JobTestDriver
from wcrdt import Quantiles

SEEN: list[Any] = []


class Place(msgspec.Struct):
    city: str
    zip: int = 0

    def name(self) -> str:
        return self.city


class Bid(msgspec.Struct):
    auction: int
    price: int
    channel: str
    at: int
    place: Place


class Hot(msgspec.Struct):
    auction: int
    num: int
    high: int
    end_ms: int


def drawn(seed: int, rows: int = 400) -> list[Bid]:
    draw = Random(seed)
    channels, cities = ["web", "app", "tv"], ["Zürich", "Bern"]
    return [
        Bid(draw.randrange(6), draw.randrange(-3, 60), draw.choice(channels), 50 * n, Place(draw.choice(cities), n))
        for n in range(rows)
    ]


def bids_of(flow: Flow) -> Stream[Bid]:
    return flow.source("bids", Json(Bid), time=lambda b: b.at, out_of_order="1s", bounded=True)


def outputs(flow: Flow, rows: list[Bid], *outputs: str, cut: int = 400, fail: bool = False) -> list[list[Any]]:
    """The rows of each output (default: the first), with two partitions, fed in pieces of ``cut`` rows."""
    test = JobTestDriver(flow.job, partitions=2)
    for first in range(0, len(rows), 2 * cut):
        piece = rows[first : first + 2 * cut]
        test.feed(0, *piece[::2])
        test.feed(1, *piece[1::2])
        if fail:
            test.fail(first // (2 * cut) % 2)
            if first % 3 == 0:
                test.checkpoint(1)
    test.finish()
    return [test.outputs(name) for name in outputs or ("main",)]


def attribute(b: Any) -> bool:
    return b.prize > 0


def hot_items() -> Flow:
    flow = Flow("hot-items")
    hot = (
        bids_of(flow)
        .filter(lambda b: b.price > 0 and b.channel in ("web", "app"))
        .key_by(lambda b: b.auction)
        .window(Sliding("4s", "2s"))
        .agg(lambda g: Hot(g.key, g.count(), g.max(lambda b: b.price), g.window.end_ms))
    )
    hot.top(1, by=lambda h: h.num, ties="all").sink("hot")
    return flow


def expected_hot(rows: list[Bid]) -> list[dict[str, int]]:
    windows: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for b in rows:
        if b.price > 0 and b.channel in ("web", "app"):
            for end in (b.at // 2000 * 2000 + 2000, b.at // 2000 * 2000 + 4000):
                windows[end][b.auction].append(b.price)
    found = []
    for end, by in sorted(windows.items()):
        most = max(map(len, by.values()))
        ties = sorted(auction for auction, prices in by.items() if len(prices) == most)
        found += [{"auction": a, "num": most, "high": max(by[a]), "end_ms": end} for a in ties]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("cut", [400, 7, 1])
def test_hot_items_are_those_of_plain_python(cut: int, fail: bool) -> None:
    rows = drawn(cut)
    (found,) = outputs(hot_items(), rows, cut=cut, fail=fail)
    # Each window is answered by one partition; partitions have no order among them.
    assert sorted(found, key=lambda row: row["end_ms"]) == expected_hot(rows)


def test_all_of_it_works_on_columns() -> None:
    assert [step.how for step in hot_items().explain() if step.how] == ["columns"] * 3


def test_functions_that_cannot_be_followed_give_the_same() -> None:
    def plain(flow: Flow) -> None:
        bids_of(flow).map(lambda b: Place(b.channel.upper(), b.price // 7 + b.place.zip)).sink("out")

    def called(flow: Flow) -> None:
        bids_of(flow).map(lambda b: Place(f"{b.channel}".upper(), pow(b.price // 7 + b.place.zip, 1))).sink("out")

    rows = drawn(3)
    found = []
    for build in (plain, called):
        flow = Flow("same")
        build(flow)
        found.append(outputs(flow, rows))
    assert found[0] == found[1]
    assert flow.explain()[1].how.startswith("row by row: it uses")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda b: 1 if b.channel is b.place.city else 2, "`is`"),
        (lambda b: isinstance(b.price, int), "isinstance"),
        (lambda b: [b.price], "list"),
        (lambda b: sum(filter(None, b.place.tags)), "'filter'"),
        (lambda b: b.channel in {b.place.city, "app"}, "the value itself"),
        (lambda b: SEEN.append(b) or b.price, "SEEN"),
        (lambda b: b.place.name(), "attribute 'name' of a Place"),
        (lambda b: repr(b.price), "'repr'"),
        (lambda b: "web"[b.price % 3], "the value itself"),
        (lambda b: (b.price // b.auction, b.price)[1], "not used"),
        (lambda b, seen=SEEN: b.price, "default"),
        (max, "no function written in Python"),
    ],
)
def test_code_that_a_placeholder_could_mislead_is_not_followed(function: Callable[[Bid], Any], reason: str) -> None:
    flow = Flow("called")
    bids_of(flow).map(function).sink("out")
    how = flow.explain()[1].how
    assert how.startswith("row by row: ") and re.search(reason, how), how


def test_a_variable_without_a_value_is_named() -> None:
    flow = Flow("early")
    bids_of(flow).map(lambda b: b.price + fee).sink("out")
    assert flow.explain()[1].how.startswith("row by row: it uses 'fee', which has no value yet (test_flow.py:")
    fee = 3
    rows = drawn(3)
    assert sorted(outputs(flow, rows)[0]) == sorted(b.price + fee for b in rows)


@pytest.mark.slow
def test_split_flat_map_and_filter_map_give_each_row_where_it_belongs() -> None:
    flow = Flow("split")
    dear, cheap = bids_of(flow).split(lambda b: b.price >= 30)
    dear.flat_map(lambda b: [b.auction] * (b.auction % 3)).sink("dear")
    cheap.filter_map(lambda b: b.place.city if b.price > 0 else None).sink("cheap", key=lambda city: city)
    rows = drawn(5)
    for cut in (400, 3):
        found = outputs(flow, rows, "main", "cheap", cut=cut, fail=cut == 3)
        assert Counter(found[0]) == Counter(b.auction for b in rows if b.price >= 30 for _ in range(b.auction % 3))
        assert Counter(found[1]) == Counter(b.place.city for b in rows if 0 < b.price < 30)


def test_windows_of_windows() -> None:
    flow = Flow("staged")
    each = (
        bids_of(flow)
        .key_by(lambda b: (b.channel, b.place.city))
        .window(Tumbling("1s"))
        .agg(lambda g: (g.key[0], g.count()))
    )
    each.map(lambda row: row[1]).window(Tumbling("5s")).agg(lambda g: (g.window.end_ms, g.sum(lambda n: n))).sink(
        "sums"
    )
    rows = drawn(6)
    totals = Counter(b.at // 5000 * 5000 + 5000 for b in rows)
    assert outputs(flow, rows, fail=True, cut=20) == [[[end, n] for end, n in sorted(totals.items())]]


def test_keys_of_two_parts_can_be_unpacked_where_their_function_is_followed() -> None:
    def counted(g: Group[tuple[int, str], Any]) -> tuple[int, str, int]:
        auction, city = g.key
        return auction % 2, city, g.count()

    rows = drawn(8, 100)
    expected = [[auction % 2, city, n] for (auction, city), n in keyed(rows)]
    flow = Flow("unpacked", columnar=True)
    windowed = bids_of(flow).key_by(lambda b: (b.auction, b.place.city)).window(GlobalWindow())
    windowed.agg(counted).sink("out")
    assert outputs(flow, rows, cut=7, fail=True) == [expected]
    flow = Flow("sessions", columnar=True)
    bids_of(flow).key_by(lambda b: (b.auction, b.place.city)).window(Session("1m")).agg(counted).sink("out")
    assert sorted(outputs(flow, rows)[0]) == sorted(expected)
    by_place = bids_of(Flow("called")).key_by(lambda b: (b.auction, b.place.name()))
    with pytest.raises(FlowError, match=r"step 2 \(agg, test_flow.py:\d+\): .* needs the value itself"):
        by_place.window(GlobalWindow()).agg(counted)


def test_ways_may_give_the_same_field_or_another_for_a_field_of_their_struct() -> None:
    def two_ways(b: Bid) -> Hot:
        return Hot(b.auction, b.price, 1, b.at) if b.price > 20 else Hot(b.auction, b.auction, b.at, b.at)

    def or_none(b: Bid) -> Hot | None:
        return None if b.price < 0 else two_ways(b)

    rows = drawn(9, 60)
    flow = Flow("ways", columnar=True)
    bids = bids_of(flow)
    bids.map(two_ways).sink("all")
    bids.filter_map(or_none).sink("some")
    by_partition = rows[::2] + rows[1::2]
    expected = [list(map(two_ways, by_partition)), [hot for hot in map(or_none, by_partition) if hot is not None]]
    assert len(expected[0]) > len(expected[1]) > 0
    assert outputs(flow, rows, "main", "some") == msgspec.to_builtins(expected)


def keyed(rows: list[Bid]) -> list[tuple[tuple[int, str], int]]:
    return sorted(Counter((b.auction, b.place.city) for b in rows).items())


def test_aggregates_that_only_some_groups_need() -> None:
    def summary(g: Group[str, Bid]) -> dict[str, Any]:
        if g.count() > 60:
            return {"key": g.key, "mean": g.mean(lambda b: b.price)}
        return {"key": g.key, "least": g.min(lambda b: b.price), "cities": g.distinct(lambda b: b.place.city)}

    flow = Flow("some")
    bids_of(flow).key_by(lambda b: b.channel).window(GlobalWindow()).agg(summary).sink("out")
    rows = drawn(7, 170)
    by = defaultdict(list)
    for b in rows:
        by[b.channel].append(b)
    expected = [
        {"key": key, "mean": sum(b.price for b in some) / len(some)}
        if len(some) > 60
        else {"key": key, "least": min(b.price for b in some), "cities": len({b.place.city for b in some})}
        for key, some in sorted(by.items())
    ]
    assert {len(row) for row in expected} == {2, 3}
    assert outputs(flow, rows) == [expected]


@pytest.mark.parametrize(("ties", "kept"), [("all", [2, 5]), ("first", [2])])
def test_equal_rows_at_the_end_of_a_top(ties: Literal["all", "first"], kept: list[int]) -> None:
    flow = Flow("ties")
    counts = bids_of(flow).key_by(lambda b: b.auction).window(Tumbling("1s")).agg(lambda g: (g.key, g.count()))
    counts.top(1, by=lambda row: row[1], ties=ties).map(lambda row: row[0]).sink("out")
    assert flow.collect({"bids": [Bid(auction, 1, "web", 0, Place("Bern")) for auction in (5, 2)]}) == kept


def test_any_lattice_folds() -> None:
    flow = Flow("folded")
    stream = bids_of(flow).window(Tumbling("5s"))
    stream.agg(lambda g: g.fold(Quantiles(0.01), lambda b: b.price).quantile(0.5)).sink("medians")
    rows = drawn(9, 300)
    found = outputs(flow, rows)[0]
    exact = [sorted(b.price for b in rows if b.at // 5000 == n)[49] for n in range(3)]
    assert sorted(found) == pytest.approx(sorted(exact), rel=0.01)
    with pytest.raises(FlowError, match="compiled already"):
        stream.agg(lambda g: g.count())


def test_a_division_by_zero_is_the_dead_letter_of_its_record() -> None:
    flow = Flow("divided", on_error="dead-letter")
    bids_of(flow).map(lambda b: 100 // b.price).sink("out")
    rows = drawn(8)
    test = JobTestDriver(flow.job)
    test.feed(0, *rows)
    test.finish()
    assert test.outputs() == [100 // b.price for b in rows if b.price]
    dead = test.dead()
    assert [row["offset"] for row in dead] == [n for n, b in enumerate(rows) if not b.price]
    assert "ZeroDivisionError" in dead[0]["reason"]


def test_times_and_keys_of_functions_that_are_called() -> None:
    flow = Flow("called")
    bids = flow.source("bids", Json(Bid), time=lambda b: int(b.at) + 0 * len(b.channel), bounded=True)
    stream = bids.key_by(lambda b: b.channel[:2])
    stream.window(GlobalWindow()).agg(lambda g: g.key).window(GlobalWindow()).agg(lambda g: g.count()).sink("out")
    assert outputs(flow, drawn(4)) == [[3]]


class Checked(Bid):
    def __post_init__(self) -> None:
        if self.price < 0:
            raise ValueError("a negative price")


class Tagged(Bid, tag="bid"):
    pass


class Paused(msgspec.Struct, tag="paused"):
    at: int


@pytest.mark.parametrize(("of", "row"), [(Checked, Checked), (Tagged | Paused, Tagged)], ids=["checked", "union"])
def test_columns_of_other_types_than_one_struct_lose_no_row(of: Any, row: type[Bid]) -> None:
    found = []
    for format in (Json[Any](of), JsonColumns[Any](of)):
        flow = Flow("prices")
        events = flow.source("bids", format, time=lambda e: e.at).of(row)
        events.window(Tumbling("1s")).agg(lambda g: (g.count(), g.sum(lambda b: b.price))).sink("out")
        rows = [{**msgspec.to_builtins(bid), "price": abs(bid.price), "type": "bid"} for bid in drawn(1)]
        found.append(flow.collect({"bids": rows}))
    assert found[0] == found[1] and sum(count for count, _ in found[0]) == len(drawn(1))


class _OnlyColumns(Raw):
    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        return Decoded(None, columns={"value": list(payloads)})


def test_columns_that_a_flow_does_not_know_are_refused_and_do_not_vanish() -> None:
    flow = Flow("unknown", on_error="dead-letter")
    flow.source("in", _OnlyColumns()).sink("out")
    with pytest.raises(UserFunctionError, match=r"source \(test_flow.py:\d+\) has a format that gives columns"):
        flow.collect({"in": [b"x"]})


def test_other_formats_go_row_by_row() -> None:
    flow = Flow("lengths")
    flow.source("lines", Raw()).map(len).sink("out")
    assert flow.collect({"lines": [b"a", b"abc"]}) == [1, 3]


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda f: bids_of(f).filter(attribute), r"filter.*Bid has no field 'prize'; it has auction, "),
        (lambda f: bids_of(f).top(1, by=lambda b: b.price), "no window is before it"),
        (lambda f: [bids_of(f), bids_of(f)], r"source.*the topic 'bids' has a source already: use"),
        (lambda f: [s := bids_of(f), s.sink("a"), s.sink("a")], "has a sink already"),
        (lambda f: bids_of(f).key_by(lambda b: b.price > 3).window(Tumbling("1s")).agg(print), "no function written"),
        (lambda f: f.source("x", Json(Place), time=lambda p: p.when), "source.*no field 'when'"),
        (lambda f: [bids_of(f), f.job], "no sink"),
        (lambda f: f.job, "no source"),
    ],
)
def test_mistakes_are_named_where_they_were_written(build: Callable[[Flow], Iterable[Any]], what: str) -> None:
    with pytest.raises(FlowError, match=what):
        build(Flow("wrong"))


def test_a_key_that_no_map_takes_is_refused() -> None:
    class Reading(msgspec.Struct):
        celsius: float

    flow = Flow("wrong")
    stream = flow.source("readings", Json(Reading)).key_by(lambda r: r.celsius).window(Tumbling("1s"))
    with pytest.raises(FlowError, match=r"step 2 \(agg, test_flow.py:\d+\): a key is .* celsius is float"):
        stream.agg(lambda g: g.count())


def test_the_fingerprint_holds_the_functions() -> None:
    def fingerprint(function: Callable[[Bid], bool], of: Callable[[Bid], int]) -> str:
        flow = Flow("printed")
        bids_of(flow).filter(function).window(Tumbling("1s")).agg(lambda g: g.sum(of)).sink("out")
        return flow.job.fingerprint()

    base = fingerprint(lambda b: b.price > 3, lambda b: b.price)
    assert fingerprint(lambda b: b.price > 3, lambda b: b.price) == base
    assert fingerprint(lambda b: b.price > 4, lambda b: b.price) != base
    assert fingerprint(lambda b: b.price > 3, lambda b: b.auction) != base
