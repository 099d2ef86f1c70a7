"""The five transactions of TPC-C (clauses 2.4 to 2.8), each rooted at its district or warehouse."""

from __future__ import annotations

from typing import Any

from transactional.context import Context
from transactional.operators import Limits, Program
from transactional.workloads.tpcc import model as m

RECENT = 20
"""Orders that the stock level reads."""


@m.district.register
async def place_order(ctx: Context, c: int, lines: list[list[int]]) -> list[int]:
    """New-Order. ``lines``: [item, supplying warehouse, quantity]. Gives order number and total."""
    w, d = m.numbers(ctx.key)
    warehouse_tax = await ctx.call(m.warehouse, str(w), m.tax)
    state: m.District = ctx.get()
    o = state.next_order
    state.next_order += 1
    ctx.put(state)
    discount, _, _ = await ctx.call(m.customer, m.customer_key(w, d, c), m.terms)
    made = []
    for i, supplier, quantity in lines:
        _, price, _ = await ctx.call(m.item, m.item_key(w, i), m.offer)
        _, info, _ = await ctx.call(m.stock, m.item_key(supplier, i), m.take, [d, quantity, supplier != w])
        made.append(m.OrderLine(i, supplier, quantity, quantity * price, None, info))
    local = all(line.supplier == w for line in made)
    entered = m.Order(c, ctx.now_ms, None, len(made), local, made)
    ctx.call_async(m.order, m.order_key(w, d, o), m.enter, [entered])
    ctx.call_async(m.new_order, m.order_key(w, d, o), m.keep, [True])
    ctx.call_async(m.last_order, m.customer_key(w, d, c), m.keep, [o])
    total = sum(line.amount for line in made)
    return [o, total * (10_000 - discount) * (10_000 + warehouse_tax + state.tax) // 10_000**2]


@m.warehouse.register
async def take_payment(ctx: Context, d: int, c_w: int, c_d: int, who: int | str, amount: int) -> list[int]:
    """Payment. ``who``: a customer's number, or a last name. Gives the customer and the new balance."""
    w = int(ctx.key)
    state: m.Warehouse = ctx.get()
    state.ytd += amount
    ctx.put(state)
    await ctx.call(m.district, m.district_key(w, d), credit, [amount])
    c = await _customer(ctx, c_w, c_d, who)
    balance = await ctx.call(m.customer, m.customer_key(c_w, c_d, c), m.pay, [[w, d], amount])
    row = [c_w, c_d, c, amount, ctx.now_ms]
    ctx.call_async(m.payment_history, f"{w}/{d}/{ctx.uuid()}", m.keep, [row])
    return [c, balance]


@m.district.register
async def credit(ctx: Context, amount: int) -> None:
    """The district's part of a payment."""
    state: m.District = ctx.get()
    state.ytd += amount
    ctx.put(state)


@m.district.register
async def order_status(ctx: Context, who: int | str) -> list[Any]:
    """Order-Status: the customer with the balance, and the last order whole."""
    w, d = m.numbers(ctx.key)
    c = await _customer(ctx, w, d, who)
    shown = await ctx.call(m.customer, m.customer_key(w, d, c), m.show)
    o = await ctx.call(m.last_order, m.customer_key(w, d, c), m.number)
    return [c, shown, o, await ctx.call(m.order, m.order_key(w, d, o), m.read_order)]


@m.warehouse.register
async def deliver_orders(ctx: Context, carrier: int) -> list[int | None]:
    """Delivery: the oldest open order of each district; gives their numbers, None where there is none."""
    return [
        await ctx.call(m.oldest_open, m.district_key(int(ctx.key), d), deliver_oldest, [carrier])
        for d in range(1, m.DISTRICTS + 1)
    ]


@m.oldest_open.register
async def deliver_oldest(ctx: Context, carrier: int) -> int | None:
    """Of one district."""
    w, d = m.numbers(ctx.key)
    o = ctx.get()
    if not await ctx.call(m.new_order, m.order_key(w, d, o), m.remove):
        return None
    c, amount = await ctx.call(m.order, m.order_key(w, d, o), m.hand_over, [carrier])
    await ctx.call(m.customer, m.customer_key(w, d, c), m.deliver, [amount])
    ctx.put(o + 1)
    return o


@m.district.register
async def stock_level(ctx: Context, threshold: int) -> int:
    """Stock-Level: how many goods of the last 20 orders are below the threshold."""
    w, d = m.numbers(ctx.key)
    following = ctx.get().next_order
    goods: set[int] = set()
    for o in range(max(1, following - RECENT), following):
        found = await ctx.call(m.order, m.order_key(w, d, o), m.read_order)
        goods.update(line[0] for line in found[5])
    low = [await ctx.call(m.stock, m.item_key(w, i), m.quantity) < threshold for i in sorted(goods)]
    return sum(low)


async def _customer(ctx: Context, w: int, d: int, who: int | str) -> int:
    return who if isinstance(who, int) else await ctx.call(m.customers_by_name, f"{w}/{d}/{who}", m.middle)


program = Program("tpcc", m.OPERATORS, errors=[m.NotFound], limits=Limits(max_calls=20_000))
