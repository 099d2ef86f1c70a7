"""Functions of rows as laws draw them: by columns they give what Python gives row by row."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holon.columnar.encoding import FEW
from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed

TIME_TEXTS = (
    "2026-11-24T02:30:00Z",
    "2026-11-24T23:30:59.123456789+05:30",
    "1969-12-31 23:59:59.999-23:59",
    "2026-11-24T02:30:00",
    "0001-01-01T00:00:00+05:00",
    "9999-12-31T23:59:59.999999-23:59",
    "20261124T023000Z",
    "2026-W48-2",
    "2026-11-24T02:30:00+01:02:03",
)
NO_TIMES = ("2026-02-30T00:00:00Z", "2026-11-24T24:00:00", "", "web", "\u0662026-11-24")
"""Texts of which ``datetime.fromisoformat`` makes a time, and of which it makes none."""
IMPORTS = """
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIZES = {"web": 1, "app": 2, "": 2**53 + 1}
SHARES = MappingProxyType({0: 0.5, 1: 1.5, True: 2.5, 2.0: -0.0, "web": 7.5})
NAMES = {"web": "Web", "Z\u00fcrich": "zh", "": ""}
MAYBE = {"web": None, "app": 3, 0: 10**30}
PAIRS = {("web", 1): 4, ("app", 0): 5, "web": 6}
"""
INTS_OF_A_TIME = (
    "int({}.timestamp() * 1000)",
    "{}.hour",
    "{}.microsecond",
    "{}.year",
    "{}.date().weekday()",
    "int({}.replace(tzinfo=UTC).timestamp())",
    "({} - EPOCH) // timedelta(milliseconds=1)",
    "{}.astimezone(UTC).minute",
)
OF_A_TIME = (
    *INTS_OF_A_TIME,
    "{}",
    "{}.timestamp()",
    "{}.date().isoformat()",
    '{}.isoformat(timespec="seconds")',
    '{}.strftime("%Y-%m")',
)
"""Expressions of a time, with ``IMPORTS``."""
INTS_OF_TABLES = ("SIZES[{0}.t]", "SIZES.get({0}.t, 0)", "SIZES.get({0}.t, {0}.a)", "PAIRS.get(({0}.t, {0}.a), 9)",
                  'PAIRS["web"]', "int({0}.t in SIZES)", "PAIRS[{0}.s]")  # fmt: skip
OF_TABLES = (*INTS_OF_TABLES, "SHARES[{0}.a]", "SHARES.get({0}.x, 1)", "NAMES[{0}.t]", "NAMES.get({0}.t)",
             "NAMES.get({0}.s, {0}.t).upper()", "MAYBE[{0}.t]", "SHARES[{0}.t]", "MAYBE.get({0}.a)")  # fmt: skip
"""Expressions of a row."""


def imported(text: str, imports: str = "") -> Callable[[Any], Any]:
    """The function of a module that holds it, with these imports: its code is read, so it is drawn as code.

    ``text`` is an expression, or the definition of ``function``.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "drawn_function.py")
        path.write_text(f"{imports}\n{text if text.startswith('def ') else f'function = {text}'}\n")
        spec = importlib.util.spec_from_file_location("drawn_function", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module.function


def outcome(function: Callable[[Any], Any], row: Any) -> str:
    try:
        return repr(function(row))
    except (ArithmeticError, LookupError, TypeError, AttributeError, ValueError) as error:
        return f"raises {type(error).__name__}"


def check_same(
    function: Callable[[Any], Any],
    row_type: Any,
    rows: Sequence[Any],
    cut: int,
    columns: Callable[[Sequence[Any]], Rows],
    may_not_follow: tuple[str, ...],
) -> None:
    """Compare columns with rows one by one, however they are cut; ``may_not_follow``: reasons not to be followed."""
    decision, reason = followed(function, row_type, checked=True)
    if decision is None:
        assert any(word in reason for word in may_not_follow), reason
        return
    expected = [outcome(function, row) for row in rows]
    good = [row for row, one in zip(rows, expected, strict=True) if not one.startswith("raises")]
    # A row that fails alone fails the batch, as halving it finds out; all others are the same however they are cut.
    for row, one in zip(rows, expected, strict=True):
        assert outcome(lambda alone: as_list(column_of(decision, columns([alone])))[0], row) == one
    if len(good) < len(rows):
        assert outcome(lambda _: column_of(decision, columns(rows)), rows[0]) in expected
    whole = as_list(column_of(decision, columns(good)))
    parts = [
        *as_list(column_of(decision, columns(good[:cut]))),
        *as_list(column_of(decision, columns(good[cut:]))),
    ]
    assert list(map(repr, whole)) == list(map(repr, parts)) == [one for one in expected if not one.startswith("raises")]
    many = as_list(column_of(decision, columns(good * FEW)))  # so many that the compiled loops take them
    assert list(map(repr, many)) == list(map(repr, whole)) * FEW
