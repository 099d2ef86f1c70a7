"""A flow with two sinks of files, below the folder in which its process runs."""

from __future__ import annotations

from holon import Json
from holon.dataflow import Files, Flow, Tumbling
from tests.integration.jobs_flow import Total
from tests.integration.jobs_mixed import INPUT, Event

flow = Flow("filed")
events = flow.source(INPUT, Json(Event), time=lambda event: event.ts)
events.filter(lambda event: event.id % 5 == 0).sink(Files("rows/{hour}", "csv", time="ts", commit_after="50ms"))
totals = (
    events.key_by(lambda event: event.id % 7)
    .window(Tumbling("1s"))
    .agg(lambda g: Total(g.window.end_ms, g.key, g.count(), g.sum(lambda event: event.amount)))
)
totals.sink(Files("totals/{day}", "parquet", partition_by=["key"], commit_after="50ms", topic="totals"))
