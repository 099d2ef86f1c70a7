"""Loops that a turn leaves (``break``, ``return``) go by columns, with what Python gives record by record."""

from __future__ import annotations

from typing import Any

import pytest

from holon import Context
from holon.dataflow.following.loops import carrying, ends
from holon.dataflow.record_functions.followed import followed_sources
from tests.unit.holon.dataflow.followed_records import check_by_columns, job_of, record

pytestmark = pytest.mark.usefixtures("loops_installed")

PRICES = [0.1, 0.2, 1e16, 1.0, -1e16, 0.3, -0.0]
RECORDS = [
    record(
        place,
        a=place % 4,
        f=place % 3 > 0,
        n=place % 5 or None,
        t=["the cat", "", "a b c", "dog 7"][place % 4],
        items=[
            {"sku": "abc"[(place + n) % 3], "price": PRICES[(place * n) % 7], "count": (place * n + n) % 5 - 1,
             "note": [None, "", "x"][(place + n) % 3], "marks": list(range((place + n) % 4))}
            for n in range(place % 6)
        ],
        tags=["7", "x", "8", "a"][place % 3 : place % 5],
        nums=[2**62, 2**62, -1, 3][: place % 5],
        g={"a": place % 7, "b": 1},
    )
    for place in range(90)
]  # fmt: skip


def _breaks(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        if item.count > 1:
            break
        self.seen.insert(item.sku, event.ts)


def _returns(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        if item.count > 1:
            return
        self.seen.insert(item.sku, event.ts)
    self.seen.insert("end", event.ts)


def _finds(self: Any, event: Any, ctx: Context) -> None:
    hit = None
    for item in event.items:
        if item.price > 0.15:
            hit = item
            break
    if hit is not None:
        self.sums.insert((hit.sku, hit.count), event.ts)
    ctx.emit((event.t, None if hit is None else hit.price))


def _else(self: Any, event: Any, ctx: Context) -> None:
    for tag in event.tags:
        if tag == "x":
            ctx.emit("found")
            break
    else:
        ctx.emit("none")
    self.seen.insert("end", event.ts)


def _inserts_before(self: Any, event: Any, ctx: Context) -> None:
    """Inserts of turns, of the one that leaves, of the code that leaves, and of the code behind."""
    self.tags.insert(("add", "begin"), event.ts)
    for item in event.items:
        self.tags.insert(("remove", item.sku), event.ts)
        ctx.emit((item.sku, item.count))
        if item.count == 2:
            self.tags.insert(("add", item.sku), event.ts)
            ctx.emit("left")
            break
        self.tags.insert(("add", "begin"), event.ts)
    self.tags.insert(("remove", "begin"), event.ts)
    ctx.emit("end")


def _hands_on(self: Any, event: Any, ctx: Context) -> None:
    total, number, last = 0, 0, "none"
    for item in event.items:
        if item.count > 2:
            last = item.sku
            break
        total += item.price
        number += 1
    self.sums.insert((last, total), event.ts)
    ctx.emit((total, number, last))


def _adds_up_to(self: Any, event: Any, ctx: Context) -> None:
    """The condition asks for what turns hand on, and so does the code behind."""
    total = 0
    for item in event.items:
        total += item.count
        if total > event.a:
            ctx.emit(("over", total))
            break
    else:
        ctx.emit(("under", total))
    ctx.emit(total)


def _inner(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        for mark in item.marks:
            if mark > item.count:
                self.sums.insert((item.sku, mark), event.ts)
                break
            self.count.insert(1, event.ts)
        else:
            self.seen.insert(item.sku, event.ts)
        ctx.emit((item.sku, event.a))


def _inner_hands_on(self: Any, event: Any, ctx: Context) -> None:
    total, found = 0, -1
    for item in event.items:
        for mark in item.marks:
            if mark >= item.count:
                found = mark
                break
            total += mark
        total += item.count
        if total > 6:
            break
    ctx.emit((total, found))


def _returns_from_both(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        for mark in item.marks:
            if mark == event.a:
                self.sums.insert((item.sku, mark), event.ts)
                return
        ctx.emit(item.sku)
    self.seen.insert("end", event.ts)


def _one_behind_the_other(self: Any, event: Any, ctx: Context) -> None:
    first, second = "none", "none"
    for item in event.items:
        if item.count > 0:
            first = item.sku
            break
    for tag in event.tags:
        if tag == first or tag == "x":
            second = tag
            break
        ctx.emit((first, tag))
    ctx.emit((first, second))


def _within_the_left(self: Any, event: Any, ctx: Context) -> None:
    """Loops and reductions behind one that was left, of its item."""
    for item in event.items:
        if item.marks:
            for mark in item.marks:
                self.sums.insert((item.sku, mark), event.ts)
            ctx.emit((sum(item.marks), max(mark + item.count for mark in item.marks), item.sku))
            break


def _nones(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        if item.note is None:
            if event.n is None:
                break
            ctx.emit((item.sku, event.n))
            return
        ctx.emit(item.note)
    ctx.emit(event.n if event.n is not None else -1)


def _counted(self: Any, event: Any, ctx: Context) -> None:
    at = -1
    for place, (item, tag) in enumerate(zip(event.items, event.tags)):  # noqa: B905
        if tag == item.sku or item.count > 2:
            at = place
            break
    ctx.emit(at)


def _ranges(self: Any, event: Any, ctx: Context) -> None:
    for number in range(event.a + 2):
        if number * number > event.ts % 7:
            ctx.emit(number)
            break
        self.count.insert(1, event.ts)


def _strict(self: Any, event: Any, ctx: Context) -> None:
    """The lists differ in length where no turn leaves the loop before it shows, too."""
    for item, one in zip(event.items, event.nums, strict=True):
        if item.count >= 0:
            ctx.emit((item.sku, one))
            break


def _pairs(self: Any, event: Any, ctx: Context) -> None:
    for name, value in event.g.items():
        if value > 3:
            self.sums.insert((name, value), event.ts)
            return
    ctx.emit(event.a)


def _at_the_first(self: Any, event: Any, ctx: Context) -> None:
    for item in event.items:
        ctx.emit((item.sku, item.price))
        break


def _words(self: Any, event: Any, ctx: Context) -> None:
    for word in event.t.lower().split():
        if word.isdigit() or len(word) == 1:
            self.seen.insert(word, event.ts)
            break


def _does_not_reach(self: Any, event: Any, ctx: Context) -> None:
    """Some items behind the one that leaves would fail."""
    for item in event.items:
        if item.count > 1:
            break
        self.sums.insert((item.sku, 6 // (item.count - 2)), event.ts)
    for number in event.nums:
        if number < 0:
            break
        if 6 // (number - 3) >= 0:
            ctx.emit(number)


def _tries(self: Any, event: Any, ctx: Context) -> None:
    found = -1
    for tag in event.tags:
        try:
            found = int(tag)
        except ValueError:
            continue
        if found > 7:
            break
    ctx.emit(found)


def _breaks_in_except(self: Any, event: Any, ctx: Context) -> None:
    total = 0
    for tag in event.tags:
        try:
            total += int(tag)
        except ValueError:
            break
    ctx.emit(total)


def _cheap(items: Any, limit: Any) -> Any:
    for item in items:
        if item.price < limit:
            return item.sku
    return None


def _calls(self: Any, event: Any, ctx: Context) -> None:
    found = _cheap(event.items, event.x)
    if found is not None:
        self.seen.insert(found, event.ts)
    for item in event.items:
        if _cheap(event.items, item.price) == item.sku:
            ctx.emit(item.sku)
            break


def _large_mark(items: Any, limit: Any) -> Any:
    for item in items:
        for mark in item.marks:
            if mark > limit:
                return mark
    return -1


def _behind_both(self: Any, event: Any, ctx: Context) -> None:
    """Loops behind two that were left together, with what both of them have found."""
    found = _large_mark(event.items, event.a - 2)
    for item in event.items:
        for one in event.nums:
            if one > 0:
                ctx.emit((item.sku, found))
                break
        self.sums.insert((item.sku, found), event.ts)


def _computes(self: Any, event: Any, ctx: Context) -> None:
    """A value of the turn that leaves is not used there, and fails all the same."""
    total = 0
    for item in event.items:
        part = 12 // (item.count + 1)
        if item.sku == "c":
            break
        total += part
    ctx.emit(total)


BODIES = [_breaks, _returns, _finds, _else, _inserts_before, _hands_on, _adds_up_to, _inner, _inner_hands_on,
          _returns_from_both, _one_behind_the_other, _within_the_left, _nones, _counted, _ranges, _pairs,
          _at_the_first, _words, _does_not_reach, _tries, _breaks_in_except, _calls, _behind_both]  # fmt: skip


@pytest.mark.parametrize("few", [0, 16, 1000])
@pytest.mark.parametrize("process", BODIES)
def test_what_comes_of_a_loop_that_is_left_is_what_comes_in_python(
    process: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "FEW", few)
    monkeypatch.setattr(ends, "FIRST_TURNS", 1 + few)
    found = check_by_columns(job_of(process), RECORDS, [40])
    assert all(found["ways"]) and (found["outputs"]["main"] or process in (_breaks, _returns, _words))


@pytest.mark.parametrize("process", [_strict, _computes])
@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
def test_records_that_fail_are_those_of_python(process: Any, policy: Any) -> None:
    (found,) = followed_sources(job_of(process, policy))
    assert found.form is not None, found.why_not
    assert not all(check_by_columns(job_of(process, policy), RECORDS, [40])["ways"])


def test_lists_of_a_strict_zip_may_differ_where_a_turn_leaves_the_loop_before() -> None:
    items = [{"sku": "a", "price": 1, "count": 1}]
    records = [record(place, items=items * (1 + place % 3), nums=[7, 8]) for place in range(60)]
    found = check_by_columns(job_of(_strict), records)
    assert all(found["ways"]) and len(found["outputs"]["main"]) > 60


def test_a_value_that_the_turn_which_leaves_does_not_use_fails_all_the_same() -> None:
    records = [record(place, items=[{"sku": "c", "price": 1, "count": place % 6 - 1}]) for place in range(60)]
    found = check_by_columns(job_of(_computes, "dead-letter"), records)
    assert found["counts"].dead == 10 + 1  # a part of the records comes twice
