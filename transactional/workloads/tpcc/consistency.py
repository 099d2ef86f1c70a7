"""The consistency conditions of TPC-C (clause 3.3.2), and agreement of the state with the replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from transactional.context import Context
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import RequestHistory, Send, WorkloadShape, different
from transactional.workloads.tpcc import model as m
from transactional.workloads.tpcc.loading import cardinalities

PAGE = 1_000
"""Rows of a reply."""


async def _page(ctx: Context, start: int, count: int) -> list[Any]:
    """Rows of this operator under the key's first two parts (of a stock row: first part), as they are."""
    prefix = ctx.key.rsplit("/", 1)[0] + "/"
    return [[key, row] for key, row in ctx.scan(prefix)[start : start + count]]


@m.customer.register
async def page(ctx: Context, start: int, count: int) -> list[Any]:
    """A run of rows with their keys."""
    return await _page(ctx, start, count)


for _operator in (m.payment_history, m.order, m.new_order, m.stock):
    _operator.register(page)


@m.warehouse.register
async def row(ctx: Context) -> Any:
    """The row as it is."""
    return ctx.get()


m.district.register(row)


@dataclass(slots=True)
class Tables:
    """All rows, by key."""

    warehouses: dict[int, list[int]] = field(default_factory=dict)
    districts: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    rows: dict[str, dict[tuple[int, int], dict[str, Any]]] = field(default_factory=dict)
    """Operator -> district -> key -> row; the stock is under district 0."""


def read_all(shape: WorkloadShape, send: Send) -> Tables:
    """Page by page."""
    tables, warehouses = Tables(), range(1, shape.size + 1)
    districts = [(w, d) for w in warehouses for d in range(1, m.DISTRICTS + 1)]
    found = send([WireRequest(f"row-{w}", "warehouse", str(w), "row") for w in warehouses])
    tables.warehouses = {w: found[f"row-{w}"] for w in warehouses}
    found = send([WireRequest(f"row-{w}-{d}", "district", m.district_key(w, d), "row") for w, d in districts])
    tables.districts = {(w, d): found[f"row-{w}-{d}"] for w, d in districts}
    for name in ("customer", "payment_history", "order", "new_order"):
        tables.rows[name] = _pages(send, name, {(w, d): f"{w}/{d}/" for w, d in districts})
    tables.rows["stock"] = _pages(send, "stock", {(w, 0): f"{w}/" for w in warehouses})
    return tables


def _pages(send: Send, operator: str, keys: dict[tuple[int, int], str]) -> dict[tuple[int, int], dict[str, Any]]:
    rows: dict[tuple[int, int], dict[str, Any]] = {place: {} for place in keys}
    start, left = 0, dict(keys)
    while left:
        reads = {
            place: WireRequest(f"{operator}-{place}-{start}", operator, key, "page", [start, PAGE])
            for place, key in left.items()
        }
        found = send(list(reads.values()))
        for place, request in reads.items():
            rows[place].update(found[request.id])
            if len(found[request.id]) < PAGE:
                del left[place]
        start += PAGE
    return rows


def check(shape: WorkloadShape, history: RequestHistory, send: Send) -> list[str]:
    """Conditions 1 to 10 and 12 of clause 3.3.2, and that each acknowledged transaction is there once.

    Condition 11 speaks of the first state alone.
    """
    tables = read_all(shape, send)
    wrong: list[str] = []
    for w, (_, ytd) in tables.warehouses.items():
        mine = [place for place in tables.districts if place[0] == w]
        wrong += different(f"condition 1: W_YTD of {w}", ytd, sum(tables.districts[place][1] for place in mine))
        paid = sum(row[3] for place in mine for row in tables.rows["payment_history"][place].values())
        wrong += different(f"condition 8: W_YTD of {w}", ytd, paid)
    for place in tables.districts:
        wrong += _district(tables, place)
    return wrong + _customers(tables) + _stocks(tables, shape) + _replies(tables, shape, history)


def _district(tables: Tables, place: tuple[int, int]) -> list[str]:
    _, ytd, following = tables.districts[place]
    orders = {m.numbers(key)[2]: row for key, row in tables.rows["order"][place].items()}
    pending = sorted(m.numbers(key)[2] for key in tables.rows["new_order"][place])
    where = f"of district {place}"
    paid = sum(row[3] for row in tables.rows["payment_history"][place].values())
    wrong = different(f"condition 2: D_NEXT_O_ID - 1 {where}", following - 1, max(orders))
    if pending:
        wrong += different(f"condition 2: the newest open order {where}", pending[-1], following - 1)
        wrong += different(f"condition 3: open orders {where}", len(pending), pending[-1] - pending[0] + 1)
    wrong += different(f"condition 4: order lines {where}", *_line_counts(orders))
    undelivered = sorted(number for number, o in orders.items() if o[2] is None)
    wrong += different(f"condition 5: orders without carrier {where}", undelivered, pending)
    for number, o in orders.items():
        wrong += different(f"condition 6: lines of order {number} {where}", len(o[5]), o[3])
        open_lines = [line[4] is None for line in o[5]]
        wrong += different(f"condition 7: undelivered lines of order {number} {where}", set(open_lines), {o[2] is None})
    return wrong + different(f"condition 9: D_YTD {where}", ytd, paid)


def _line_counts(orders: dict[int, Any]) -> tuple[int, int]:
    """Lines that are there, and lines that there should be."""
    return sum(len(o[5]) for o in orders.values()), sum(o[3] for o in orders.values())


def _customers(tables: Tables) -> list[str]:
    """Conditions 10 and 12; and the counts of payments and deliveries."""
    paid: dict[str, list[int]] = {}
    for rows in tables.rows["payment_history"].values():
        for w, d, c, amount, _ in rows.values():
            paid.setdefault(m.customer_key(w, d, c), []).append(amount)
    delivered: dict[str, list[int]] = {}
    for (w, d), rows in tables.rows["order"].items():
        for o in rows.values():
            if o[2] is not None:
                delivered.setdefault(m.customer_key(w, d, o[0]), []).append(sum(line[3] for line in o[5]))
    wrong: list[str] = []
    for rows in tables.rows["customer"].values():
        for key, row in rows.items():
            balance, ytd_payment, payments = row[4:7]
            got, gave = sum(delivered.get(key, [])), sum(paid.get(key, []))
            wrong += different(f"condition 10: C_BALANCE of {key}", balance, got - gave)
            wrong += different(f"condition 12: C_BALANCE + C_YTD_PAYMENT of {key}", balance + ytd_payment, got)
            wrong += different(f"the payments of {key}", payments, len(paid.get(key, [])))
    return wrong


def _stocks(tables: Tables, shape: WorkloadShape) -> list[str]:
    """The amount taken from the stock is that of the orders since the first ones."""
    first = cardinalities(shape).customers
    taken: dict[str, list[int]] = {}
    for (w, _), rows in tables.rows["order"].items():
        for key, o in rows.items():
            if m.numbers(key)[2] > first:
                for line in o[5]:
                    of = taken.setdefault(m.item_key(line[1], line[0]), [0, 0, 0])
                    of[0] += line[2]
                    of[1] += 1
                    of[2] += line[1] != w
    return [
        each
        for rows in tables.rows["stock"].values()
        for key, row in rows.items()
        for each in different(f"quantity, orders, remote orders of stock {key}", row[1:4], taken.get(key, [0, 0, 0]))
    ]


def _replies(tables: Tables, shape: WorkloadShape, history: RequestHistory) -> list[str]:
    """Order numbers are given out once and without gaps; payments and deliveries are counted."""
    first = cardinalities(shape)
    ordered: dict[tuple[int, int], list[int]] = {place: [] for place in tables.districts}
    for request, (number, _) in history.committed("place_order"):
        w, d = m.numbers(request.key)
        ordered[w, d].append(number)
    wrong: list[str] = []
    for place, numbers in ordered.items():
        expected = list(range(first.customers + 1, tables.districts[place][2]))
        wrong += different(f"the order numbers of {place}", sorted(numbers), expected)
    paid = sum(request.args[4] for request, _ in history.committed("take_payment"))
    loaded = shape.size * m.DISTRICTS * first.customers * 1_000
    total = sum(row[1] for row in tables.warehouses.values())
    wrong += different("the sum of all payments", total, loaded + paid)
    return wrong + _deliveries(tables, first.customers - first.open, history.committed("deliver_orders"))


def _deliveries(tables: Tables, loaded: int, done: Sequence[tuple[WireRequest, Any]]) -> list[str]:
    delivered: dict[tuple[int, int], list[int]] = {place: [] for place in tables.districts}
    for request, numbers in done:
        for d, number in enumerate(numbers, 1):
            if number is not None:
                delivered[int(request.key), d].append(number)
    wrong: list[str] = []
    for place, rows in tables.rows["order"].items():
        found = sorted(m.numbers(key)[2] for key, o in rows.items() if o[2] is not None)
        expected = list(range(1, loaded + 1)) + sorted(delivered[place])
        wrong += different(f"the delivered orders of {place}", found, expected)
    return wrong
