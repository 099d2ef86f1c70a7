"""Jobs whose events hold the key, a header, the log time and the null value of their record; one reads another's."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holon import (
    Batch,
    Context,
    Header,
    Job,
    Json,
    JsonColumns,
    LogTime,
    Output,
    ProcessingFunction,
    RecordKey,
    Source,
)
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


class Priced(msgspec.Struct):
    """A result of ``forward``, whose key says the user."""

    user: Annotated[str, RecordKey]
    price: int


class Forwarding(ProcessingFunction[Order]):
    def process(self, event: Order, ctx: Context) -> None:
        ctx.emit({"price": event.price, "user": "forged"}, key=event.user.encode())


def list_prices(batch: Batch[Priced], ctx: Context) -> None:
    for row, (user, price) in enumerate(zip(list(batch["user"]), batch["price"].tolist(), strict=True)):
        ctx.emit([user, price], row=row)


MIDDLE = "priced"
forward = Job(
    "forward",
    Source(INPUT, Json(Order), timestamp=lambda order: order.at_ms),
    Forwarding,
    output=Output(MIDDLE, route_by_key=True),
)
after = Job("after", Source(MIDDLE, JsonColumns(Priced)), process_batch=list_prices, output=OUTPUT)
