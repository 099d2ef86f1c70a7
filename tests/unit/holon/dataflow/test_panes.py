"""Which windows share panes, and how that shows."""

from __future__ import annotations

import msgspec
import pytest

from holon import WCRDT, Context, Job, Json, ProcessingFunction, Source, Window, on_window
from holon.dataflow import Flow, Sliding
from holon.testing import run_job
from wcrdt import GCounter, MapOf, ORSet

MANY, FEW = Sliding("1m", "1s"), Sliding("3s", "1s")


class Click(msgspec.Struct):
    at: int
    item: int


@pytest.mark.parametrize(
    ("state", "shares"),
    [
        (WCRDT(GCounter(), MANY, name="clicks"), True),
        (WCRDT(GCounter(), FEW, name="clicks"), False),
        (WCRDT(ORSet[int](), MANY, name="clicks"), False),
    ],
)
def test_four_windows_and_more_share_panes_where_the_lattice_combines(
    state: WCRDT[object, object], shares: bool
) -> None:
    assert (" in panes " in state.describe()) is shares, "a job's log holds either rows in panes or in windows"


def test_explain_names_panes() -> None:
    flow = Flow("clicks")
    clicks = flow.source("clicks", Json(Click), time=lambda click: click.at).key_by(lambda click: click.item)
    for windows in (MANY, FEW):
        clicks.window(windows).agg(lambda g: g.count())
    assert [step.how for step in flow.explain()][1:] == ["columns; 60 windows that overlap share panes", "columns"]


class Shares(ProcessingFunction[Click]):
    clicks = WCRDT(MapOf(GCounter()), Sliding(40, 10), sharded=True)

    def process(self, event: Click, ctx: Context) -> None:
        self.clicks.insert((event.item, 1), ctx.timestamp_ms)

    @on_window(clicks)
    async def close(self, window: Window, ctx: Context) -> None:
        for item, count in (await self.clicks.window_value(window)).items():
            ctx.emit([window.end_ms, item, count])


def test_each_partition_reads_its_keys_of_windows_that_share_panes() -> None:
    job = Job("shares", Source("clicks", Json(Click), lambda click: click.at), Shares, output="out")
    found = run_job(job, [[{"at": at, "item": at % 7} for at in range(first, 50, 15)] for first in (0, 5, 10)])
    wanted = [
        [end, item, sum(at % 7 == item and end - 40 <= at < end for at in range(0, 50, 5))]
        for end in range(10, 90, 10)
        for item in range(7)
    ]
    assert sorted(found) == [row for row in wanted if row[2]]
