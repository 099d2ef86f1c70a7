"""Requests of services: which of them failed too often in a minute, and for how many minutes of an hour each did.

A request that comes too late for its minute is counted nowhere, and lies on a topic of its own.
"""

import msgspec

from holon import Json, Tumbling
from holon.dataflow import Flow, Group


class Request(msgspec.Struct):
    ts: int
    service: str
    status: int
    path: str = ""


class Minute(msgspec.Struct):
    service: str
    start: int
    requests: int
    failed: int


class Trouble(msgspec.Struct):
    service: str
    hour: int
    minutes: int
    worst: float


def minute(group: Group[str, Request]) -> Minute:
    failed = group.sum(lambda request: 1 if request.status >= 500 else 0)
    return Minute(group.key, group.window.start_ms, group.count(), failed)


def trouble(group: Group[str, Minute]) -> Trouble:
    worst = group.max(lambda row: row.failed / row.requests)
    return Trouble(group.key, group.window.start_ms, group.count(), worst)


flow = Flow("error-rates", lateness="30s", on_error="dead-letter")
requests = flow.source("requests", Json(Request), time=lambda request: request.ts, out_of_order="5s")
real = requests.filter(lambda request: not request.path.startswith("/health"))
minutes = real.key_by(lambda request: request.service).window(Tumbling("1m")).agg(minute)
bad = minutes.filter(lambda row: row.requests >= 20 and row.failed * 20 > row.requests)
bad.sink("bad-minutes", key=lambda row: row.service)
bad.key_by(lambda row: row.service).window(Tumbling("1h")).agg(trouble).sink("trouble", key=lambda row: row.service)
minutes.late.sink("late-requests")
