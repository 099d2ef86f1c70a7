"""The initial population (clause 4.3.3), by transactions that make some rows each, in the warehouse's partition."""

from __future__ import annotations

from dataclasses import dataclass

from transactional.context import Context
from transactional.execution.deterministic_random import DeterministicRandom
from transactional.requests.requests import WireRequest
from transactional.state.values import encode
from transactional.workloads.contract import WorkloadShape
from transactional.workloads.tpcc import model as m

ROWS = 300
"""Of one kind in one transaction."""
SYLLABLES = "BAR OUGHT ABLE PRI PRES ESE ANTI CALLY ATION EING".split()
INITIAL_PAYMENT = 1_000
NAMES = 1_000


@dataclass(frozen=True, slots=True)
class Cardinalities:
    """Customers (and first orders) of a district, items of a warehouse; ``open`` of the orders are not delivered."""

    customers: int
    items: int
    open: int


def cardinalities(shape: WorkloadShape) -> Cardinalities:
    """The specification's are 3,000, 100,000 and 900; at least 30, 100 and 9."""
    customers = max(30, round(3_000 * shape.scale))
    return Cardinalities(customers, max(100, round(100_000 * shape.scale)), customers * 3 // 10)


def last_name(number: int) -> str:
    """Clause 4.3.2.3; three digits, a syllable each."""
    return "".join(SYLLABLES[number // 10**place % 10] for place in (2, 1, 0))


def name_of(c: int, customers: int, rng: DeterministicRandom) -> str:
    """The last name of customer ``c``: the first thousand have all names in turn."""
    return last_name((c - 1) if c <= NAMES else rng.randrange(min(NAMES, customers)))


def _text(rng: DeterministicRandom, low: int, high: int) -> str:
    return rng.bytes((high + 1) // 2).hex()[: rng.randint(low, high)]


def _rng(seed: int, *what: object) -> DeterministicRandom:
    return DeterministicRandom(encode((seed, *what)))


@m.warehouse.register
async def load_warehouse(ctx: Context, seed: int, customers: int) -> None:
    """The warehouse with its districts; money received is what the first payments sum up to."""
    rng = _rng(seed, ctx.key)
    ctx.put(m.Warehouse(rng.randint(0, 2_000), m.DISTRICTS * customers * INITIAL_PAYMENT))
    for d in range(1, m.DISTRICTS + 1):
        fields = [rng.randint(0, 2_000), customers * INITIAL_PAYMENT, customers + 1]
        ctx.call_async(m.district, m.district_key(int(ctx.key), d), load_district, [fields])


@m.district.register
async def load_district(ctx: Context, fields: list[int]) -> None:
    """The district's own row."""
    ctx.put(m.District(*fields))


@m.district.register
async def load_customers(ctx: Context, seed: int, first: int, stop: int, customers: int) -> None:
    """Customers ``first`` to ``stop``, each with a payment and, in the index, a name."""
    w, d = m.numbers(ctx.key)
    for c in range(first, stop):
        rng = _rng(seed, ctx.key, c)
        last, given = name_of(c, customers, rng), _text(rng, 8, 16)
        grade = "BC" if rng.randrange(10) == 0 else "GC"
        fields = [given, last, grade, rng.randint(0, 5_000), -INITIAL_PAYMENT, INITIAL_PAYMENT, 1, 0]
        key = m.customer_key(w, d, c)
        ctx.call_async(m.customer, key, load_customer, [*fields, _text(rng, 300, 500)])
        ctx.call_async(m.customers_by_name, f"{w}/{d}/{last}", load_name, [given, c])
        ctx.call_async(m.payment_history, f"{w}/{d}/{ctx.uuid()}", m.keep, [[w, d, c, INITIAL_PAYMENT, ctx.now_ms]])


@m.customer.register
async def load_customer(ctx: Context, *fields: object) -> None:
    """A customer's row."""
    ctx.put(m.Customer(*fields))  # type: ignore[arg-type]  # as the sender has listed them


@m.customers_by_name.register
async def load_name(ctx: Context, given: str, c: int) -> None:
    """One more of this name."""
    ctx.put([*ctx.get([]), [given, c]])


@m.district.register
async def load_orders(ctx: Context, seed: int, first: int, stop: int, customers: int, items: int, open_: int) -> None:
    """Orders ``first`` to ``stop``; the last ``open_`` of all are not delivered."""
    w, d = m.numbers(ctx.key)
    if first == 1:
        ctx.call_async(m.oldest_open, ctx.key, m.keep, [customers - open_ + 1])
    for o in range(first, stop):
        rng = _rng(seed, ctx.key, "order", o)
        c, done = customers + 1 - o, o <= customers - open_
        lines = []
        for _ in range(rng.randint(5, 15)):
            amount = 0 if done else rng.randint(1, 999_999)
            delivered = ctx.now_ms if done else None
            lines.append(m.OrderLine(1 + rng.randrange(items), w, 5, amount, delivered, _text(rng, 24, 24)))
        carrier = rng.randint(1, 10) if done else None
        key = m.order_key(w, d, o)
        ctx.call_async(m.order, key, m.enter, [m.Order(c, ctx.now_ms, carrier, len(lines), True, lines)])
        ctx.call_async(m.last_order, m.customer_key(w, d, c), m.keep, [o])
        if not done:
            ctx.call_async(m.new_order, key, m.keep, [True])


@m.warehouse.register
async def load_items(ctx: Context, seed: int, first: int, stop: int) -> None:
    """Items ``first`` to ``stop``: alike in all warehouses; and their stock here."""
    for i in range(first, stop):
        alike, rng = _rng(seed, "item", i), _rng(seed, ctx.key, "stock", i)
        key = m.item_key(int(ctx.key), i)
        ctx.call_async(m.item, key, m.keep, [[_text(alike, 14, 24), alike.randint(100, 10_000), _text(alike, 26, 50)]])
        infos = [_text(rng, 24, 24) for _ in range(m.DISTRICTS)]
        ctx.call_async(m.stock, key, load_stock, [rng.randint(10, 100), 0, 0, 0, infos, _text(rng, 26, 50)])


@m.stock.register
async def load_stock(ctx: Context, *fields: object) -> None:
    """A row of the stock."""
    ctx.put(m.Stock(*fields))  # type: ignore[arg-type]  # as the sender has listed them


def load(shape: WorkloadShape) -> list[WireRequest]:
    """Requests of which each makes at most ``ROWS`` rows of a kind."""
    of, seed = cardinalities(shape), shape.seed
    made: list[WireRequest] = []
    for w in range(1, shape.size + 1):
        made.append(WireRequest(f"load-{w}", "warehouse", str(w), "load_warehouse", [seed, of.customers]))
        for first in range(1, of.items + 1, ROWS):
            stop = min(first + ROWS, of.items + 1)
            made.append(WireRequest(f"load-{w}-i{first}", "warehouse", str(w), "load_items", [seed, first, stop]))
        for d in range(1, m.DISTRICTS + 1):
            key = m.district_key(w, d)
            for first in range(1, of.customers + 1, ROWS):
                run = [seed, first, min(first + ROWS, of.customers + 1), of.customers]
                made.append(WireRequest(f"load-{w}-{d}-c{first}", "district", key, "load_customers", run))
                orders = [*run, of.items, of.open]
                made.append(WireRequest(f"load-{w}-{d}-o{first}", "district", key, "load_orders", orders))
    return made
