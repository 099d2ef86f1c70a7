"""Entities of TPC-C, with what each function does to its own."""

from __future__ import annotations

from typing import Any

import msgspec

from transactional.context import Context
from transactional.operators import Operator

PARTITIONS = 4
DISTRICTS = 10


class NotFound(Exception):
    """No such item: the order is rolled back (clause 2.4.1.4)."""


class Warehouse(msgspec.Struct, array_like=True):
    tax: int
    ytd: int


class District(msgspec.Struct, array_like=True):
    tax: int
    ytd: int
    next_order: int


class Customer(msgspec.Struct, array_like=True):
    first: str
    last: str
    credit: str
    discount: int
    balance: int
    ytd_payment: int
    payments: int
    deliveries: int
    data: str


class OrderLine(msgspec.Struct, array_like=True):
    """``delivered_ms`` None: not yet."""

    item: int
    supplier: int
    quantity: int
    amount: int
    delivered_ms: int | None
    info: str


class Order(msgspec.Struct, array_like=True):
    """``carrier`` None: not delivered yet."""

    customer: int
    entered_ms: int
    carrier: int | None
    line_count: int
    all_local: bool
    lines: list[OrderLine]


class Stock(msgspec.Struct, array_like=True):
    quantity: int
    ytd: int
    orders: int
    remote: int
    infos: list[str]
    data: str


def _operator(name: str, state: Any = None) -> Operator:
    return Operator(name, partitions=PARTITIONS, colocate="/", state=state)


warehouse = _operator("warehouse", Warehouse)  # key: 1
district = _operator("district", District)  # 1/2
customer = _operator("customer", Customer)  # 1/2/0003
customers_by_name = _operator("customers_by_name")  # 1/2/BARBARBAR -> [[first name, customer], ...]
payment_history = _operator("payment_history")  # 1/2/uuid -> [warehouse, district, customer, amount, time]
order = _operator("order", Order)  # 1/2/00000004
new_order = _operator("new_order")  # as the order; there is a state while it is not delivered
last_order = _operator("last_order")  # as the customer -> order
oldest_open = _operator("oldest_open")  # as the district -> order
item = _operator("item")  # 1/000005 -> [name, price, data]
stock = _operator("stock", Stock)  # as the item

OPERATORS = (
    warehouse,
    district,
    customer,
    customers_by_name,
    payment_history,
    order,
    new_order,
    last_order,
    oldest_open,
    item,
    stock,
)


def district_key(w: int, d: int) -> str:
    """Districts count from 1."""
    return f"{w}/{d}"


def customer_key(w: int, d: int, c: int) -> str:
    """Customers count from 1."""
    return f"{w}/{d}/{c:04}"


def order_key(w: int, d: int, o: int) -> str:
    """In the order of the numbers, which count from 1."""
    return f"{w}/{d}/{o:08}"


def item_key(w: int, i: int) -> str:
    """Of an item or its stock; items count from 1."""
    return f"{w}/{i:06}"


def numbers(key: str) -> list[int]:
    """The parts of a key."""
    return [int(part) for part in key.split("/")]


@warehouse.register
async def tax(ctx: Context) -> int:
    """The warehouse's rate."""
    return ctx.get().tax


@customer.register
async def terms(ctx: Context) -> list[Any]:
    """Discount, last name, credit."""
    state: Customer = ctx.get()
    return [state.discount, state.last, state.credit]


@customer.register
async def pay(ctx: Context, at: list[int], amount: int) -> int:
    """A payment (clause 2.5.2.2); bad credit is recorded at length. Returns the new balance."""
    state: Customer = ctx.get()
    state.balance -= amount
    state.ytd_payment += amount
    state.payments += 1
    if state.credit == "BC":
        state.data = f"{ctx.key} {at[0]} {at[1]} {amount}|{state.data}"[:500]
    ctx.put(state)
    return state.balance


@customer.register
async def deliver(ctx: Context, amount: int) -> None:
    """Goods arrive, to be paid for."""
    state: Customer = ctx.get()
    state.balance += amount
    state.deliveries += 1
    ctx.put(state)


@customer.register
async def show(ctx: Context) -> list[Any]:
    """First name, last name, balance."""
    state: Customer = ctx.get()
    return [state.first, state.last, state.balance]


@customers_by_name.register
async def middle(ctx: Context) -> int:
    """The customer in the middle, by first name (clause 2.5.2.2, case 2)."""
    named = sorted(ctx.get())
    return named[(len(named) - 1) // 2][1]


@payment_history.register
async def keep(ctx: Context, row: Any) -> None:
    """Store a row."""
    ctx.put(row)


new_order.register(keep)
last_order.register(keep)
oldest_open.register(keep)
item.register(keep)


@order.register
async def enter(ctx: Context, content: Any) -> None:
    """A new order."""
    ctx.put(msgspec.convert(content, Order))


@order.register
async def hand_over(ctx: Context, carrier: int) -> list[int]:
    """Delivered (clause 2.7.4.2): gives the customer, and the sum of the lines."""
    state: Order = ctx.get()
    state.carrier = carrier
    for line in state.lines:
        line.delivered_ms = ctx.now_ms
    ctx.put(state)
    return [state.customer, sum(line.amount for line in state.lines)]


@order.register
async def read_order(ctx: Context) -> Any:
    """The order whole, None if there is none."""
    return ctx.get()


@new_order.register
async def remove(ctx: Context) -> bool:
    """Whether it was there."""
    found = ctx.exists()
    if found:
        ctx.delete()
    return found


@last_order.register
async def number(ctx: Context) -> int:
    """Of the customer's last order."""
    return ctx.get()


@item.register
async def offer(ctx: Context) -> list[Any]:
    """Name, price, data; raises ``NotFound``."""
    found = ctx.get()
    if found is None:
        raise NotFound(ctx.key)
    return found


@stock.register
async def take(ctx: Context, d: int, quantity: int, remote: bool) -> list[Any]:
    """For an order from district ``d`` (clause 2.4.2.2): what is left, the district's text, data."""
    state: Stock = ctx.get()
    left = state.quantity - quantity
    state.quantity = left if left >= 10 else left + 91
    state.ytd += quantity
    state.orders += 1
    state.remote += remote
    ctx.put(state)
    return [state.quantity, state.infos[d - 1], state.data]


@stock.register
async def quantity(ctx: Context) -> int:
    """The present values."""
    return ctx.get().quantity
