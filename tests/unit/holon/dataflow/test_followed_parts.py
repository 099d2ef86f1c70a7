"""Parts of texts, dicts and matches, functions of ``math`` and Decimals work on columns, and give what Python gives."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from math import hypot
from typing import Any

import msgspec
import numpy as np
import pytest

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import ObjectColumn
from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.matches import Find, Matches
from holon.dataflow.following.separated import Item, Separated, Split
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed
from tests.unit.holon.dataflow.followed_records import RECORDS, check_by_columns, job_of, record
from tests.unit.holon.dataflow.row_columns import rows_with, values_by

pytestmark = pytest.mark.usefixtures("loops_installed")

LINE = re.compile(r"(?P<name>[a-z]+)=(\d+)?")
CODES = re.compile(rb"x")
RATE = Decimal("0.25")
TEXTS = ["web=12", "app=", "a=b=c", "key=7 rest", "Zürich=1", "x==", "=y", "one=1"]


class Row(msgspec.Struct):
    text: str
    a: int
    x: float
    known: dict[str, int]
    loose: dict[str, int | None]
    names: list[str]


def rows_of(texts: list[str]) -> tuple[list[Row], Rows]:
    rows = [
        Row(text, len(text), len(text) / 4, {"web": place}, {"web": None, "app": 1}, [text, "b"])
        for place, text in enumerate(texts)
    ]
    columns: dict[str, Any] = {"text": Texts.of(texts), "a": np.array([row.a for row in rows])}
    columns |= {name: [getattr(row, name) for row in rows] for name in ("known", "loose", "names")}
    columns["x"] = np.array([row.x for row in rows])
    return rows, rows_with(columns, Row)


by_columns = partial(values_by, struct=Row)


def _unpacks(row: Any) -> Any:
    one, other = row.names
    return other, one


def _matches(row: Any) -> Any:
    match = LINE.match(row.text)
    if match is None:
        return None
    return match["name"], match.group(2)


def _matches_or_not(row: Any) -> Any:
    match = LINE.search(row.text)
    if not match:
        return "none"
    number = match[2]
    return 0 if number is None else int(number)


def _groups(row: Any) -> Any:
    match = re.search("(.)=(.?)", row.text)
    if match:
        left, right = match.groups()
        return left, right, match.group(), match.group(1, 0)[1]
    return None


def _gets(row: Any) -> Any:
    found = row.loose.get("web")
    return "none" if found is None else found


@pytest.mark.parametrize(
    "function",
    [
        lambda row: row.text.split("=")[0],
        lambda row: row.text.split("=")[-1],
        lambda row: row.text.split("=", 1)[1],
        lambda row: row.text.rsplit("=", maxsplit=1)[0],
        lambda row: len(row.text.split("=")),
        lambda row: len(row.text.split()),
        lambda row: row.text.split("==")[0],
        lambda row: row.text.split("ü")[0],
        lambda row: row.text.partition("="),
        lambda row: row.text.rpartition("="),
        lambda row: row.text.partition("b="),
        lambda row: row.text.rpartition("b="),
        lambda row: row.text.upper().partition("=")[2].lower(),
        lambda row: (row.text[:3], row.text[-1], row.text[1:2].upper()),
        lambda row: row.text.zfill(8),
        lambda row: (row.known["web"], row.known.get("none", -1), "web" in row.known, len(row.known)),
        lambda row: row.known.get("web", row.a) + 1,
        lambda row: (row.names[0], row.names[-1].upper(), row.names[:1]),
        _unpacks,
        _matches,
        _matches_or_not,
        _groups,
        _gets,
        lambda row: (math.floor(row.x), math.ceil(row.x), math.trunc(-row.x), math.sqrt(row.x)),
        lambda row: (hypot(row.x, 1), math.log(row.x, 2), math.sin(math.pi * row.a), round(math.exp(row.x), 2)),
        lambda row: (Decimal(row.a) * RATE, Decimal("1.10") + row.a, str(Decimal(row.text.count("=")))),
    ],
)
def test_parts_are_those_of_python(function: Callable[[Any], Any]) -> None:
    rows, columns = rows_of(TEXTS * 8)
    assert list(map(repr, by_columns(function, columns))) == [repr(function(row)) for row in rows]
    rows, columns = rows_of([])
    assert by_columns(function, columns) == []


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda row: row.text.split("=")[2], IndexError),
        (lambda row: row.text.split("=")[-3], IndexError),
        (lambda row: row.known["none"], KeyError),
        (lambda row: LINE.match(row.text)["name"], TypeError),
        (lambda row: LINE.match(row.text).group("name"), AttributeError),
        (lambda row: LINE.match(row.text).groups(), AttributeError),
        (lambda row: math.sqrt(row.x - 2), ValueError),
        (lambda row: Decimal(row.text), ArithmeticError),
    ],
)
def test_errors_are_those_of_python(function: Callable[[Any], Any], error: type[Exception]) -> None:
    _, columns = rows_of(TEXTS * 8)
    with pytest.raises(error):
        by_columns(function, columns)


def _unpacks_two(row: Any) -> Any:
    left, right = row.text.split("=")
    return right, left


def test_as_many_names_as_items_are_taken() -> None:
    rows, columns = rows_of(["a=1", "b=2"] * 20)
    assert by_columns(_unpacks_two, columns) == list(map(_unpacks_two, rows))
    for texts, why in ((["a=1", "b"], "not enough values to unpack"), (["a=1", "a=b=c"], "too many values to unpack")):
        rows, columns = rows_of(texts * 20)
        with pytest.raises(ValueError, match=why):
            by_columns(_unpacks_two, columns)


@pytest.mark.parametrize("separator", ["=", "==", "aa", "é", "ab"])
@pytest.mark.parametrize("method", ["split", "rsplit", "partition", "rpartition"])
def test_separators_are_found_within_each_text(method: str, separator: str) -> None:
    """Texts lie in any order, and separators go over their ends."""
    whole = Texts.of(["x==y=aaaa=ab", "=é=", "", "abab"])
    buffer = np.concatenate([whole.buffer, np.frombuffer(b"=====abab", np.uint8)])
    starts = np.array([12, *whole.starts[::-1].tolist(), 0, 3, len(buffer) - 9, len(buffer) - 4])
    ends = np.array([16, *whole.ends[::-1].tolist(), 3, 3, len(buffer), len(buffer) - 1])
    texts = Texts(buffer, starts, ends)
    expected = [getattr(text, method)(separator) for text in texts.tolist()]
    column = Split(method).of_columns([texts, separator], [False, True], len(texts))
    if column is None:
        assert separator in ("==", "aa", "é")  # it may overlap itself, or is more than a letter of ASCII
        return
    assert isinstance(column, Separated)
    assert column.take(np.array([1, 0])).tolist() == [expected[1], expected[0]]
    for place in range(-3, 3):
        if all(-len(parts) <= place < len(parts) for parts in expected):
            assert as_list(Item(place).of_columns([column], [False], len(texts))) == [one[place] for one in expected]


def test_lists_of_parts_are_not_made() -> None:
    _, columns = rows_of(["10.0.0.1 - GET /cart", "10.0.0.2 - GET /"] * 20)
    decision, _ = followed(lambda row: (row.text.split(" ")[0], row.text.partition(" ")[2]), Row, checked=True)
    assert decision is not None
    assert all(isinstance(column, Texts) for column in column_of(decision, columns))


def test_each_text_is_matched_once() -> None:
    calls: list[str] = []

    class Counted:
        groups, groupindex = LINE.groups, LINE.groupindex

        def match(self, text: str) -> Any:
            calls.append(text)
            return LINE.match(text)

    find = Find(Counted(), "match")  # type: ignore[arg-type]
    find.wanted += ["name", 2]
    found = find.of_columns([TEXTS], [False], len(TEXTS))
    assert isinstance(found, Matches) and calls == TEXTS
    kept = found.take(np.flatnonzero(found.there))
    assert kept.group("name") == [LINE.match(text)["name"] for text in TEXTS if LINE.match(text)]  # type: ignore[index]
    assert found.group("name") is None and kept.group("other") is None and calls == TEXTS
    assert isinstance(kept, ObjectColumn) and [one is None for one in found] == (~found.there).tolist()


def _reads_the_mark(row: Any) -> Any:
    return re.match(f"{row.text}", "web")


def _keeps_rest(row: Any) -> Any:
    one, *rest = row.text.split("=")
    return one, len(rest)


LIMITS = {"web": {"most": 3}}


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda row: row.known.items(), "a DictView"),
        (lambda row: row.text[: row.a], "needs the value"),
        (lambda row: [*row.text.split("=")], "needs the value"),
        (lambda row: row.text.join(row.names), "the attribute 'join'"),
        (_keeps_rest, "needs the value"),
        (_reads_the_mark, "needs the value"),
        (lambda row: LINE.sub("", row.text), "'sub' of a regular expression"),
        (lambda row: re.findall("a", row.text), "re.findall"),
        (lambda row: re.match(row.text, "web"), "no constant text"),
        (lambda row: LINE.match("web=1"), "of what is no field"),
        (lambda row: LINE.match(row.text)["other"], "a group that the regular expression has not"),
        (lambda row: LINE.match(row.text).start(), "'start' of a Match"),
        (lambda row: math.fsum([row.a]), "math.fsum"),
        (lambda row: math.isclose(row.x, row.a, abs_tol=0.1), "names of arguments"),
        (lambda row: Decimal.from_float(row.x), "Decimal.from_float"),
        (lambda row: row.x[0], "needs the value"),
        (lambda row: LIMITS[row.text]["most"], "'LIMITS', a dict"),
    ],
)
def test_other_uses_are_called_for_each_row(function: Callable[[Any], Any], why: str) -> None:
    decision, found = followed(function, Row, checked=True)
    assert decision is None and why in found


def _helped(row: Any) -> Any:
    return _helper(row) + 1


def _helper(row: Any) -> Any:
    return row.text.split("=").index("web")


def test_a_reason_has_the_line_where_it_is() -> None:
    _, why = followed(_helped, Row, checked=True)
    line = _helper.__code__.co_firstlineno + 1
    assert why.endswith(f"(test_followed_parts.py:{line})")
    _, why = followed(_keeps_rest, Row, checked=True)
    assert why.endswith(f"(test_followed_parts.py:{_keeps_rest.__code__.co_firstlineno + 1})")


def _cuts(self: Any, event: Any, ctx: Any) -> None:
    name, _, rest = event.t.partition("e")
    self.sums.insert(((name, rest), math.floor(event.x)), event.ts)
    self.seen.insert(event.t.split("e")[-1], event.ts)
    if "web" in event.g:
        ctx.emit({"web": event.g["web"], "all": Decimal(event.a) * self.rate})


def test_records_go_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of(_cuts)
    job.program.root.rate = Decimal("1.5")  # type: ignore[union-attr]
    found = check_by_columns(job, RECORDS + [record(30, g={"web": 2}, t="e\ud83d\ude80e")] * 9, [20])
    assert all(found["ways"]) and found["outputs"]["main"]


def _inserts_parts(self: Any, event: Any, ctx: Any) -> None:
    self.sums.insert((event.t.upper(), event.a), event.ts)


def test_objects_that_are_texts_are_checked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from wcrdt.lattices.keyed import elements

    monkeypatch.setattr(elements, "grouped_keys", None)
    assert all(check_by_columns(job_of(_inserts_parts), RECORDS, [20])["ways"])


def _formats_keys(self: Any, event: Any, ctx: Any) -> None:
    self.sums.insert((f"{event.t}/{event.a}", 1), event.ts)


def test_keys_that_a_format_makes_are_checked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from wcrdt.lattices.keyed import elements

    monkeypatch.setattr(elements, "grouped_keys", None)
    assert all(check_by_columns(job_of(_formats_keys), RECORDS * 2, [40])["ways"])


def test_texts_know_whether_they_are_unicode() -> None:
    assert Texts.of(["web", "Zürich"]).are_unicode
    assert not Texts.of(["web", "\ud800"]).are_unicode and Texts.of(["\ud800"]).tolist() == ["\ud800"]
