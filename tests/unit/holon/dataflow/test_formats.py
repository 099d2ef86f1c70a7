"""Formatted texts in results are followed; code that could see the mark in place of a value is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holon import Json
from holon.dataflow import Flow, Group, Stream, Tumbling
from tests.laws.row_functions import imported

pytestmark = pytest.mark.usefixtures("loops_installed")


class Bid(msgspec.Struct):
    at: int
    auction: int
    price: int
    rate: float
    channel: str


class Shown(msgspec.Struct):
    text: str
    number: int = 0


ROWS = [Bid(n, n % 3, n * 7 - 40, n / 3, "web {}" if n % 5 else "ü") for n in range(50)]


def bids_of(flow: Flow) -> Stream[Bid]:
    return flow.source("bids", Json(Bid), time=lambda b: b.at)


def shown(price: int) -> str:
    return f"{price}"


def named(price: int) -> tuple[str, int]:
    return f"price {price}", 3


TEMPLATE = "price {price}"


def called(method: Callable[..., str], price: int) -> str:
    return method(price=price)


def given(function: Callable[[int], str], price: int) -> bool:
    return function(price) == "3"


def held(bid: Bid) -> tuple[str, str]:
    text = f"{bid.price}"
    text = f"{text}/{bid.channel}"
    return text, text


def held_on_one_way(bid: Bid) -> Shown:
    text = f"{bid.price}" if bid.auction else "none"
    if bid.price > 5:
        text += f"/{bid.auction}"
    return Shown(text, bid.price)


def held_and_compared(bid: Bid) -> bool:
    text = f"{bid.price}" if bid.auction else "none"
    return text == "3"


def inserted_into_a_list(bid: Bid) -> bool:
    texts: list[str] = []
    texts.insert(0, f"{bid.price}")
    return texts[0] == "3"


def into(texts: list[str], bid: Bid) -> list[str]:
    texts.insert(0, f"{bid.price}")
    return texts


def inserted_by_a_function(bid: Bid) -> bool:
    return into([], bid)[0] == "3"


def inserted_into_what_was_an_argument(bid: Any) -> bool:
    price = bid.price
    bid = []
    bid.insert(0, f"{price}")
    return bid[0] == "3"


@pytest.mark.parametrize(
    "function",
    [
        lambda b: f"{b.price:03d} {{of}} {b.channel}",
        lambda b: f"{b.rate:.2f}|{b.price:>6}",
        lambda b: (shown(b.price), Shown(f"{'x' if b.auction else 'y'}{shown(b.auction)}", b.price)),
        lambda b: "even" if b.price % 2 == 0 else shown(divmod(b.price, 3)[1]),
        lambda b: Shown(*named(b.price)),
        lambda b: Shown(text=shown(b.price), number=-divmod(1000, b.price * 2 + 1)[0]),
        lambda b: "{} {{of}} {:>4}".format(b.channel, b.price),  # noqa: UP032 (the method is meant)
        lambda b: Shown(TEMPLATE.format(price=b.price), b.auction),
        lambda b: f"{b.price}" + "/" + shown(b.auction),
        held,
        held_on_one_way,
    ],
)
def test_formatted_texts_of_results_are_followed(function: Callable[[Bid], Any]) -> None:
    flow = Flow("formatted")
    bids_of(flow).map(function, columnar=True).sink("out")
    found = flow.collect({"bids": ROWS})
    assert found == msgspec.json.decode(msgspec.json.encode([function(row) for row in ROWS]))


@pytest.mark.parametrize(
    "function",
    [
        lambda b: f"{b.price}" == "3",
        lambda b: "{}".format(b.price) == "3",  # noqa: UP032 (the method is meant)
        lambda b: len(TEMPLATE.format(price=b.price)),
        lambda b: TEMPLATE.format_map({"price": b.price}) == "price 3",
        lambda b: "{.price}".format(b)[:1],  # noqa: UP032 (the method is meant)
        lambda b: "{}".format(*(b.price,)) == "3",
        lambda b: "{:>9}".format(f"{b.price}"),
        lambda b: (lambda: TEMPLATE.format(price=b.price) == "price 3")(),
        lambda b: called(TEMPLATE.format, b.price) == "price 3",
        lambda b: {f"{b.price}": 1},
        lambda b: (f"{b.price}", f"{b.price}" in "34"),
        lambda b: f"{b.price}"[:1],
        lambda b: Shown(f"{b.price}", 3).text,
        lambda b: shown(b.price).upper(),
        lambda b: (lambda price: f"{price}")(b.price),
        lambda b: (lambda price: shown(price))(b.price) == "3",
        lambda b: given(shown, b.price),
        lambda b: f"{b.price:{b.auction}}",
        lambda b: f"{b.price!r}",
        lambda b: 1 if f"{b.price}" else 2,
        lambda b: Shown(*(shown(b.price), 1)).text == "3",
        lambda b: b.channel.startswith(f"{b.price}"),
        lambda b: f"{b.channel}" and shown(b.price),
        lambda b: {"text": f"{b.price}"}["text"] == "3",
        held_and_compared,
        inserted_into_a_list,
        inserted_by_a_function,
        inserted_into_what_was_an_argument,
    ],
)
def test_texts_that_are_seen_are_not_followed(function: Callable[[Bid], Any]) -> None:
    flow = Flow("seen")
    bids_of(flow).map(function).sink("out")
    how, place = flow.explain()[1].how.rsplit(" (", 1)
    assert how == "row by row: it needs the value itself (a format, a number, an item, a hash)"
    assert place.startswith("test_formats.py:")


def test_a_long_function_may_format() -> None:
    function = imported(f"lambda b: f'{{{' + '.join(['b.price'] * 200)}}}' if b.auction else 'none'")
    flow = Flow("long")
    bids_of(flow).map(function, columnar=True).sink("out")
    assert flow.collect({"bids": ROWS}) == [str(200 * row.price) if row.auction else "none" for row in ROWS]


def unused(bid: Bid) -> int:
    text = f"{bid.channel:d}"  # raises ValueError
    return bid.price if bid else text  # type: ignore[return-value]


def test_a_text_that_is_not_used_may_fail_while_it_is_made() -> None:
    flow = Flow("unused")
    bids_of(flow).map(unused).sink("out")
    assert flow.explain()[1].how == "row by row: a text that it formats is not used"


def test_groups_may_format() -> None:
    def result(g: Group[int, Bid]) -> Shown:
        dear, rest = divmod(g.sum(lambda b: b.price), 100)
        return Shown(f"{g.key}: {dear}.{rest:02d}", g.count())

    flow = Flow("groups", columnar=True)
    bids_of(flow).key_by(lambda b: b.auction).window(Tumbling("1m")).agg(result).sink("out")
    sums = [sum(row.price for row in ROWS if row.auction == key) for key in range(3)]
    expected = [
        {"text": f"{key}: {divmod(s, 100)[0]}.{s % 100:02d}", "number": 17 - key // 2} for key, s in enumerate(sums)
    ]
    assert flow.collect({"bids": ROWS}) == expected


@pytest.mark.parametrize("auctions", [{0, 1, 2}, {1}])
def test_formatted_texts_are_escaped_in_rows_and_read_elsewhere(auctions: set[int]) -> None:
    flow, all_taken = Flow("escaped"), len(auctions) == 3
    shown = bids_of(flow).map(lambda b: Shown(f'"{b.channel}"\t{b.price:03d}\\', b.auction), columnar=True)
    (shown if all_taken else shown.filter(lambda s: s.number == 1)).sink("out", key=lambda s: s.text)
    rows = [msgspec.structs.replace(row, channel=['a"b', "ü", "\n", ""][n % 4]) for n, row in enumerate(ROWS * 2)]
    expected = [{"text": f'"{row.channel}"\t{row.price:03d}\\', "number": row.auction} for row in rows]
    assert flow.collect({"bids": rows}) == [row for row in expected if row["number"] in auctions]


@pytest.mark.parametrize("divisor", [7, -7, 1, -1, 2**62])
def test_the_rest_of_a_division_is_that_of_python(divisor: int) -> None:
    flow = Flow("rest")
    bids_of(flow).map(lambda b: (b.price % divisor, divmod(b.price, divisor)), columnar=True).sink("out")
    prices = [-(2**63) + 1, 2**63 - 1, -1, 0, 1, divisor, -divisor, divisor - 1, *range(-20, 20)]
    rows = [msgspec.structs.replace(ROWS[0], price=price) for price in prices]
    assert flow.collect({"bids": rows}) == [[price % divisor, list(divmod(price, divisor))] for price in prices]
