"""Visits of a website: the clicks of a user belong together while none comes more than half an hour after the last.

The second output counts, for each hour, the visits that ended in it, and shows how long they took on average.
"""

import msgspec

from holon import Json, Session, Tumbling
from holon.dataflow import Flow, Group


class Click(msgspec.Struct):
    ts: int
    user: str
    page: str


class Visit(msgspec.Struct):
    user: str
    start: int
    clicks: int
    pages: int
    seconds: int


class Hour(msgspec.Struct):
    hour: int
    visits: int
    seconds: float


def visit(group: Group[str, Click]) -> Visit:
    first, last = group.min(lambda click: click.ts), group.max(lambda click: click.ts)
    return Visit(
        group.key,
        group.window.start_ms,
        group.count(),
        group.distinct(lambda click: click.page),
        (last - first) // 1000,
    )


def hour(group: Group[None, Visit]) -> Hour:
    return Hour(group.window.start_ms, group.count(), group.mean(lambda visit: visit.seconds))


flow = Flow("visits")
clicks = flow.source("clicks", Json(Click), time=lambda click: click.ts, out_of_order="5s")
visits = clicks.key_by(lambda click: click.user).window(Session("30m", slice="1m")).agg(visit)
visits.sink("visits", key=lambda visit: visit.user)
visits.window(Tumbling("1h")).agg(hour).sink("visits-by-hour")
visits.late.sink("clicks-too-late")
