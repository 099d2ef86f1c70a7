"""DeathStar's travel reservation: search, recommend, log in, and book a hotel and a flight together or not at all.

Source: DeathStarBench, as functions by Beldi, and Styx, sections 3.1 (its example) and 9.1: one request of 200 books.
``travel-busy`` books with every second one, so that the last rooms are fought for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from transactional.context import Context
from transactional.operators import Operator, Program
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import BenchWorkload, RequestHistory, Send, WorkloadShape, different
from transactional.workloads.draws import Draws

CELL = 5
"""Hotels of one place on the map."""
ROOMS = 10
SEATS = 12


class NoRoom(Exception):
    """The hotel is full."""


class NoSeat(Exception):
    """The flight is full."""


class WrongPassword(Exception):
    """The user is not who they claim to be."""


class Stock(msgspec.Struct):
    """Of a hotel or a flight."""

    capacity: int
    price: int
    stars: int = 0
    booked: int = 0


hotel = Operator("hotel", partitions=4, state=Stock)
flight = Operator("flight", partitions=4, state=Stock)
place = Operator("place", partitions=4)
traveller = Operator("traveller", partitions=4)


@hotel.register
async def offer(ctx: Context, capacity: int, price: int, stars: int) -> None:
    """Open."""
    ctx.put(Stock(capacity, price, stars))


flight.register(offer)


@hotel.register
async def read_place(ctx: Context) -> list[int]:
    """Capacity, price, stars, booked."""
    stock: Stock = ctx.get()
    return [stock.capacity, stock.price, stock.stars, stock.booked]


flight.register(read_place)


async def _book(ctx: Context, full: type[Exception]) -> int:
    stock: Stock = ctx.get()
    if stock.booked >= stock.capacity:
        raise full(ctx.key)
    stock.booked += 1
    ctx.put(stock)
    return stock.price


@hotel.register
async def book_room(ctx: Context) -> int:
    """One more guest; gives the price."""
    return await _book(ctx, NoRoom)


@flight.register
async def book_seat(ctx: Context) -> int:
    """One more passenger; gives the price."""
    return await _book(ctx, NoSeat)


@place.register
async def settle(ctx: Context, hotels: list[str]) -> None:
    """Which hotels are here."""
    ctx.put(hotels)


@place.register
async def search(ctx: Context) -> list[str]:
    """Hotels here with a free room, the cheapest first."""
    found = [(await ctx.call(hotel, key, read_place), key) for key in ctx.get([])]
    return [key for (capacity, _, _, booked), key in sorted(found, key=lambda one: one[0][1]) if booked < capacity]


@place.register
async def recommend(ctx: Context) -> str:
    """The hotel here with the most stars."""
    found = [(await ctx.call(hotel, key, read_place), key) for key in ctx.get([])]
    return max((shown[2], key) for shown, key in found)[1]


@traveller.register
async def join(ctx: Context, password: str) -> None:
    """A new traveller."""
    ctx.put({"password": password, "trips": []})


@traveller.register
async def log_in(ctx: Context, password: str) -> bool:
    """Whether the password is right; else it is an error."""
    if ctx.get()["password"] != password:
        raise WrongPassword(ctx.key)
    return True


@traveller.register
async def reserve(ctx: Context, room_in: str, seat_on: str) -> int:
    """Both or none; gives the price."""
    price = await ctx.call(hotel, room_in, book_room) + await ctx.call(flight, seat_on, book_seat)
    state = ctx.get()
    state["trips"].append([room_in, seat_on])
    ctx.put(state)
    return price


@traveller.register
async def trips(ctx: Context) -> list[list[str]]:
    """The booked items."""
    return ctx.get()["trips"]


program = Program("travel", [hotel, flight, place, traveller], errors=[NoRoom, NoSeat, WrongPassword])


def _price(number: int) -> int:
    return 50 + number * 7 % 100


def load(shape: WorkloadShape) -> list[WireRequest]:
    """As many hotels as flights and travellers."""
    made: list[WireRequest] = []
    for n in range(shape.size):
        stars = n * 3 % 5
        made.append(WireRequest(f"load-h{n}", "hotel", f"h{n}", "offer", [ROOMS, _price(n), stars]))
        made.append(WireRequest(f"load-f{n}", "flight", f"f{n}", "offer", [SEATS, _price(n + 1), 0]))
        made.append(WireRequest(f"load-t{n}", "traveller", f"t{n}", "join", [f"secret {n}"]))
    for first in range(0, shape.size, CELL):
        near = [f"h{n}" for n in range(first, min(first + CELL, shape.size))]
        made.append(WireRequest(f"load-p{first // CELL}", "place", f"p{first // CELL}", "settle", [near]))
    return made


def requests(shape: WorkloadShape, first: int, count: int, *, booking: float) -> list[WireRequest]:
    """A share of ``booking``; of the others 60 search, 39 recommend and one logs in, now and then wrongly."""
    draws = Draws(shape.seed, first, count)
    columns = zip(
        draws.share(0),
        draws.below(1, shape.size),
        draws.zipf(2, shape.size, shape.zipf),
        draws.zipf(3, shape.size, shape.zipf),
        draws.below(4, 100),
        strict=True,
    )
    made = []
    for n, (share, who, where, by, kind) in enumerate(columns):
        name = f"{shape.seed}-{first + n}"
        if share < booking:
            made.append(WireRequest(name, "traveller", f"t{who}", "reserve", [f"h{where}", f"f{by}"]))
        elif kind == 99:
            password = f"secret {who}" if share < 0.9 else "guess"
            made.append(WireRequest(name, "traveller", f"t{who}", "log_in", [password]))
        else:
            function = "search" if kind < 60 else "recommend"
            made.append(WireRequest(name, "place", f"p{where // CELL}", function))
    return made


def check(shape: WorkloadShape, history: RequestHistory, send: Send) -> list[str]:
    """Nothing is overbooked, and hotels, flights and travellers agree with the replies."""
    booked: dict[str, int] = {}
    expected: dict[str, list[list[str]]] = {}
    wrong: list[str] = []
    for request, price in history.committed("reserve"):
        room_in, seat_on = request.args
        booked[room_in] = booked.get(room_in, 0) + 1
        booked[seat_on] = booked.get(seat_on, 0) + 1
        expected.setdefault(request.key, []).append([room_in, seat_on])
        due = _price(int(room_in[1:])) + _price(int(seat_on[1:]) + 1)
        wrong += different(f"the price of {request.id}", price, due)
    numbers = range(shape.size)
    reads = [WireRequest(f"read-h{n}", "hotel", f"h{n}", "read_place") for n in numbers]
    reads += [WireRequest(f"read-f{n}", "flight", f"f{n}", "read_place") for n in numbers]
    reads += [WireRequest(f"trips-{n}", "traveller", f"t{n}", "trips") for n in numbers]
    found: dict[str, Any] = send(reads)
    for n in numbers:
        for key in (f"h{n}", f"f{n}"):
            capacity, _, _, taken = found[f"read-{key}"]
            wrong += different(f"the bookings of {key}", taken, booked.get(key, 0))
            if taken > capacity:
                wrong.append(f"{key} is overbooked: {taken} of {capacity}")
        wrong += different(f"the trips of t{n}", sorted(found[f"trips-{n}"]), sorted(expected.get(f"t{n}", [])))
    return wrong + _full(history, booked)


def _full(history: RequestHistory, booked: dict[str, int]) -> list[str]:
    """No reply reports that something is full which is not."""
    refused = {
        outcome.arguments[0]: SEATS if outcome.kind == "NoSeat" else ROOMS
        for outcome in history.outcomes.values()
        if getattr(outcome, "kind", "") in ("NoRoom", "NoSeat")
    }
    return [
        f"{key} was called full, with {booked.get(key, 0)} of {capacity} booked in the end"
        for key, capacity in sorted(refused.items())
        if booked.get(key, 0) < capacity
    ]


def _workload(name: str, booking: float, size: int) -> BenchWorkload:
    return BenchWorkload(
        name=name,
        program=program,
        reference="transactional.workloads.travel:program",
        size=size,
        counts="hotels, and as many flights and travellers",
        load=load,
        requests=partial(requests, booking=booking),
        check=check,
        expected_aborts=("NoRoom", "NoSeat", "WrongPassword"),
    )


workloads = [_workload("travel", 0.005, 500), _workload("travel-busy", 0.5, 500)]
