"""Law: loops over the items of a record, and what is reduced of them, give by columns what Python gives."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.loops import carrying, ends
from holon.dataflow.following.results import flat_mapped, struct_of
from holon.dataflow.record_functions.followed import followed_sources
from holon.dataflow.rows import Rows, columns_of
from holon.dataflow.steps import followed
from holon.dataflow.tracing import trace_flat
from tests.laws.row_functions import IMPORTS, check_same, imported, outcome
from tests.unit.holon.dataflow.followed_records import Event, Policy, check_by_columns, job_of

pytestmark = pytest.mark.usefixtures("loops_installed")

MAY_NOT_FOLLOW = ("different lengths", "within try", "ways through it", "with a placeholder it raises")

INTS = st.integers(-2, 4) | st.sampled_from([2**53 + 1, 2**62, 2**63 - 1, -(2**63)])
FLOATS = st.sampled_from([0.0, -0.0, 0.1, 1e16, -1e16, 1e308, 1.0])
TEXTS = st.sampled_from(["", "web", "a b", " b\ta  b ", "\u00dcb b", "x\u3000b", "7", "b 7 \x1f web"])
PLACES = st.none() | st.fixed_dictionaries({"city": TEXTS}, optional={"zone": st.none() | st.integers(-1, 3)})
ITEMS = st.fixed_dictionaries(
    {"sku": TEXTS, "price": FLOATS, "count": INTS},
    optional={"note": st.none() | TEXTS, "marks": st.lists(INTS, max_size=3), "p": PLACES},
)
EVENTS = st.fixed_dictionaries(
    {"ts": st.integers(0, 60), "a": INTS, "x": FLOATS, "f": st.booleans(), "t": TEXTS},
    optional={
        "n": st.none() | INTS,
        "tags": st.lists(TEXTS, max_size=3),
        "items": st.lists(ITEMS, max_size=3) | st.just(None) | st.lists(ITEMS | st.just(7), max_size=2),
        "nums": st.lists(INTS, max_size=4),
        "floats": st.lists(FLOATS, max_size=4),
        "g": st.dictionaries(TEXTS, st.integers(-1, 3), max_size=3),
        "nested": st.lists(st.lists(ITEMS, max_size=2), max_size=2),
    },
)
RIGHT_ITEMS = st.fixed_dictionaries(
    {"sku": TEXTS, "price": FLOATS, "count": st.integers(1, 5), "note": st.none() | TEXTS, "p": PLACES,
     "marks": st.lists(st.integers(1, 3), max_size=2)}
)  # fmt: skip
RIGHT = st.fixed_dictionaries(
    {"ts": st.integers(20, 40), "a": st.integers(1, 4), "x": st.floats(-9, 9), "f": st.booleans(), "t": TEXTS,
     "n": st.integers(1, 3), "tags": st.lists(TEXTS, max_size=3), "nums": st.lists(st.integers(1, 3), max_size=3),
     "floats": st.lists(FLOATS, max_size=3), "g": st.dictionaries(TEXTS, st.integers(1, 3), max_size=3),
     "items": st.lists(RIGHT_ITEMS, max_size=4), "nested": st.lists(st.lists(RIGHT_ITEMS, max_size=2), max_size=2)}
)  # fmt: skip
RECORDS = st.lists((RIGHT | EVENTS).map(lambda event: json.dumps(event).encode()), max_size=16)
ALL_RIGHT = st.lists(RIGHT.map(lambda event: json.dumps(event).encode()), min_size=4, max_size=16)

OVER = {
    "event.items": ("item", ["item.count", "item.count // event.a", "len(item.sku)", "sum(item.marks)",
                             "sum(mark * item.count for mark in item.marks if mark != event.a)"],
                    ["item.price", "item.price * item.count", "item.count / event.a", "max(item.marks, default=0)"],
                    ["item.sku", "item.sku.upper()", 'f"{item.sku}/{event.a}"', "(item.sku, event.t)"],
                    ["item.count > 1", 'item.sku == "web"', "any(mark > event.a for mark in item.marks)", "item.price",
                     "item.note is None", "item.note", "event.n is None or item.count > event.n",
                     "item.p is not None and item.p.city == event.t", "item.p is not None and item.p.zone is None"]),
    "event.nested": ("row", ["len(row)", "sum(one.count for one in row)",
                             "sum(len(one.p.city) for one in row if one.p is not None)",
                             "sum(one.count for line in event.nested for one in line)"],
                     ["sum(one.price for one in row)", "max(one.count for one in row)"],
                     ["event.t", "(event.t, event.a)"],
                     ["row", "any(one.p is not None and one.p.city == event.t for one in row)",
                      "any(mark > event.a for one in row for mark in one.marks)"]),
    "event.tags": ("tag", ["len(tag)", "int(tag)", 'tag.count("b")'], ["len(tag) / event.a", "event.x"],
                   ["tag", "tag.lower()", 'tag.partition("b")[0]', "(tag, event.a)"],
                   ['tag == "web"', "tag", "tag in (event.t, 'a')"]),
    "event.t.split()": ("word", ["len(word)", "event.a"], ["event.x * len(word)"], ["word", "word.upper()"],
                        ["len(word) > event.a", 'word.startswith("w")']),
    'event.t.lower().split("b")': ("part", ["len(part)"], ["event.x"], ["part", "part.strip()"], ["part", "event.f"]),
    "event.nums": ("one", ["one", "one // event.a", "one * one", "event.n"], ["one / event.a", "one * event.x"],
                   ["one", "(event.t, one)"], ["one > 1", "one", "any(one < other for other in event.nums)"]),
    "event.g.items()": ("name, number", ["number", "len(name) * number"], ["number / event.a"],
                        ["name", "name.upper()", 'f"{name}/{event.a}"', "(name, event.t)"], ["number > 1", "name"]),
    "event.floats": ("one", ["int(one > 0)", "event.a"], ["one", "one + event.x", "-one"], ["event.t", "event.a"],
                     ["one", "one > event.x", "max(event.floats) > one"]),
}  # fmt: skip
"""By what a loop goes over: the name of its item, then ints, numbers, keys and conditions of that."""


WRAPPED = {
    "enumerate({})": "place, {}", "enumerate({}, start=event.a)": "place, {}", "zip({}, event.nums)": "{}, place",
    "zip(range(event.a), {}, strict=False)": "place, {}", "zip({}, event.nums, strict=True)": "{}, place",
    "zip({}, event.g.items())": "{}, (_, place)", "enumerate(zip({}, event.tags))": "place, ({}, _)",
    "reversed({})": "{}", "zip(reversed({}), (7, 8))": "{}, place",
}  # fmt: skip
"""Further forms of what a loop goes over, with names for its items."""


def _over(draw: Any, over: str) -> tuple[str, list[str]]:
    """The begin of a loop, and ints of its items."""
    name, ints = OVER[over][:2]
    fitting = [one for one in WRAPPED if "reversed" not in one or not over.endswith("items()")]
    wrapper = draw(st.none() | st.none() | st.sampled_from(fitting))
    if wrapper is None:
        return f"for {name} in {over}", list(ints)
    names = f"({name})" if "," in name and WRAPPED[wrapper] != "{}" else name
    has_place = "place" in WRAPPED[wrapper]
    return f"for {WRAPPED[wrapper].format(names)} in {wrapper.format(over)}", [*ints, *["place"] * 3 * has_place]


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def loops(draw: Any) -> list[str]:
    """A loop whose turns insert, emit, or go on with the next."""
    over = draw(st.sampled_from(list(OVER)))
    begin, of_place = _over(draw, over)
    ints = st.sampled_from(of_place)
    numbers, keys, conditions = map(st.sampled_from, OVER[over][2:])
    times = st.sampled_from(["event.ts", "event.ts", "ctx.timestamp_ms + 1"])
    statement = st.one_of(
        st.builds("self.count.insert({}, {})".format, ints, times),
        st.builds("self.sums.insert(({}, {}), {})".format, keys, ints | numbers, times),
        st.builds("self.top.insert({}, {})".format, numbers, times),
        st.builds('self.tags.insert(("{}", {}), {})'.format, st.sampled_from(["add", "remove"]), keys, times),
        st.builds("ctx.emit(({}, {}))".format, keys, numbers),
        st.builds('ctx.emit({{"a": {}, "b": {}}})'.format, keys, ints),
        st.builds("value = {}; self.sums.insert(({}, value), event.ts)".format, ints, keys),
    )
    body: list[str] = []
    kinds = st.sampled_from(["plain", "if", "else", "continue", "try", "break", "return"])
    for kind in draw(st.lists(kinds, min_size=1, max_size=3)):
        condition, one, other = draw(conditions), draw(statement), draw(statement)
        if kind == "try":
            clause = ["except (ValueError, ZeroDivisionError):", "    continue"]
            body += ["try:", f"    tried = {draw(ints)}", *clause, "self.count.insert(tried, event.ts)"]
        else:
            body += {"plain": [one], "if": [f"if {condition}:", f"    {one}"],
                     "else": [f"if {condition}:", f"    {one}", "else:", f"    {other}"],
                     "continue": [f"if {condition}:", "    continue", one],
                     "break": [f"if {condition}:", f"    {one}", "    break"],
                     "return": [f"if {condition}:", "    return", one]}[kind]  # fmt: skip
    behind = draw(st.sampled_from([[], [], ["else:", "    ctx.emit('all')"]]))
    return [f"{begin}:", *_indented(body), *behind]


@st.composite
def sums(draw: Any) -> list[str]:
    """A loop whose turns hand names on, and what follows from these."""
    over = draw(st.sampled_from(list(OVER)))
    begin, of_place = _over(draw, over)
    ints = st.sampled_from(of_place)
    numbers, keys, conditions = map(st.sampled_from, OVER[over][2:])
    plain = keys.filter(lambda one: not one.startswith(("f", "(")))
    step = st.one_of(
        st.builds("total += {}".format, ints | numbers),
        st.builds("total -= {}".format, numbers),
        st.just("number += 1"),
        st.builds("last = {}".format, plain | ints),
        st.builds("number, total = total, number + {}".format, ints),
        st.builds("total = max(total, {})".format, numbers),
        st.just("self.sums.insert((event.t, total), event.ts)"),
        st.just("ctx.emit((number, last))"),
        st.builds("part = {}; total += part".format, numbers),
    )
    asked = conditions | st.sampled_from(["total > 2", "last == 'web'", "number", "last is None", "last is not None"])
    body: list[str] = []
    kinds = ["plain", "plain", "if", "else", "continue", "try", "inner", "break", "break", "inner break", "place"]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        condition, one, other = draw(asked), draw(step), draw(step)
        body += {"plain": [one], "if": [f"if {condition}:", f"    {one}"],
                 "else": [f"if {condition}:", f"    {one}", "else:", f"    {other}"],
                 "continue": [f"if {condition}:", "    continue", one],
                 "try": ["try:", f"    number += {draw(ints)}", "except (ValueError, ZeroDivisionError):",
                         "    last = 'failed'"],
                 "break": [f"if {condition}:", f"    {one}", "    break"],
                 "inner break": ["for mark in event.nums:", "    if mark > number:", f"        {one}", "        break",
                                 "    total += mark"],
                 "inner": ["for mark in event.nums:", "    total += mark", f"    number += {draw(ints)}"],
                 "place": ["for line in event.nested:", "    for one in line:", "        if one.p is not None:",
                           "            total += len(one.p.city)",
                           f"            {draw(st.sampled_from(['break', one]))}"],
                 }[kind]  # fmt: skip
    first = draw(st.sampled_from(["0", "0", "0.5", "event.a", "event.x", "2**62"]))
    none = draw(st.sampled_from(["None", "'none'", "event.t"]))
    end = draw(st.sampled_from(["ctx.emit((total, number, last))", "if total > 1:\n    ctx.emit(last)",
                                "if last is not None:\n    self.sums.insert((event.t, total), event.ts)",
                                'ctx.emit({"total": total, "last": last})']))  # fmt: skip
    return [f"total = {first}", "number = 0", f"last = {none}", f"{begin}:", *_indented(body),
            *end.split("\n")]  # fmt: skip


@st.composite
def searches(draw: Any) -> list[str]:
    """The body of a function that returns a value of an item, or of what comes behind the loop."""
    over = draw(st.sampled_from(list(OVER)))
    begin, of_place = _over(draw, over)
    _, _, numbers, keys, conditions = OVER[over]
    values = st.sampled_from([*of_place, *numbers, *keys, "event.t", "number"])
    asked = st.sampled_from([*conditions, "number > event.a"])
    body: list[str] = []
    kinds = ["return", "return", "break", "adds", "inner", "place"]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3)):
        condition, one = draw(asked), draw(values)
        body += {"return": [f"if {condition}:", f"    return {one}"],
                 "break": [f"if {condition}:", f"    last = {draw(st.sampled_from(of_place))}", "    break"],
                 "adds": [f"number += {draw(st.sampled_from(of_place))}"],
                 "inner": ["for mark in event.nums:", f"    if {condition} or mark > number:", f"        return {one}"],
                 "place": ["for line in event.nested:", "    for each in line:", "        if each.p is not None:",
                           "            return each.p.city, each.count"],
                 }[kind]  # fmt: skip
    behind = draw(st.sampled_from([[], ["else:", "    last = 7"], ["if number > 2:", "    return last"]]))
    return ["last, number = -1, 0", f"{begin}:", *_indented(body), *behind, "return last, number, event.t"]


@st.composite
def yields(draw: Any) -> str:
    """Values of items, within an expression."""
    over = draw(st.sampled_from(list(OVER)))
    _, _, numbers, keys, conditions = OVER[over]
    begin, ints = _over(draw, over)
    only = draw(st.sampled_from(["", f" if {draw(st.sampled_from(conditions))}"]))
    plain = [key for key in keys if not key.startswith("f")]
    return f"{draw(st.sampled_from(ints + numbers + plain))} {begin}{only}"


@st.composite
def reductions(draw: Any) -> str:
    """A value that is reduced of items."""
    over = draw(st.sampled_from(list(OVER)))
    _, _, numbers, keys, conditions = OVER[over]
    begin, ints = _over(draw, over)
    only = draw(st.sampled_from(["", "", f" if {draw(st.sampled_from(conditions))}"]))
    plain = [key for key in keys if not key.startswith("f")]  # within an expression no text is formatted
    values = f"{draw(st.sampled_from(ints + numbers))} {begin}{only}"
    return draw(
        st.sampled_from(
            [f"sum({values})", f"sum(({values}), 0.5)", f"max(({values}), default=0)", f"min({values})",
             f"any({draw(st.sampled_from(conditions))} {begin}{only})",
             f"all({draw(st.sampled_from(conditions))} {begin}{only})",
             f"max({draw(st.sampled_from(plain))} {begin}{only})",
             f"len([{draw(st.sampled_from(plain))} {begin}{only}])",
             f"sum([{values}])", f"any([{draw(st.sampled_from(conditions))} {begin}{only}])"]
        )
    )  # fmt: skip


BEFORE = st.sampled_from([[], [], ["self.tags.insert(('add', event.t), event.ts)"], ["share = event.x / event.a"],
                          ["if event.f:", "    return"], ["ctx.emit(event.t)"]])  # fmt: skip
REDUCED = reductions().map(lambda one: f"ctx.emit(({one}, event.t))")
BODIES = st.builds(
    lambda before, blocks, is_nested: [
        *before,
        *(["if event.a > 1:", *_indented(blocks[0])] if is_nested else blocks[0]),
        *[line for block in blocks[1:] for line in block],
        "self.seen.insert('end', event.ts)",
    ],
    BEFORE,
    st.lists(loops() | sums() | REDUCED.map(lambda one: [one]), min_size=1, max_size=2),
    st.booleans(),
)
CUTS = st.lists(st.integers(0, 16), max_size=3).map(sorted)


@given(
    BODIES, RECORDS | ALL_RIGHT | ALL_RIGHT, CUTS, st.sampled_from(["fail", "dead-letter"]), st.sampled_from([0, 16])
)
@example(
    ["for item in event.items:", "    self.tags.insert(('add', item.sku), event.ts)",
     "    self.tags.insert(('remove', event.t), event.ts)"],
    [json.dumps({"ts": n, "a": 1, "x": 1, "f": True, "t": "a", "items": [{"sku": s, "price": 1, "count": 1}
                 for s in "abc"[: n % 4]]}).encode() for n in range(30)],
    [], "fail", 16,
)  # fmt: skip
@example(
    ["total = 0", "best = None", "for item in event.items:", "    if item.count > 1:", "        total += item.price",
     "    if best is None or item.count > best:", "        best = item.count", "ctx.emit((total, best))"],
    [json.dumps({"ts": n, "a": 1, "x": 1, "f": True, "t": "a", "items": [{"sku": "s", "price": n / 7, "count": c}
                 for c in range(n % 5)]}).encode() for n in range(200)],
    [100], "fail", 16,
)  # fmt: skip
def test_loops_of_process(body: list[str], records: list[bytes], cuts: list[int], policy: Policy, few: int) -> None:
    """``few``: records up to which each goes by itself, and turns but one that are taken at once."""
    process = imported("\n".join(["def function(self, event, ctx):", *_indented(body)]), IMPORTS)
    job = job_of(process, policy)
    (found,) = followed_sources(job)
    if found.form is None:
        assert any(word in found.why_not for word in MAY_NOT_FOLLOW), found.why_not
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carrying, "FEW", few)
        patch.setattr(ends, "FIRST_TURNS", 1 + few)
        check_by_columns(job, records, cuts)


def _event(fields: dict[str, Any]) -> Event:
    return msgspec.convert(fields, Event)


def _columns(rows: Any) -> Rows:
    places = np.arange(len(rows))
    return Rows(places, places, is_whole=True, columns=columns_of(Event, list(rows)), struct=Event)


ROWS = st.lists(RIGHT.map(_event), max_size=10)


@given(yields(), st.sampled_from("[("), ROWS)
def test_results_of_flat_map(values: str, bracket: str, rows: list[Event]) -> None:
    function = imported(f"lambda event: {bracket}{values}{'])'['[('.index(bracket)]}", IMPORTS)
    decision, why_not = followed(function, Event, checked=True, trace=trace_flat)
    if decision is None:
        assert any(word in why_not for word in MAY_NOT_FOLLOW), why_not
        return
    expected = [outcome(lambda row: list(function(row)), row) for row in rows]
    for row, wanted in zip(rows, expected, strict=True):
        assert outcome(lambda alone: _flat(decision, [alone])[1], row) == wanted
    good = [row for row, wanted in zip(rows, expected, strict=True) if not wanted.startswith("raises")]
    made = _flat(decision, good)
    assert repr(made) == repr(_listed(function, good))


def _flat(decision: Any, rows: list[Event]) -> tuple[list[int], list[Any]]:
    made = flat_mapped(decision, struct_of(decision), _columns(rows))
    return made.ts_ms.tolist(), made.objects()


def _listed(function: Any, rows: list[Event]) -> tuple[list[int], list[Any]]:
    found = [(place, value) for place, row in enumerate(rows) for value in function(row)]
    return [place for place, _ in found], [value for _, value in found]


@given(reductions(), st.none() | reductions(), ROWS, st.integers(0, 10))
def test_reductions_of_flows(one: str, other: str | None, rows: list[Event], cut: int) -> None:
    text = f"({one}, event.t)" if other is None else f"{one} if {other} else event.a"
    function = imported(f"lambda event: {text}", IMPORTS)
    check_same(function, Event, rows, cut, _columns, MAY_NOT_FOLLOW)


@given(searches(), st.lists(RIGHT.map(_event), max_size=10), st.integers(0, 10), st.sampled_from([0, 16]))
@example(
    ["for one in event.nums:", "    if 6 // (one - 3) < 0:", "        return one", "return event.t"],
    [_event({"ts": 1, "a": 1, "x": 1, "f": True, "t": "a", "nums": nums}) for nums in ([3], [2, 3], [9, 2, 3], [])] * 9,
    5, 0,
)  # fmt: skip
def test_functions_that_leave_loops(body: list[str], rows: list[Event], cut: int, few: int) -> None:
    function = imported("\n".join(["def function(event):", *_indented(body)]), IMPORTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carrying, "FEW", few)
        patch.setattr(ends, "FIRST_TURNS", 1 + few)
        _check_searches(function, rows, cut)


def _check_searches(function: Any, rows: list[Event], cut: int) -> None:
    """Rows fail where they do in Python; all others have its values, however they are cut."""
    decision, why_not = followed(function, Event, checked=True)
    if decision is None:
        assert any(word in why_not for word in MAY_NOT_FOLLOW), why_not
        return
    expected = [outcome(function, row) for row in rows]
    good = [row for row, one in zip(rows, expected, strict=True) if not one.startswith("raises")]
    for row, one in zip(rows, expected, strict=True):
        found = outcome(lambda alone: as_list(column_of(decision, _columns([alone])))[0], row)
        assert found == one or (found.startswith("raises") and one.startswith("raises"))  # then Python says which
    if len(good) < len(rows):
        assert outcome(lambda _: column_of(decision, _columns(rows)), rows[0]).startswith("raises")
    parts = [one for part in (good[:cut], good[cut:]) for one in as_list(column_of(decision, _columns(part)))]
    wanted = [one for one in expected if not one.startswith("raises")]
    assert list(map(repr, parts)) == list(map(repr, as_list(column_of(decision, _columns(good))))) == wanted
