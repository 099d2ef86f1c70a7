"""Shopping carts: goods are reserved when they go into a cart, given back, or paid for; none is sold twice or lost.

Source: the example of Styx, section 3.1 (Figure 3), with stock, removal and checkout.
"""

from __future__ import annotations

from typing import Any

import msgspec

from transactional.context import Context
from transactional.operators import Operator, Program
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import BenchWorkload, RequestHistory, Send, WorkloadShape, different
from transactional.workloads.draws import Draws

INITIAL_STOCK = 20
CARTS_EACH = 2
"""Carts for each kind of goods."""


class OutOfStock(Exception):
    """Fewer are there than wanted."""


class EmptyCart(Exception):
    """Nothing to pay for."""


class Goods(msgspec.Struct):
    price: int
    stock: int
    reserved: int = 0
    sold: int = 0


class Cart(msgspec.Struct):
    """``lines``: goods -> [quantity, price]."""

    lines: dict[str, list[int]] = {}
    paid: int = 0


goods = Operator("goods", partitions=4, state=Goods)
cart = Operator("cart", partitions=4, state=Cart)


@goods.register
async def offer(ctx: Context, price: int, stock: int) -> None:
    """Put goods on sale."""
    ctx.put(Goods(price, stock))


@goods.register
async def reserve(ctx: Context, quantity: int) -> int:
    """Take from the stock for a cart, or give back; gives the price."""
    state: Goods = ctx.get()
    if state.stock < quantity:
        raise OutOfStock(ctx.key, state.stock)
    state.stock -= quantity
    state.reserved += quantity
    ctx.put(state)
    return state.price


@goods.register
async def sell(ctx: Context, quantity: int) -> None:
    """Reserved items are paid for."""
    state: Goods = ctx.get()
    state.reserved -= quantity
    state.sold += quantity
    ctx.put(state)


@goods.register
async def show(ctx: Context) -> list[int]:
    """Price, stock, reserved, sold."""
    state: Goods = ctx.get()
    return [state.price, state.stock, state.reserved, state.sold]


@cart.register
async def add(ctx: Context, item: str, quantity: int) -> int:
    """Put goods into the cart; gives how many of them are in it now."""
    price = await ctx.call(goods, item, reserve, [quantity])
    state: Cart = ctx.get(Cart())
    line = state.lines.setdefault(item, [0, price])
    line[0] += quantity
    ctx.put(state)
    return line[0]


@cart.register
async def remove(ctx: Context, item: str) -> int:
    """Take goods out; gives how many there were."""
    state: Cart = ctx.get(Cart())
    quantity, _ = state.lines.pop(item, [0, 0])
    if quantity:
        await ctx.call(goods, item, reserve, [-quantity])
        ctx.put(state)
    return quantity


@cart.register
async def check_out(ctx: Context) -> dict[str, list[int]]:
    """Pay for all that is in the cart; gives its lines."""
    state: Cart = ctx.get(Cart())
    if not state.lines:
        raise EmptyCart(ctx.key)
    total = 0
    for item, (quantity, price) in sorted(state.lines.items()):
        ctx.call_async(goods, item, sell, [quantity])
        total += quantity * price
    ctx.put(Cart({}, state.paid + total))
    return state.lines


@cart.register
async def read_cart(ctx: Context) -> list[Any]:
    """Lines, and what was paid so far."""
    state: Cart = ctx.get(Cart())
    return [state.lines, state.paid]


program = Program("cart", [goods, cart], errors=[OutOfStock, EmptyCart])


def _price(number: int) -> int:
    return 100 + number % 37


def load(shape: WorkloadShape) -> list[WireRequest]:
    """All goods."""
    return [WireRequest(f"load-{n}", "goods", f"g{n}", "offer", [_price(n), INITIAL_STOCK]) for n in range(shape.size)]


def requests(shape: WorkloadShape, first: int, count: int) -> list[WireRequest]:
    """Six of ten add, two remove, two pay; goods are Zipf-distributed."""
    draws = Draws(shape.seed, first, count)
    columns = zip(
        draws.below(0, 10),
        draws.below(1, CARTS_EACH * shape.size),
        draws.zipf(2, shape.size, shape.zipf),
        draws.below(3, 3),
        strict=True,
    )
    made = []
    for n, (kind, who, item, more) in enumerate(columns):
        name, args = ("add", [f"g{item}", 1 + more]) if kind < 6 else ("remove", [f"g{item}"])
        if kind >= 8:
            name, args = "check_out", []
        made.append(WireRequest(f"{shape.seed}-{first + n}", "cart", f"c{who}", name, args))
    return made


def check(shape: WorkloadShape, history: RequestHistory, send: Send) -> list[str]:
    """Goods are in stock, in carts or sold, and carts hold and have paid what is in their replies."""
    kinds, carts = range(shape.size), range(CARTS_EACH * shape.size)
    shown = send([WireRequest(f"show-{n}", "goods", f"g{n}", "show") for n in kinds])
    shown_carts = send([WireRequest(f"read-{n}", "cart", f"c{n}", "read_cart") for n in carts])
    paid, held = _from_replies(history)
    in_carts = {f"g{n}": 0 for n in kinds}
    wrong: list[str] = []
    for n in carts:
        lines, sum_paid = shown_carts[f"read-{n}"]
        wrong += different(f"what cart c{n} has paid", sum_paid, paid.get(f"c{n}", 0))
        quantities = {item: quantity for item, (quantity, _) in lines.items()}
        wrong += different(f"what is in cart c{n}", quantities, held.get(f"c{n}", {}))
        for item, quantity in quantities.items():
            in_carts[item] += quantity
    revenue = 0
    for n in kinds:
        price, stock, reserved, sold = shown[f"show-{n}"]
        revenue += price * sold
        wrong += different(f"all of g{n}", stock + reserved + sold, INITIAL_STOCK)
        wrong += different(f"the reserved of g{n}", reserved, in_carts[f"g{n}"])
        if min(stock, reserved, sold) < 0:
            wrong.append(f"g{n} has less than nothing: {shown[f'show-{n}']}")
    return wrong + different("the revenue", revenue, sum(paid.values()))


def _from_replies(history: RequestHistory) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """By cart what it has paid, and what is left in it."""
    paid: dict[str, int] = {}
    held: dict[str, dict[str, int]] = {}

    def change(key: str, item: str, by: int) -> None:
        lines = held.setdefault(key, {})
        lines[item] = lines.get(item, 0) + by

    for request, outcome in history.committed():
        match request.function:
            case "add":
                change(request.key, *request.args)
            case "remove":
                change(request.key, request.args[0], -outcome)
            case _:
                for item, (quantity, price) in outcome.items():
                    change(request.key, item, -quantity)
                    paid[request.key] = paid.get(request.key, 0) + quantity * price
    return paid, {key: {item: n for item, n in lines.items() if n} for key, lines in held.items()}


workload = BenchWorkload(
    name="cart",
    program=program,
    reference="transactional.workloads.cart:program",
    size=1_000,
    counts="kinds of goods",
    load=load,
    requests=requests,
    check=check,
    expected_aborts=("OutOfStock", "EmptyCart"),
)
