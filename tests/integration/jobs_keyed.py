"""A job whose events hold the key, a header, the log time and the null value of their record; one by columns too."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holon import Batch, Context, Header, Job, Json, JsonColumns, LogTime, ProcessingFunction, RecordKey, Source
from holon import Tombstone as Gone
from tests.integration.jobs_mixed import INPUT, OUTPUT


class Order(msgspec.Struct, frozen=True):
    user: Annotated[str, RecordKey]
    at_ms: Annotated[int, LogTime]
    price: int = 0
    trace: Annotated[str | None, Header("trace")] = None
    gone: Annotated[bool, Gone] = False


class Listing(ProcessingFunction[Order]):
    def process(self, event: Order, ctx: Context) -> None:
        ctx.emit([event.user, event.price, event.trace, event.gone, event.at_ms > 0])


def list_batch(batch: Batch[Order], ctx: Context) -> None:
    columns = [list(batch[name]) for name in ("user", "price", "trace", "gone", "at_ms")]
    for row, (user, price, trace, gone, at_ms) in enumerate(zip(*columns, strict=True)):
        ctx.emit([user, int(price), trace, bool(gone), bool(at_ms > 0)], row=row)


job = Job("orders", Source(INPUT, Json(Order), timestamp=lambda order: order.at_ms), Listing, output=OUTPUT)
by_columns = Job(
    "order-columns", Source(INPUT, JsonColumns(Order), timestamp="at_ms"), process_batch=list_batch, output=OUTPUT
)
