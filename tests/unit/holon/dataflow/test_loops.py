"""Loops over lists and words of a record go by columns of items, with what Python gives record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holon import Context
from holon.dataflow.record_functions.followed import followed_sources
from tests.unit.holon.dataflow.followed_records import check_by_columns, job_of, record

pytestmark = pytest.mark.usefixtures("loops_installed")


def _item(sku: str, price: float, count: int, **fields: Any) -> dict[str, Any]:
    return {"sku": sku, "price": price, "count": count} | fields


TEXTS = ["", "The cat  and\tthe", "dog", "\u00dcber \u00a0 alles", "a b c d e f", "x\u3000y", " "]
ITEMS = [
    [],
    [_item("a", 1.5, 2)],
    [_item("b", 0.1, 3, note="x", marks=[1, 2]), _item("a", -0.0, 0, note=None), _item("c", 1e308, 7, marks=[5])],
    [_item("c", 1e16, 1), _item("c", 1.0, 1), _item("c", -1e16, 1, note="")],
]
RECORDS = [
    record(
        place,
        a=place % 4,
        t=TEXTS[place % 7],
        items=ITEMS[place % 4],
        nums=list(range(place % 3)),
        tags=["w", "app", "w"][: place % 4],
        floats=[0.1] * (place % 5),
        n=place % 3 or None,
        g={name: len(name) + place % 4 for name in ["a", "bc", ""][: place % 4]},
    )
    for place in range(60)
]


def _words(self: Any, event: Any, ctx: Context) -> None:
    for word in event.t.lower().split():
        self.sums.insert((word, 1), event.ts)


def _parts(self: Any, event: Any, ctx: Context) -> None:
    for part in event.t.split(" "):
        self.sums.insert((part.upper(), len(part)), event.ts)


def _items(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        self.sums.insert((item.sku, item.price * item.count), event.ts)
        self.count.insert(item.count, event.ts + item.count)


def _conditions(self: Any, event: Any, ctx: Context) -> None:
    self.seen.insert("begin", event.ts)
    if event.a > 0:
        for item in event.items:
            value = item.price * event.x
            if item.count == 0:
                continue
            if item.sku == "a" or value > 1.0:
                self.sums.insert((item.sku, value), event.ts)
            else:
                self.sums.insert((event.t, value), event.ts)
    self.seen.insert("end", event.ts)


def _in_order(self: Any, event: Any, ctx: Context) -> None:
    self.tags.insert(("add", "first"), event.ts)
    for tag in event.tags:
        self.tags.insert(("remove", tag), event.ts)
        if event.a > 1:
            self.tags.insert(("add", tag), event.ts)
    for number in event.nums:
        self.tags.insert(("remove" if number else "add", "first"), event.ts)
    self.tags.insert(("add", "last"), event.ts)


def _nested(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        for mark in item.marks:
            for other in event.items:
                self.boxes.insert((other.sku, (mark, item.count, other.price)), event.ts)


def _nones(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        if item.note is None:
            self.seen.insert(item.sku, event.ts)
        elif item.note:
            self.seen.insert((item.note, item.sku)[0], event.ts)


def _emits(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        ctx.emit({"sku": item.sku, "count": item.count, "text": f"{item.sku}/{event.a:02d}"})


def _emits_twice(self: Any, event: Any, ctx: Context) -> None:
    ctx.emit((event.t, 0))
    for item in event.items:
        ctx.emit((item.sku, 1))
        if item.count > 1:
            ctx.emit({"sku": item.sku}, key=item.sku)
    ctx.emit((event.t, 2))


def _tries(self: Any, event: Any, ctx: Context) -> None:
    for tag in event.t.split():
        try:
            value = int(tag)
        except ValueError:
            value = 7
        self.sums.insert((tag, value), event.ts)


def _formatted_before(self: Any, event: Any, ctx: Context) -> None:
    key = f"{event.t}:{event.a:02d}"
    rate = event.x / 2
    for item in event.items:
        self.sums.insert((key, item.price * rate), event.ts)


def _unrolled(self: Any, event: Any, ctx: Context) -> None:
    for name, value in (("a", event.a), ("x", event.x)):
        self.sums.insert((name, value), event.ts)


class _Helps:
    def shown(self, item: Any, event: Any) -> Any:
        return item.count + event.a


def helped(item: Any, event: Any) -> Any:
    if item.count > 2:
        return event.t
    return item.sku


def _calls(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        self.seen.insert(helped(item, event), event.ts)


def _pairs(self: Any, event: Any, ctx: Context) -> None:
    for name, value in event.g.items():
        if value > 2:
            self.sums.insert((f"{event.t}/{name}", value), event.ts)
        self.sums.insert((name.upper(), value * event.a), event.ts)
    for pair in event.g.items():
        self.sums.insert(pair, event.ts)


def _keys_and_values(self: Any, event: Any, ctx: Context) -> None:
    for name in event.g.keys():  # noqa: SIM118 (that is the case)
        self.seen.insert(name, event.ts)
    self.count.insert(sum(value for value in event.g.values()), event.ts)
    self.count.insert(sum(len(name) * value for name, value in event.g.items()), event.ts)
    if any(name == "a" for name in event.g.keys()):  # noqa: SIM118
        self.seen.insert(event.t, event.ts)


FOLLOWED = [_pairs, _keys_and_values,
            _words, _parts, _items, _conditions, _in_order, _nested, _nones, _emits, _emits_twice, _tries,
            _formatted_before, _unrolled, _calls]  # fmt: skip


@pytest.mark.parametrize("process", FOLLOWED)
@pytest.mark.parametrize("cuts", [(), (1, 7, 30)])
def test_items_go_by_columns_in_the_order_of_python(process: Callable[..., Any], cuts: tuple[int, ...]) -> None:
    found = check_by_columns(job_of(process), RECORDS, cuts)
    assert found["ways"].count(True) >= 2 and "error" not in found


def _fails_in_the_middle(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        self.seen.insert(item.sku, event.ts)
        self.sums.insert((item.sku, 6 // item.count), event.ts)


def _fails_before(self: Any, event: Any, ctx: Context) -> None:
    part = 6 // event.a
    for item in event.items:
        self.sums.insert((item.sku, part), event.ts)


def _fails_at_an_unused_format(self: Any, event: Any, ctx: Context) -> None:
    key = f"{event.n:02d}"
    for item in event.items:
        self.sums.insert((key, item.count), event.ts)


def _fails_at_an_unused_value(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        part = event.n // item.count
        if item.sku == "a":
            continue
        self.sums.insert((item.sku, part), event.ts)


def _fails_at_none(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        self.seen.insert(item.sku, event.ts)
        if event.n is not None:
            self.seen.insert(item.note.upper(), event.ts)


def _fails_at_another_error(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        try:
            value = event.g[item.sku]
        except ZeroDivisionError:
            value = 1
        self.sums.insert((item.sku, value), event.ts)


def _fails_at_none_of_a_sum(self: Any, event: Any, ctx: Context) -> None:
    total = sum(len(item.note) for item in event.items if event.n is not None and item.count != 7)
    self.sums.insert((event.t, total), event.ts)


def _inserts_a_wrong_element(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        self.count.insert(item.count - 1, event.ts)


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
@pytest.mark.parametrize(
    "process",
    [
        _fails_in_the_middle,
        _fails_before,
        _fails_at_an_unused_format,
        _fails_at_an_unused_value,
        _fails_at_none,
        _fails_at_another_error,
        _fails_at_none_of_a_sum,
        _inserts_a_wrong_element,
    ],
)
def test_a_record_that_fails_at_an_item_leaves_what_it_leaves_alone(process: Any, policy: Any) -> None:
    found = check_by_columns(job_of(process, policy), RECORDS)
    assert ("error" in found) == (policy == "fail")
    if policy == "dead-letter":
        assert found["counts"].dead


@pytest.mark.parametrize("process", [_fails_at_none, _fails_at_another_error, _fails_at_none_of_a_sum])
def test_turns_that_may_raise_are_known_by_their_conditions(process: Any) -> None:
    right = [record(place, items=[_item("a", 1.0, 1, note="x")] * (place % 3), g={"a": place}) for place in range(20)]
    assert all(check_by_columns(job_of(process), right)["ways"])


def _collects(self: Any, event: Any, ctx: Context) -> None:
    found = []
    for item in event.items:
        found.append(item.sku)
    self.count.insert(len(found), event.ts)


def _fills(self: Any, event: Any, ctx: Context) -> None:
    found: dict[str, int] = {}
    for item in event.items:
        found.update({"a": item.count})
    self.count.insert(found["a"], event.ts)


def _goes_over_a_text(self: Any, event: Any, ctx: Context) -> None:
    for letter in event.t:
        self.seen.insert(letter, event.ts)


def _joins(self: Any, event: Any, ctx: Context) -> None:
    self.seen.insert(event.t.join("a" for _ in event.tags), event.ts)


def _within_try(self: Any, event: Any, ctx: Context) -> None:
    try:
        for tag in event.tags:
            self.count.insert(int(tag), event.ts)
    except ValueError:
        self.count.insert(1, event.ts)


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (_collects, "it makes a list or set beside a loop"),
        (_fills, "it may change a dict beside a loop"),
        (_goes_over_a_text, "a loop over a str"),
        (_joins, "the attribute 'join'"),
        (_within_try, "it has a loop within try"),
    ],
)
def test_a_loop_whose_turns_know_each_other_gets_each_record(process: Callable[..., Any], why: str) -> None:
    (found,) = followed_sources(job_of(process))
    assert found.form is None and why in found.why_not
