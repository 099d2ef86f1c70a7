"""Jobs whose ``process`` is followed, and all that comes out of them: by columns, and record by record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import msgspec
import pytest

from holon import WCRDT, GlobalWindow, Job, Json, ProcessingFunction, Sliding, Source, Tumbling, WLocal
from holon.dataflow.record_functions.followed import followed_sources
from holon.errors import UserFunctionError
from holon.formats import json_columns
from holon.source import BoundedOutOfOrderness
from holon.testing import JobTestDriver
from holon.tracks import column_runs
from wcrdt import Average, GCounter, GSet, MapOf, Max, MaxBy, Min, ORSet, RecordOf, Sum, TopK

Policy = Literal["fail", "dead-letter"]


class Place(msgspec.Struct):
    city: str
    zone: int | None = None


class Item(msgspec.Struct):
    sku: str
    price: float
    count: int
    note: str | None = None
    marks: list[int] = []
    p: Place | None = None


class Event(msgspec.Struct):
    ts: int
    a: int
    x: float
    f: bool
    t: str
    n: int | None = 0
    s: str | None = None
    p: Place | None = None
    tags: list[str] = []
    d: str = "2026-11-24T02:30:00Z"
    g: dict[str, int] = {}
    items: list[Item] = []
    nums: list[int] = []
    floats: list[float] = []
    nested: list[list[Item]] = []


class States(ProcessingFunction[Event]):
    limit = 3
    name = "all"
    count: WCRDT[Any, Any] = WCRDT(GCounter(), Tumbling(10))
    top: WCRDT[Any, Any] = WCRDT(Max(), Sliding(20, 10))
    low: WLocal[Any, Any] = WLocal(Min(), Tumbling(10))
    sums: WCRDT[Any, Any] = WCRDT(MapOf(Sum()), Tumbling(10))
    mean: WCRDT[Any, Any] = WCRDT(Average(), GlobalWindow())
    boxes: WCRDT[Any, Any] = WCRDT(MapOf(RecordOf(n=GCounter(), most=Max(), total=Sum())), Tumbling(10))
    seen: WCRDT[Any, Any] = WCRDT(GSet(), Tumbling(20))
    best: WCRDT[Any, Any] = WCRDT(MaxBy(), Tumbling(10))
    tags: WCRDT[Any, Any] = WCRDT(ORSet(), Sliding(20, 10))
    ranks: WLocal[Any, Any] = WLocal(MapOf(TopK(2)), Tumbling(20))


def job_of(
    process: Any,
    policy: Policy = "fail",
    wanted: Any = None,
    behind_ms: int = 0,
    timestamp: Any = lambda event: event.ts,
    of: Any = Event,
) -> Job[Any]:
    """A job with this ``process`` of ``States``; ``wanted``: the source's filter; ``of``: the type of events."""
    function = type("Followed", (States,), {"process": process})
    watermarks = BoundedOutOfOrderness(behind_ms)
    source = Source("events", Json[Any](of), timestamp, filter=wanted, watermarks=watermarks)
    return Job("followed", source, function, output="out", on_error=policy)


def seen(job: Job[Any], records: Sequence[bytes], cuts: Sequence[int]) -> dict[str, Any]:
    """All that comes out of a run: outputs with identities, counts, checkpoints, and what another node knows."""
    test, start = JobTestDriver(job, 2), 0
    try:
        for cut in [*cuts, len(records)]:
            test.feed(0, *records[start:cut])
            start = max(start, cut)
        test.feed(1, *records[:3])
        states = [task.snapshot().to_bytes() for task in test.tasks]
        states += [msgspec.msgpack.encode(test.replica.full(partition)) for partition in (0, 1)]
        test.finish()
    except UserFunctionError as error:
        return {"error": str(error)}
    return {"outputs": {name: test.raw_outputs(name) for name in job.outputs}, "counts": test.counts, "states": states}


def by_columns(job: Job[Any]) -> Job[Any]:
    """The job, of which all runs of two records and more go by columns."""
    (found,) = followed_sources(job)
    assert found.form is not None, found.why_not
    return job.by_columns({found.topic: replace(found.form, fewest=2)})


def record(ts: int, **fields: Any) -> bytes:
    """A right record of an event, but for these fields."""
    return json.dumps({"ts": ts, "a": 1, "x": 0.5, "f": True, "t": "web"} | fields).encode()


RECORDS = [record(place, a=place % 4, t="wa"[place % 2]) for place in range(40)]


@contextmanager
def noted_ways() -> Iterator[list[bool]]:
    """Whether each run goes by columns meanwhile."""
    found: list[bool] = []
    process = column_runs.ColumnRuns.process

    def noted(self: column_runs.ColumnRuns, run: Any) -> Any:
        admitted = process(self, run)
        found.append(admitted is not None)
        return admitted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_runs.ColumnRuns, "process", noted)
        yield found


def check_by_columns(job: Job[Any], records: Sequence[bytes], cuts: Sequence[int] = ()) -> dict[str, Any]:
    """By columns comes out the same as record by record, byte for byte; ``ways``: whether each run went so."""
    with pytest.MonkeyPatch.context() as patch, noted_ways() as ways:
        patch.setattr(column_runs, "LONGEST_PAUSE", 0)
        patch.setattr(json_columns, "FEW", 4)
        found = seen(by_columns(job), records, cuts)
    assert found == seen(job, records, cuts)
    return found | {"ways": ways}
