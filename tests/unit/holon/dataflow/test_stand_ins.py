"""Functions that use ``len``, ``int``, ``float``, ``round`` and ``str`` of fields work on columns."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import msgspec
import pytest

from holon import Json
from holon.columnar.structs.columns import Lists
from holon.dataflow import Flow, Tumbling
from holon.dataflow.following.stand_ins import with_stand_ins
from holon.testing import JobTestDriver

LIMIT = 2


class Click(msgspec.Struct):
    at: int
    page: str
    tags: list[str]
    price: float = 0.0
    note: str | None = None


CLICKS = [
    Click(n, f"p{n % 4}" + "ü" * (n % 3), ["t"] * (n % 5), n / 4 - 3, "n" * n if n % 2 else None) for n in range(40)
]


def size_of(click: Click) -> int:
    return len(click.tags)


def is_long(click: Click) -> bool:
    return size_of(click) > LIMIT or deeper(click)


def deeper(click: Click) -> bool:
    return len(click.page) > 4 and (click.at < 3 or is_short(click))


def is_short(click: Click) -> bool:
    return len(click.page) < 2 and is_long(click)


def closed(over: Callable[[Click], int]) -> Callable[[Click], int]:
    return lambda click: over(click) * 2


def results(flow: Flow) -> list[Any]:
    test = JobTestDriver(flow.job)
    test.feed(0, *CLICKS)
    test.finish()
    return test.outputs()


def mapped(function: Callable[[Click], Any]) -> list[Any]:
    flow = Flow("clicks", columnar=True)
    flow.source("clicks", Json(Click), time=lambda click: click.at).map(function).sink("out")
    return results(flow)


@pytest.mark.parametrize(
    "function",
    [
        lambda c: len(c.tags),
        lambda c: len(c.page),
        lambda c: len(c.page.upper()) + len(c.tags),
        lambda c: str(c.at),
        lambda c: str(c.at * 7).replace("7", "seven"),
        lambda c: str(c.price).startswith("-"),
        lambda c: (int(c.price), round(c.price), round(c.price, 1), float(c.at)),
        lambda c: f"{round(c.price)}:{len(c.tags):03d}",
        lambda c: len(c.note) if c.note is not None else -1,
        lambda c: size_of(c) > LIMIT or len(c.page) < 3,
        closed(size_of),
    ],
)
def test_such_functions_work_on_columns(function: Callable[[Click], Any]) -> None:
    assert mapped(function) == msgspec.json.decode(msgspec.json.encode(list(map(function, CLICKS))))


def test_functions_of_groups_may_use_them() -> None:
    flow = Flow("clicks", columnar=True)
    clicks = flow.source("clicks", Json(Click), time=lambda click: click.at)
    grouped = clicks.key_by(lambda c: len(c.page)).window(Tumbling.of(hours=1))
    grouped.agg(lambda g: (g.key, g.sum(lambda c: len(c.tags)), g.max(lambda c: round(c.price)))).sink("out")
    expected = []
    for length in sorted({len(click.page) for click in CLICKS}):
        some = [click for click in CLICKS if len(click.page) == length]
        expected.append([length, sum(len(c.tags) for c in some), max(round(c.price) for c in some)])
    assert sorted(results(flow)) == expected


def test_a_function_of_the_user_s_that_is_called_len_is_that_one() -> None:
    own = FunctionType(size_of.__code__, {"len": closed})
    assert with_stand_ins(own, {"len": max}) is own


def test_functions_without_them_are_themselves() -> None:
    def plain(click: Click) -> int:
        return click.at + LIMIT

    assert with_stand_ins(plain, {"len": len}) is plain


def test_functions_that_call_each_other_are_replaced_together() -> None:
    assert not is_long(CLICKS[5]) and with_stand_ins(is_long, {"len": lambda _: 7})(CLICKS[5])


def test_lengths_of_lists_that_no_loop_has_read_are_not_known() -> None:
    assert Lists.of("int", 1, [[1], None]).lengths() is None
