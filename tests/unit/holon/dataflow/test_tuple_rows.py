"""Rows that are tuples: a column of each part, and the tuples of Python wherever somebody sees one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from holon import Json
from holon.columnar.encoding import FEW
from holon.dataflow import Flow, FlowError, Stream, Tumbling
from holon.testing import JobTestDriver


class Sale(msgspec.Struct):
    user: str
    price: float
    n: int
    items: list[int] = []


SALES = [Sale("ab"[n % 2], n * 0.5, n, [n] * (n % 3)) for n in range(8)]


def built(build: Callable[[Stream[Sale]], Any], on_error: Any = "fail") -> Flow:
    flow = Flow("tuples", on_error=on_error)
    build(flow.source("sales", Json(Sale), time=lambda r: 5))
    return flow


def hows(flow: Flow) -> list[str]:
    return [step.how for step in flow.explain() if step.how]


def parts(sale: Sale) -> tuple[str, float, int]:
    return sale.user, sale.price, sale.n


def either(sale: Sale) -> tuple[Any, int]:
    return (sale.user, 1) if sale.n > 3 else (sale.n, 2)


def unpacked(row: tuple[str, float, int]) -> tuple[str, float]:
    user, *others = row
    price, n = others
    return user.upper(), price * n


STEPS: list[Callable[[Any], Any]] = [
    unpacked,
    lambda t: (t[0].upper(), t[-1], len(t)),
    lambda t: (t, t[1:], t + t[:1]),
    lambda t: (t == ("a", 1.0, 2), t < ("b",), t >= ("a", 1.0)),
    lambda t: (t[0] in t, t.count(2), max(t[1:])),
    lambda t: {"user": t[0], "rest": t[1:]},
]


@pytest.mark.parametrize("step", STEPS)
def test_later_functions_read_parts_as_columns(step: Callable[[Any], Any]) -> None:
    sales = SALES * FEW
    flow = built(lambda rows: rows.map(parts).map(lambda t: (0, step(t))).sink("out"))
    assert hows(flow) == ["columns", "columns"]
    assert msgspec.json.encode(flow.collect({"sales": sales})) == msgspec.json.encode(
        [[0, step(parts(sale))] for sale in sales]
    )


def test_all_verbs_take_tuples() -> None:
    def build(sales: Stream[Sale]) -> None:
        kept = sales.map(parts).filter(lambda t: t[1] > 0).key_by(lambda t: t[0]).window(Tumbling(10))
        sums = kept.agg(lambda g: (g.key, g.count(), g.sum(lambda t: t[1])))
        again = sums.key_by(lambda t: t[1]).window(Tumbling(100))
        again.agg(lambda g: (g.key, g.max(lambda t: t[2]))).sink("out", key=lambda t: t[0])

    flow = built(build)
    assert set(hows(flow)) == {"columns"}
    assert flow.collect({"sales": SALES}) == [[3, 6.0], [4, 8.0]]


def test_ways_that_give_equally_many_parts_are_one_type_of_rows() -> None:
    flow = built(lambda sales: sales.map(either).map(lambda t: (t[0] * 2, t[1] + 1)).sink("out"))
    assert hows(flow) == ["columns", "columns"]
    assert flow.collect({"sales": SALES}) == [[either(sale)[0] * 2, either(sale)[1] + 1] for sale in SALES]
    upper = built(lambda sales: sales.map(either).map(lambda t: t[0].upper()).sink("out"))
    assert hows(upper)[1].startswith("row by row: it uses the attribute 'upper'")


def test_tuples_of_other_lengths_are_values() -> None:
    flow = built(lambda sales: sales.map(lambda s: (s.n,) if s.n > 3 else (s.n, 1)).map(lambda t: t[-1]).sink("out"))
    assert hows(flow)[1].startswith("row by row")
    assert flow.collect({"sales": SALES}) == [1, 1, 1, 1, 4, 5, 6, 7]


def test_streams_of_tuples_are_united() -> None:
    def build(sales: Stream[Sale]) -> None:
        other = sales.map(lambda s: (s.n, 0))
        sales.map(lambda s: (s.user, 1)).union(other).map(lambda t: (t[0] * 2, t[1])).sink("out")

    flow = built(build)
    assert set(hows(flow)) == {"columns"}
    expected = [[sale.n * 2, 0] for sale in SALES] + [[sale.user * 2, 1] for sale in SALES]
    assert sorted(flow.collect({"sales": SALES}), key=repr) == sorted(expected, key=repr)
    mixed = built(lambda sales: sales.map(parts).union(sales.map(lambda s: s.n)).map(lambda t: (t,)).sink("out"))
    assert len(mixed.collect({"sales": SALES})) == 16


def test_rows_that_are_left_out_or_several_are_tuples_too() -> None:
    kept = built(
        lambda sales: sales.filter_map(lambda s: (s.user, s.n) if s.n > 5 else None).map(lambda t: t[1] * 2).sink("out")
    )
    assert hows(kept) == ["columns", "columns"] and kept.collect({"sales": SALES}) == [12, 14]
    flat = built(
        lambda sales: sales.flat_map(lambda s: ((s.user, one) for one in s.items)).map(lambda t: t[1] + 1).sink("out")
    )
    assert hows(flat) == ["columns", "columns"]
    assert flat.collect({"sales": SALES}) == [one + 1 for sale in SALES for one in sale.items]


def test_a_filter_that_changes_parts_hands_these_on() -> None:
    def longer(row: tuple[str, list[int]]) -> bool:
        row[1].append(1)
        return len(row[1]) > 1

    def build(sales: Stream[Sale]) -> None:
        sales.map(lambda s: (s.user, s.items)).filter(longer).map(lambda t: t[1]).sink("out")

    flow = built(build)
    assert hows(flow)[2] == "row by row: its rows are objects"
    assert flow.collect({"sales": SALES}) == [[*sale.items, 1] for sale in SALES if sale.items]


def test_columns_go_on_behind_a_filter_that_is_called_with_constants() -> None:
    flow = built(lambda sales: sales.map(parts).filter(partial(lambda t: t[2] > 5)).map(lambda t: t[0]).sink("out"))
    assert hows(flow)[2] == "columns" and flow.collect({"sales": SALES}) == ["a", "b"]


def test_joins_and_functions_of_columns_name_tuples() -> None:
    with pytest.raises(FlowError, match="put a map to one before it"):
        built(
            lambda sales: (
                sales.map(parts).key_by(lambda t: t[0]).window(Tumbling(10)).join(sales.key_by(lambda s: s.user))
            )
        )
    with pytest.raises(FlowError, match="gives values; put a map to a Struct"):
        built(lambda sales: sales.map(parts).map_columns(dict, Sale))


FAILING: list[tuple[Callable[[Any], Any], str]] = [
    (lambda t: t[5], "IndexError: tuple index out of range"),
    (lambda t: t.user, "AttributeError: 'tuple' object has no attribute 'user'"),
    (lambda t: 1 / (t[2] - 3), "ZeroDivisionError"),
    (lambda t: t[0] + t[2], "TypeError: can only concatenate str"),
]


@pytest.mark.parametrize(("function", "reason"), FAILING)
def test_rows_that_fail_are_the_dead_letters_of_python(function: Any, reason: str) -> None:
    found = []
    for of in (lambda one: one, partial):
        flow = built(lambda sales, of=of: sales.map(of(parts)).map(of(function)).sink("out"), "dead-letter")
        test = JobTestDriver(flow.job)
        test.feed(0, *SALES)
        test.finish()
        assert all(reason in letter["reason"] for letter in test.dead())
        found.append((test.raw_outputs("out"), [letter["offset"] for letter in test.dead()]))
    assert found[0] == found[1] and found[0][1] == ([3] if "Zero" in reason else list(range(8)))


EMPTY: list[tuple[Callable[[Stream[Sale]], Any], list[Any]]] = [
    (lambda sales: sales.map(lambda s: ()), [[]] * 3),
    (lambda sales: sales.map(lambda s: ((), s.n)).map(lambda t: (t[0], t[1] + 1)), [[[], 1], [[], 2], [[], 3]]),
    (lambda sales: sales.map(lambda s: () if s.n else (s.n,)), [[0], [], []]),
    (lambda sales: sales.map(lambda s: ()).filter(lambda t: t == ()).map(lambda t: len(t)), [0] * 3),
    (lambda sales: sales.flat_map(lambda s: [(), (s.n,)]), [[], [0], [], [1], [], [2]]),
    (lambda sales: sales.map(lambda s: {"a": ()}).map(lambda d: d["a"]), [[]] * 3),
    (lambda sales: sales.key_by(lambda s: ()).window(Tumbling(10)).agg(lambda g: (g.key, g.count())), [[[], 3]]),
    (lambda sales: sales.key_by(lambda s: s.n).window(Tumbling(10)).agg(lambda g: ()), [[]] * 3),
]


@pytest.mark.parametrize(("build", "results"), EMPTY)
def test_a_tuple_without_parts_is_a_row_and_a_part_of_one(build: Callable[[Stream[Sale]], Any], results: Any) -> None:
    """Columns of no parts have no length: such rows were lost, or failed."""
    assert built(lambda sales: build(sales).sink("out")).collect({"sales": SALES[:3]}) == results


def test_an_aggregate_that_groups_do_not_have_is_named_with_those_that_they_have() -> None:
    with pytest.raises(FlowError, match="a group has no 'avg'; it has count, distinct, final, fold, key, max, mean"):
        built(lambda sales: sales.key_by(lambda s: s.n).window(Tumbling(10)).agg(lambda g: g.avg(lambda s: s.n)))
