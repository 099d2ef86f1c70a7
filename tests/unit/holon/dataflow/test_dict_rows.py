"""Rows that are dicts: columns of their keys, and the dicts of Python wherever somebody sees one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypedDict

import msgspec
import pytest

from holon import Context, Job, Json, ProcessingFunction, Source
from holon.dataflow import Flow, FlowError, Stream, Tumbling
from holon.dataflow.record_functions.followed import followed_sources
from holon.testing import JobTestDriver, run_job


class Item(msgspec.Struct):
    price: float


class Sale(msgspec.Struct):
    user: str
    price: float
    n: int
    items: list[Item] = []


class Total(TypedDict):
    user: str
    total: float


SALES = [Sale("ab"[n % 2], n * 0.5, n, [Item(float(n))] * (n % 3)) for n in range(8)]


def built(build: Callable[[Stream[Sale]], Any], on_error: Any = "fail") -> Flow:
    flow = Flow("dicts", on_error=on_error)
    build(flow.source("sales", Json(Sale), time=lambda r: 5))
    return flow


def hows(flow: Flow) -> list[str]:
    return [step.how for step in flow.explain() if step.how]


def rows_of(build: Callable[[Stream[Sale]], Any], *, by_columns: bool = True) -> list[Any]:
    """The rows of the sink; all steps go by columns, or some do not."""
    flow = built(build)
    assert all(how == "columns" for how in hows(flow)) == by_columns, hows(flow)
    return flow.collect({"sales": SALES})


def total(sale: Sale) -> dict[str, Any]:
    return {"user": sale.user, "total": sale.price * sale.n}


def assigned(sale: Sale) -> dict[str, Any]:
    made: dict[str, Any] = {"user": sale.user}
    made["n"] = sale.n
    if sale.n > 5:
        made["many"] = True
    made.update(price=sale.price)
    return made


def renamed(sale: Sale) -> Total:
    return Total(user=sale.user.upper(), total=sale.price)


@pytest.mark.parametrize("function", [total, assigned, renamed, lambda s: {"user": s.user} | {"n": s.n}])
def test_rows_are_the_dicts_of_python(function: Callable[[Sale], Any]) -> None:
    found = rows_of(lambda sales: sales.map(function).sink("out"))
    assert found == list(map(function, SALES)) and list(map(list, found)) == [list(function(s)) for s in SALES]


STEPS: list[Callable[[Any], Any]] = [
    lambda r: r["user"].upper(),
    lambda r: (r.get("user"), r.get("none"), r.get("none", 3), "user" in r, "none" in r, len(r)),
    lambda r: {**r, "more": r["total"] + 1},
    lambda r: r | {"total": 0},
    lambda r: [r["user"], r["total"]][0],
    lambda r: (r, r == {"user": "a", "total": 2.0}),
    lambda r: {"whole": r, "empty": [], "keys": {"of": {"dicts": r["total"]}}},
    lambda r: r["total"] if r["user"] == "a" and r["total"] > 1 else r["user"],
    lambda r: max(len(key) for key in r),
]


@pytest.mark.parametrize("step", STEPS)
def test_later_functions_read_keys_as_columns(step: Callable[[Any], Any]) -> None:
    found = rows_of(lambda sales: sales.map(total).map(lambda r: (0, step(r))).sink("out"))
    assert msgspec.json.encode(found) == msgspec.json.encode([[0, step(total(sale))] for sale in SALES])


def test_all_verbs_take_dicts() -> None:
    def build(sales: Stream[Sale]) -> None:
        kept = sales.map(total).filter(lambda r: r["total"] > 0)
        sums = (
            kept.key_by(lambda r: r["user"])
            .window(Tumbling(10))
            .agg(lambda g: {"user": g.key, "sum": g.sum(lambda r: r["total"]), "n": g.count()})
        )
        again = sums.key_by(lambda r: r["n"]).window(Tumbling(100))
        again.agg(lambda g: {"n": g.key, "most": g.max(lambda r: r["sum"])}).sink("out", key=lambda r: r["n"])

    assert rows_of(build) == [{"n": 3, "most": 28.0}, {"n": 4, "most": 42.0}]


def test_ways_that_give_the_same_keys_are_one_type_of_rows() -> None:
    def either(sale: Sale) -> dict[str, Any]:
        return {"key": sale.user, "size": 1} if sale.n > 3 else {"key": sale.n, "size": sale.price}

    found = rows_of(lambda sales: sales.map(either).map(lambda r: (r["key"], r["size"])).sink("out"))
    assert found == [list(either(sale).values()) for sale in SALES]
    both = rows_of(
        lambda sales: (
            sales.map(lambda s: {"key": s.user})
            .union(sales.map(lambda s: {"key": s.n}))
            .map(lambda r: r["key"] * 2)
            .sink("out")
        )
    )
    assert both == [key * 2 for sale in SALES for key in (sale.user, sale.n)]


def test_a_value_that_is_of_several_types_has_none_that_is_known() -> None:
    flow = built(
        lambda sales: (
            sales.map(lambda s: {"key": s.user} if s.n > 3 else {"key": s.n})
            .map(lambda r: r["key"].upper())
            .sink("out")
        )
    )
    assert hows(flow)[1].startswith("row by row: it uses the attribute 'upper'")


@pytest.mark.parametrize(
    "function",
    [
        lambda s: {"a": s.n} if s.n > 3 else {"b": s.n},
        lambda s: {"a": s.n, "b": 1} if s.n > 3 else {"b": 1, "a": s.n},
    ],
)
def test_ways_that_give_other_keys_or_another_order_give_dicts_to_functions(function: Callable[[Sale], Any]) -> None:
    found = rows_of(lambda sales: sales.map(function).map(lambda r: (list(r),)).sink("out"), by_columns=False)
    assert found == [[list(function(sale))] for sale in SALES]


def test_rows_that_are_left_out_or_several_are_dicts_too() -> None:
    kept = rows_of(lambda sales: sales.filter_map(lambda s: {"n": s.n} if s.n > 5 else None).sink("out"))
    assert kept == [{"n": 6}, {"n": 7}]
    flat = rows_of(
        lambda sales: (
            sales.flat_map(lambda s: ({"user": s.user, "price": item.price} for item in s.items))
            .map(lambda r: r["price"])
            .sink("out")
        )
    )
    assert flat == [item.price for sale in SALES for item in sale.items]


def added(row: dict[str, Any]) -> dict[str, Any]:
    row["n"] = row.get("n", 0) + 1
    row.setdefault("seen", []).append(row["n"])
    return row


@pytest.mark.parametrize(
    "function", [lambda s: {}, lambda s: {"n": 1}, lambda s: {"seen": []}, lambda s: {"n": s.n, "seen": [s.price][:0]}]
)
def test_each_row_has_a_dict_of_its_own(function: Callable[[Sale], Any]) -> None:
    """A function that is called changes what it is given: no other row sees that. One list was the list of all."""
    found = rows_of(lambda sales: sales.map(function).map(added).sink("out"), by_columns=False)
    assert found == [added(function(sale)) for sale in SALES]


def test_structs_have_lists_of_their_own_too() -> None:
    class Made(msgspec.Struct):
        seen: list[int]

    def change(row: Made) -> list[int]:
        row.seen.append(1)
        return row.seen

    found = rows_of(lambda sales: sales.map(lambda s: Made([])).map(change).sink("out"), by_columns=False)
    assert found == [[1]] * len(SALES)


def test_a_filter_that_changes_dicts_hands_these_on() -> None:
    def raised(row: dict[str, Any]) -> bool:
        row["n"] += 1
        return row["n"] > 2

    flow = built(lambda sales: sales.map(lambda s: {"n": s.n}).filter(raised).map(lambda r: r["n"]).sink("out"))
    assert hows(flow)[1].startswith("row by row: it changes a row that it is given (test_dict_rows.py:")
    assert flow.collect({"sales": SALES}) == [3, 4, 5, 6, 7, 8]


def test_a_filter_that_takes_a_key_out_hands_dicts_without_it_on() -> None:
    def popped(row: dict[str, Any]) -> bool:
        return row.pop("n") > 2

    found = rows_of(
        lambda sales: sales.map(lambda s: {"n": s.n, "user": s.user}).filter(popped).sink("out"), by_columns=False
    )
    assert found == [{"user": sale.user} for sale in SALES if sale.n > 2]


def test_joins_of_dicts_and_keys_that_are_no_names_are_named() -> None:
    with pytest.raises(FlowError, match="it keeps the columns of Structs; put a map to one before it"):
        built(
            lambda sales: (
                sales.map(total).key_by(lambda r: r["user"]).window(Tumbling(10)).join(sales.key_by(lambda s: s.user))
            )
        )
    flow = built(lambda sales: sales.map(lambda s: {"a b": s.n}).sink("out"))
    assert hows(flow) == ["row by row: it gives a dict of expressions whose keys are no names"]


def helped(made: dict[str, Any], item: Item) -> None:
    made.update(last=item.price)


def looping(sale: Sale) -> float:
    made: dict[str, Any] = {"last": 0}
    for item in sale.items:
        helped(made, item)
    return made["last"] * max(item.price for item in sale.items)


def test_dicts_that_turns_of_a_loop_change_are_left_to_python() -> None:
    flow = built(lambda sales: sales.filter(lambda s: len(s.items) > 0).map(looping).sink("out"))
    assert "it may change a dict or list beside a loop, or one of its caller (test_dict_rows.py:" in hows(flow)[1]
    assert flow.collect({"sales": SALES}) == [looping(sale) for sale in SALES if sale.items]


class Marks(ProcessingFunction[Sale]):
    def noted(self, made: dict[str, Any], item: Item) -> None:
        made["last"] = item.price

    def process(self, event: Sale, ctx: Context) -> None:
        made: dict[str, Any] = {"last": 0, "n": event.n}
        for item in event.items:
            self.noted(made, item)
            ctx.emit(item.price)
        ctx.emit(made)


def test_dicts_that_methods_change_are_left_to_python() -> None:
    job = Job("marks", Source("sales", Json(Sale), timestamp=lambda r: 5), Marks, output="out")
    (found,) = followed_sources(job)
    assert "it may change a dict or list beside a loop, or one of its caller" in found.why_not
    lasts = [sale.items[-1].price if sale.items else 0 for sale in SALES]
    expected = [
        one
        for sale, last in zip(SALES, lasts, strict=True)
        for one in (*(item.price for item in sale.items), {"last": last, "n": sale.n})
    ]
    assert run_job(job, {"sales": SALES * 20}) == expected * 20


FAILING: list[tuple[Callable[[Any], Any], str]] = [
    (lambda r: r["none"], "KeyError: 'none'"),
    (lambda r: r.user, "AttributeError: 'dict' object has no attribute 'user'"),
    (lambda r: 1 / r["n"], "ZeroDivisionError: division by zero"),
    (lambda r: r["user"] + r["n"], "TypeError: can only concatenate str"),
]


@pytest.mark.parametrize(("function", "reason"), FAILING)
@pytest.mark.parametrize("of", [lambda function: function, partial])
def test_rows_that_fail_are_the_dead_letters_of_python(function: Any, reason: str, of: Any) -> None:
    flow = built(lambda sales: sales.map(of(lambda s: {"user": s.user, "n": s.n - 3})).map(function).sink("out"),
                 "dead-letter")  # fmt: skip
    test = JobTestDriver(flow.job)
    test.feed(0, *SALES)
    test.finish()
    failing = [3] if "Zero" in reason else list(range(8))
    assert [letter["offset"] for letter in test.dead()] == failing
    assert all(f"raised {reason}" in letter["reason"] or reason in letter["reason"] for letter in test.dead())
    assert len(test.outputs()) == 8 - len(failing)
