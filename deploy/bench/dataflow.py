"""The cost of flows beside processing functions that do the same by columns, and of functions that cannot be followed.

    python deploy/bench/dataflow.py [--pairs N] [--records N] [--only steps|windows|ordinary] [--jobs NAME,...] [--json]

Microseconds of CPU an event of the whole job, without a log and a fleet (as `holon profile` measures). Medians of runs
in turn, and of the ratios to the processing function of the same round. ``steps``: one pipeline, written in several
ways. ``windows``: sixty windows that overlap, over tumbling ones of the same length, 10,000 records a slide.
``ordinary``: the flow of each of the twelve jobs of `deploy/bench/ordinary` over its job.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from holon import WCRDT, Assigner, Batch, Context, Job, Json, JsonColumns, ProcessingFunction, Source, Window, on_window  # noqa: E402
from holon.dataflow import Between, Count, DataDriven, Flow, Group, Session, Sliding, Stream, Tumbling  # noqa: E402
from nexmark.compare.cases import BY_FLOW, ComparedJob, cases_of, chosen, records  # noqa: E402
from nodes.api import load_job  # noqa: E402
from nodes.compiled.loading import ensure  # noqa: E402
from nodes.profiling.profile import profiled  # noqa: E402
from nodes.profiling.records import FileRecords  # noqa: E402
from wcrdt import GCounter, MapOf, Max, RecordOf  # noqa: E402

BATCH = 5_000
LEAST_S = 1.0
KEYS = 1_000


class Bid(msgspec.Struct):
    auction: int
    price: int
    channel: str
    at: int
    note: str | None


class TaggedBid(Bid, tag="bid"):
    pass


class Auction(msgspec.Struct, tag="auction"):
    id: int
    item: str
    at: int


class Person(msgspec.Struct, tag="person"):
    id: int
    name: str
    at: int


Event = TaggedBid | Auction | Person


class Hot(msgspec.Struct):
    end_ms: int
    auction: int
    num: int
    high: int


class Hand(ProcessingFunction[Bid]):
    """The flows below by hand."""

    hot = WCRDT(MapOf(RecordOf(num=GCounter(), high=Max())), Tumbling("10s"))

    def process_batch(self, batch: Batch[Bid], ctx: Context) -> None:
        rows = (batch["price"] > 100).nonzero()[0]
        kept = batch.take(rows)
        elements = (kept["auction"], (kept.ts_ms * 0 + 1, kept["price"]))
        self.hot.insert_many(elements, kept.ts_ms, rows)

    @on_window(hot, scope="global")
    async def report(self, window: Window, ctx: Context) -> None:
        for auction, one in (await self.hot.window_value(window)).items():
            ctx.emit(Hot(window.end_ms, auction, one["num"], one["high"]))


def result(group: Group[int, Bid]) -> Hot:
    return Hot(group.window.end_ms, group.key, group.count(), group.max(lambda bid: bid.price))


def by_expressions() -> Job:
    flow = Flow("followed")
    _aggregated(_bids(flow).filter(lambda bid: bid.price > 100))
    return flow.job


def row_by_row() -> Job:
    """The filter's code keeps it from being followed."""
    flow = Flow("called")
    _aggregated(_bids(flow).filter(lambda bid: isinstance(bid.price, int) and bid.price > 100))
    return flow.job


def asking_for_none() -> Job:
    flow = Flow("asking")
    _aggregated(_bids(flow).filter(lambda bid: bid.note is not None and bid.price > 100))
    return flow.job


def asking_row_by_row() -> Job:
    """As before, and not followed."""
    flow = Flow("asking-called")
    _aggregated(_bids(flow).filter(lambda bid: isinstance(bid.note, str) and bid.price > 100))
    return flow.job


def of_kinds(*, objects: bool) -> Job:
    """The same of records that are bids or one of two others; ``objects``: a step before ``of`` needs these."""
    flow = Flow("objects" if objects else "kinds")
    events = flow.source("events", Json[Event](Event), time=lambda event: event.at)
    events = events.filter(lambda event: isinstance(event, object)) if objects else events
    _aggregated(events.of(TaggedBid).filter(lambda bid: bid.price > 100))
    return flow.job


def asking_for_kinds(*, objects: bool) -> Job:
    """As before, without ``of``."""
    flow = Flow("asking-objects" if objects else "asking-kinds")
    events = flow.source("events", Json[Event](Event), time=lambda event: event.at)
    events = events.filter(lambda event: isinstance(event, object)) if objects else events
    _aggregated(events.filter(lambda event: isinstance(event, TaggedBid) and event.price > 100))
    return flow.job


def by_session(slice: str) -> Job:
    """Each key has one session; it is touched in each slice."""
    flow = Flow(f"sessions-{slice}")
    kept = _bids(flow).filter(lambda bid: bid.price > 100).key_by(lambda bid: bid.auction)
    kept.window(Session("10s", slice)).agg(result).sink("hot")
    return flow.job


def overlapping(pairs: int, count: int) -> list[dict[str, Any]]:
    """A row for each kind of windows and number of keys; the largest three keys of each window leave, or all."""
    found: list[dict[str, Any]] = []
    for keys in (10, 100, KEYS):
        jobs = {
            f"{name}, {keys} keys": by_windows(name, windows, top=True)
            for name, windows in {
                "windows of 60 s": Tumbling("60s"),
                "of 1 s": Tumbling("1s"),
                "of 60 s, each second": Sliding("60s", "1s"),
            }.items()
        }
        jobs |= {
            f"{name}, all rows, {keys} keys": by_windows(name, windows, early)
            for name, windows, early in (("of 1 s", Tumbling("1s"), None), ("of 60 s, early", Tumbling("60s"), "1s"))
        }
        jobs |= {
            f"{name}, {keys} keys": by_windows(name, windows)
            for name, windows in {
                "by count": Count(100),
                "between": Between[Bid](start=lambda b: b.note is None, end=lambda b: b.at % 100 == 99, timeout="60s"),
            }.items()
        }
        draw = random.Random(1)
        bids = (
            {"auction": draw.randrange(keys), "price": 101, "channel": "web", "at": number // 10, "note": None}
            for number in range(12 * count)
        )
        with tempfile.TemporaryDirectory() as folder:
            inputs = _written(Path(folder, "bids"), (json.dumps(bid).encode() for bid in bids))
            found += _medians(jobs, {"bids": inputs}, pairs)
    return found


def by_windows(name: str, windows: Assigner | DataDriven[Bid], early: str | None = None, *, top: bool = False) -> Job:
    """The pipeline with other windows."""
    flow = Flow(name.replace(" ", "-").replace(",", ""))
    counted: Stream[Hot] = _bids(flow).key_by(lambda bid: bid.auction).window(windows, early=early).agg(result)
    if top:
        counted = counted.top(3, by=lambda hot: hot.num)
    counted.sink("hot")
    return flow.job


def _bids(flow: Flow) -> Stream[Bid]:
    return flow.source("bids", Json(Bid), time=lambda bid: bid.at)


def _aggregated(bids: Stream[Any]) -> None:
    bids.key_by(lambda bid: bid.auction).window(Tumbling("10s")).agg(result).sink("hot")


def _written(path: Path, payloads: Iterable[bytes]) -> FileRecords:
    with path.open("wb") as lines:
        lines.writelines(payload + b"\n" for payload in payloads)
    return FileRecords(path, sys.maxsize)


def _cost(job: Job[Any], inputs: FileRecords) -> float:
    return profiled(job, inputs, BATCH, LEAST_S)[0].us_per_event


def ordinary(pairs: int, count: int, names: Sequence[str] | None) -> list[dict[str, Any]]:
    """A row for each job: of its flow, with the ratios over the job of each pair."""
    return [_pairs(case, pairs, count) for case in chosen(cases_of("deploy.bench.ordinary"), names)]


def _pairs(case: ComparedJob, pairs: int, count: int) -> dict[str, Any]:
    job, flow = load_job(case.job("holon")), load_job(case.job(BY_FLOW))
    found: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        inputs = _written(Path(folder, case.name), records(case, None, count, seed=1))
        for each in (job, flow):  # these runs are not counted: some things are made once
            _cost(each, inputs)
        for number in range(pairs):
            costs = {each.name: _cost(each, inputs) for each in ((job, flow), (flow, job))[number % 2]}
            found.append((costs[job.name], costs[flow.name]))
    times = [round(of_flow / of_job, 2) for of_job, of_flow in found]
    return {
        "job": case.name,
        "us_per_event": round(statistics.median(of_flow for _, of_flow in found), 3),
        "job_us_per_event": round(statistics.median(of_job for of_job, _ in found), 3),
        "times": round(statistics.median(times), 2),
        "pairs": times,
    }


def steps(pairs: int, count: int) -> list[dict[str, Any]]:
    """A row for each way to write one pipeline."""
    hand = Job("hand", Source("bids", JsonColumns(Bid), timestamp="at"), Hand, output="hot-by-hand")
    jobs = {"by hand": hand, "flow": by_expressions(), "flow, filter row by row": row_by_row()}
    jobs |= {"flow, asks for None": asking_for_none(), "the same, row by row": asking_row_by_row()}
    jobs |= {f"sessions, slices of {each}": by_session(each) for each in ("10s", "2500ms")}
    jobs |= {"one of three Structs": of_kinds(objects=False), "the same, of objects": of_kinds(objects=True)}
    jobs |= {f"{name}, isinstance": asking_for_kinds(objects=name != "columns") for name in ("columns", "objects")}
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        bids: list[dict[str, Any]] = [
            {"auction": draw.randrange(KEYS), "price": draw.randrange(1_000), "channel": "web", "at": number}
            | {"note": None if number % 2 else "first"}
            for number in range(count)
        ]
        others = {1: {"type": "auction", "id": 1, "item": "lamp"}, 2: {"type": "person", "id": 2, "name": "ann"}}
        events: list[dict[str, Any]] = [
            others.get(n % 8, {"type": "bid", **bid}) | {"at": n} for n, bid in enumerate(bids)
        ]
        inputs = {
            topic: _written(Path(folder, topic), (json.dumps(row).encode() for row in rows))
            for topic, rows in (("bids", bids), ("events", events))
        }
        return _medians(jobs, inputs, pairs)


def _medians(jobs: Mapping[str, Job], inputs: Mapping[str, FileRecords], pairs: int) -> list[dict[str, Any]]:
    """A row for each job, with the ratio over the first one."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(pairs):
        for name, job in jobs.items():
            found[name].append(_cost(job, inputs[job.topics[0]]))
    first = next(iter(found.values()))
    return [
        {
            "job": name,
            "us_per_event": round(statistics.median(costs), 3),
            "times": round(statistics.median(cost / over for cost, over in zip(costs, first, strict=True)), 2),
        }
        for name, costs in found.items()
    ]


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--only", choices=("steps", "windows", "ordinary"))
    parser.add_argument("--jobs", help="of the ordinary ones, separated by commas")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    ensure()
    pairs, count = arguments.pairs, arguments.records
    only = arguments.only
    rows = steps(pairs, count) if only in (None, "steps") else []
    rows += overlapping(pairs, count) if only in (None, "windows") else []
    names = None if arguments.jobs is None else arguments.jobs.split(",")
    of_jobs = ordinary(pairs, count, names) if only in (None, "ordinary") else []
    if arguments.json:
        print(json.dumps({"records": count, "pairs": pairs, "rows": rows, "ordinary": of_jobs}))
        return 0
    for row in (*rows, *of_jobs):
        over = f"of {row['job_us_per_event']} by its job, {row['pairs']}" if "pairs" in row else ""
        print(f"{row['job']:<34} {row['us_per_event']:>8} us an event {row['times']:>6} times {over}".rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
