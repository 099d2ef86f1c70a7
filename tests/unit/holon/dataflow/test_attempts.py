"""Functions that catch errors work on columns where each value is sure, and give what Python gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from holon.columnar.payloads import Texts
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed
from tests.laws.row_functions import imported
from tests.unit.holon.dataflow.followed_records import check_by_columns, job_of, record
from tests.unit.holon.dataflow.row_columns import rows_with, values_by

pytestmark = pytest.mark.usefixtures("loops_installed")

SIZES = {"7": 1, "web": 0}
LINE = re.compile("([a-z]+)")


class Row(msgspec.Struct):
    text: str
    a: int
    x: float


def _number(row: Any) -> Any:
    try:
        return int(row.text)
    except ValueError:
        return -1


def _sizes(row: Any) -> Any:
    try:
        value = row.a // SIZES[row.text]
    except KeyError:
        return "none"
    except ZeroDivisionError:
        value = 0
    return value + 1


def _either(row: Any) -> Any:
    try:
        name, text = row.text.split("=")
        value = float(text)
    except (ValueError, IndexError):
        name, value = "bad", 0.0
    else:
        value = value * 2
    return name, value


def _nested(row: Any) -> Any:
    try:
        try:
            value = int(row.text)
        except ValueError:
            value = SIZES[row.text]
    except KeyError:
        return "none"
    return value


def _in_clause(row: Any) -> Any:
    try:
        value = int(row.text)
    except ValueError:
        value = 1 // row.a
    return value


def _called(row: Any) -> Any:
    try:
        return _parsed(row.text)
    except ValueError:
        return row.text.upper()


def _parsed(text: Any) -> Any:
    return int(text) + 1


def _clause_of_values(row: Any) -> Any:
    try:
        return SIZES[row.text]
    except ValueError:
        return "never"


def _other_clause(row: Any) -> Any:
    try:
        return int(row.text)
    except KeyError:
        return "never"


def _matched(row: Any) -> Any:
    try:
        found = LINE.match(row.text)
        value = int(row.text.partition("=")[2])
    except ValueError:
        return "none"
    if not found:
        return value
    return found[1], value


def _times(row: Any) -> Any:
    try:
        return datetime.strptime(row.text, "%Y-%m-%d").year
    except ValueError:
        return 0


TEXTS = ["7", "web", "", "a=1", "a=x", "=3", "9", "1_0", "2026-11-28", "a=b=c"]


def rows_of(texts: list[str]) -> tuple[list[Row], Rows]:
    rows = [Row(text, len(text), len(text) / 4) for text in texts]
    columns: dict[str, Any] = {"text": Texts.of(texts), "a": np.array([row.a for row in rows], np.int64)}
    columns["x"] = np.array([row.x for row in rows])
    return rows, rows_with(columns, Row)


by_columns = partial(values_by, struct=Row)


FUNCTIONS = [_number, _sizes, _either, _nested, _called, _matched, _times]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("texts", [TEXTS, TEXTS * 20, ["7", "9"] * 20, [*TEXTS[:4], "q"] * 20, ["a=1", "b=2"] * 20])
def test_values_and_clauses_are_those_of_python(function: Callable[[Any], Any], texts: list[str]) -> None:
    rows, columns = rows_of(texts)
    assert list(map(repr, by_columns(function, columns))) == [repr(function(row)) for row in rows]
    assert by_columns(function, rows_of([])[1]) == []


@pytest.mark.parametrize(
    ("function", "error"),
    [(_in_clause, ZeroDivisionError), (_other_clause, ValueError), (_clause_of_values, KeyError)],
)
def test_errors_that_no_clause_catches_are_raised(function: Callable[[Any], Any], error: type[Exception]) -> None:
    rows, columns = rows_of(["7", "7"] * 20)
    assert by_columns(function, columns) == list(map(function, rows))
    with pytest.raises(error):
        by_columns(function, rows_of(["7", ""] * 20)[1])


def _catches_all(row: Any) -> Any:
    try:
        return int(row.text)
    except:  # noqa: E722
        return 0


def _catches_exception(row: Any) -> Any:
    try:
        return int(row.text)
    except Exception:
        return 0


def _catches_types(row: Any) -> Any:
    try:
        return int(row.text)
    except (ValueError, TypeError):
        return 0


def _reads_the_error(row: Any) -> Any:
    try:
        return int(row.text)
    except ValueError as error:
        return str(error)


def _cleans_up(row: Any) -> Any:
    try:
        return int(row.text)
    finally:
        len(row.text)


def _with(row: Any) -> Any:
    with LINE:  # type: ignore[attr-defined]
        return row.a


def _divides(row: Any) -> Any:
    try:
        return divmod(row.a, row.a)
    except ZeroDivisionError:
        return 0


def _formats(row: Any) -> Any:
    try:
        return f"{row.text:d}"
    except ValueError:
        return ""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (_catches_all, "an except that names no class"),
        (_catches_exception, "it catches Exception; ValueError, KeyError"),
        (_catches_types, "it catches TypeError; ValueError"),
        (_reads_the_error, "the exception that it catches"),
        (_cleans_up, "it uses finally"),
        (_with, "it uses with"),
        (_divides, "it uses divmod within try"),
        (_formats, "it formats a text within try"),
    ],
)
def test_other_clauses_are_called_for_each_row(function: Callable[[Any], Any], why: str) -> None:
    decision, found = followed(function, Row, checked=True)
    assert decision is None and why in found


def _inserts(self: Any, event: Any, ctx: Any) -> None:
    try:
        value = float(event.t)
    except ValueError:
        self.count.insert(1, event.ts)
        return
    self.sums.insert((f"{event.t}/{event.a}", value), event.ts)


def _fails(self: Any, event: Any, ctx: Any) -> None:
    try:
        value = event.a // event.n
    except KeyError:
        value = 0
    self.count.insert(value, event.ts)


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
def test_records_go_by_columns(policy: Any) -> None:
    records = [record(ts, t=text) for ts, text in enumerate(["7", "2.5", "web", "1"] * 12)]
    found = check_by_columns(job_of(_inserts, policy), records, [20])
    assert all(found["ways"])


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
def test_a_record_whose_error_no_clause_catches_fails_as_alone(policy: Any) -> None:
    records = [record(ts, n=int(ts != 41)) for ts in range(60)]
    found = check_by_columns(job_of(_fails, policy), records, [20])
    assert found["ways"][:1] == [True] and (policy == "fail" or found["counts"].dead == 1)


def _inserts_within(self: Any, event: Any, ctx: Any) -> None:
    try:
        self.sums.insert((event.t, event.x), event.ts)
    except ValueError:
        self.count.insert(1, event.ts)


def _emits_within(self: Any, event: Any, ctx: Any) -> None:
    try:
        ctx.emit(event.t)
    except ValueError:
        return


@pytest.mark.parametrize(("process", "why"), [(_inserts_within, "it inserts within try"), (_emits_within, "it emits")])
def test_what_may_be_refused_within_try_goes_record_by_record(process: Any, why: str) -> None:
    from holon.dataflow.record_functions.followed import followed_sources

    (found,) = followed_sources(job_of(process))
    assert found.form is None and why in found.why_not


def _looks_at_a_text(self: Any, event: Any, ctx: Any) -> None:
    text = f"{event.t}:{event.a}"
    try:
        value = int(event.t)
    except ValueError:
        value = len(text)
    self.sums.insert((text, value), event.ts)


def test_a_clause_that_looks_at_a_formatted_text_is_seen() -> None:
    from holon.dataflow.record_functions.followed import followed_sources

    (found,) = followed_sources(job_of(_looks_at_a_text))
    assert found.form is None and "needs the value" in found.why_not


def test_code_that_is_equal_keeps_its_clauses() -> None:
    """A module that is imported again has equal code of its own."""
    source = "def function(row):\n try:\n  return int(row.text)\n except ValueError:\n  return -1\n"
    rows, columns = rows_of(["7", "x"] * 20)
    for _ in range(3):
        assert by_columns(imported(source), columns) == list(map(_number, rows))
