"""Types for an editor and pyright: handles are typed by their states, and mistakes are marked where they are made."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.integration.pyright_runs import ROOT, expected, found_in, run_pyright

PROGRAM = """
import msgspec
from holon import (
    WCRDT, Batch, Context, Job, Json, JsonColumns, Local, ProcessingFunction, Source, Tumbling, Window, WLocal,
    on_window,
)
from wcrdt import GCounter, MapOf, TopK

class Bid(msgspec.Struct):
    ts: int
    price: int

class Other(msgspec.Struct):
    name: str

class Typed(ProcessingFunction[Bid]):
    total = WCRDT(GCounter(), Tumbling.of(seconds=10))
    by_key = WLocal(MapOf[str, int, int](GCounter()), Tumbling(5))
    top = WCRDT(TopK[int, str](3), Tumbling(5))
    seen = Local[dict[str, int]]({})
    count = Local(0)

    def process(self, event: Bid, ctx: Context) -> None:
        self.total.insert(1, event.ts)
        self.total.insert("one", event.ts)  # error: reportArgumentType
        self.by_key.insert(("a", 1), event.ts)
        self.by_key.insert((1, "a"), event.ts)  # error: reportArgumentType
        self.total.insert(1, "now")  # error: reportArgumentType
        self.total.add(1)  # error: reportAttributeAccessIssue
        reveal_type(self.seen.value)  # type: dict[str, int]
        reveal_type(self.count.value)  # type: int
        self.count.value = "x"  # error: reportAttributeAccessIssue
        reveal_type(self.total.peek(Window(0, 1)))  # type: int | None
        reveal_type(self.total.global_watermark_ms)  # type: int
        reveal_type(ctx[Typed.total])  # type: WindowedHandle[int, int]
        reveal_type(ctx[Typed.seen])  # type: LocalHandle[dict[str, int]]

    @on_window(total)
    async def close(self, window: Window, ctx: Context) -> None:
        reveal_type(await self.total.window_value(window))  # type: int
        reveal_type(await self.by_key.window_value(window))  # type: dict[str, int]
        reveal_type(await self.top.window_value(window))  # type: tuple[tuple[int, str], ...]
        forgot = self.total.window_value(window) + 1  # error: reportOperatorIssue

source = Source("bids", Json(Bid), timestamp=lambda bid: bid.ts)
reveal_type(source)  # type: Source[Bid]
reveal_type(Job("typed", source, Typed))  # type: Job[Bid]
Job("typed", Source("others", Json(Other)), Typed)  # error: reportArgumentType
Job("typed", source, Typed, outptu="x")  # error: reportCallIssue
Job("typed", source, Typed, on_error="ignore")  # error: reportArgumentType

def function(event: Other, ctx: Context) -> None: ...

Job("typed", Source("others", JsonColumns(Other)), function)
Job("typed", source, function)  # error: reportArgumentType

def columns(batch: Batch[Bid], ctx: Context) -> None:
    reveal_type(batch.ts_ms)  # type: ndarray[tuple[Any, ...], dtype[signedinteger[_64Bit]]]

Job("typed", source, process_batch=columns)
"""

FLOW_PROGRAM = """
from collections.abc import Mapping
from typing import Any
import msgspec
from holon import Json, Tumbling
from holon.dataflow import Flow
from wcrdt import GSet, Max

class Bid(msgspec.Struct, tag=True):
    auction: int
    price: int
    note: str | None

class Auction(msgspec.Struct, tag=True):
    id: int

flow = Flow("typed")
bids = flow.source("bids", Json(Bid))
reveal_type(bids)  # type: Stream[Bid]
reveal_type(bids.filter(lambda b: b.price > 0))  # type: Stream[Bid]
bids.filter(lambda b: b.prize > 0)  # error: reportAttributeAccessIssue
reveal_type(bids.map(lambda b: (b.auction, b.note), columnar=True))  # type: Stream[tuple[int, str | None]]
reveal_type(bids.filter_map(lambda b: b.note))  # type: Stream[str]
reveal_type(bids.flat_map(lambda b: [b.price]))  # type: Stream[int]
reveal_type(bids.split(lambda b: b.price > 0))  # type: tuple[Stream[Bid], Stream[Bid]]
events = flow.source("events", Json[Bid | Auction](Bid | Auction))
reveal_type(events)  # type: Stream[Bid | Auction]
reveal_type(events.of(Auction))  # type: Stream[Auction]
reveal_type(events.of(Bid).union(bids))  # type: Stream[Bid]
bids.union(events.of(Auction))  # error: reportArgumentType

def doubled(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": columns["price"] * 2}

reveal_type(bids.map_columns(doubled, Auction))  # type: Stream[Auction]
second = bids.window(Tumbling("1s"))
keyed = bids.key_by(lambda b: str(b.auction)).window(Tumbling("1s"))
reveal_type(keyed)  # type: WindowedStream[str, Bid]
reveal_type(keyed.agg(lambda g: (g.key, g.max(lambda b: b.price))))  # type: ResultStream[tuple[str, int], Bid]
keyed.agg(lambda g: g.max(lambda b: b.prize))  # error: reportAttributeAccessIssue
reveal_type(second.fold(Max[int](), lambda b: b.price))  # type: ResultStream[int | None, Bid]
reveal_type(keyed.fold(GSet[int](), lambda b: b.price))  # type: ResultStream[tuple[str, tuple[int, ...]], Bid]
second.fold(Max[int](), lambda b: "x")  # error: reportArgumentType
reveal_type(second.distinct(lambda b: b.price))  # type: ResultStream[int, Bid]
reveal_type(keyed.distinct(lambda b: b.price))  # type: ResultStream[tuple[str, int], Bid]
reveal_type(keyed.distinct(lambda b: b.price).late)  # type: Stream[Bid]
reveal_type(keyed.agg(lambda g: g.count()).top(3, by=lambda n: n))  # type: Stream[int]
alone = bids.per_partition()
reveal_type(alone)  # type: PartitionStream[Bid]
bids.union(alone)  # error: reportArgumentType
counts = alone.key_by(lambda b: b.auction).window(Tumbling("1s")).agg(lambda g: (g.key, g.count()))
reveal_type(counts)  # type: PartitionResultStream[tuple[int, int], Bid]
reveal_type(counts.late.map(lambda b: b.price))  # type: PartitionStream[int]
bids.late  # error: reportAttributeAccessIssue
reveal_type(counts.all_partitions())  # type: Stream[tuple[int, int]]
reveal_type(counts.union(counts).map(lambda c: c[0]))  # type: PartitionStream[int]
counts.sink("counts", key=lambda c: c[1])
counts.sink("counts", key=lambda c: 0.5)  # error: reportArgumentType
"""


@pytest.fixture(scope="module", params=[PROGRAM, FLOW_PROGRAM], ids=["functions", "flows"])
def program(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def findings(program: str, tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[str, str]]:
    return found_in(program, tmp_path_factory.mktemp("types"), mode="strict" if program is FLOW_PROGRAM else "standard")


@pytest.mark.long
def test_every_mistake_is_found_and_nothing_else(program: str, findings: dict[int, tuple[str, str]]) -> None:
    assert {number: rule for number, (rule, _) in findings.items() if rule != "type"} == expected(program, "error")


def test_values_have_the_types_of_their_states_and_rows(program: str, findings: dict[int, tuple[str, str]]) -> None:
    wanted = expected(program, "type")
    shown = {number: message.split(' is "')[1][:-1] for number, (rule, message) in findings.items() if rule == "type"}
    assert wanted and {number: shown.get(number) for number in wanted} == wanted


def test_the_examples_have_no_type_errors(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    report = run_pyright(tmp_path, "examples")
    assert report["generalDiagnostics"] == []
    assert report["summary"]["filesAnalyzed"] == len(list((ROOT / "examples").glob("**/*.py")))
