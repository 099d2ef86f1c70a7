"""Functions of rows as laws draw them: by columns they give what Python gives row by row."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from holon.columnar.encoding import FEW
from holon.dataflow import Flow, FlowError
from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed
from holon.testing import JobTestDriver

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
TEXTS = ("", "web", "app", "Z\u00fcrich", "7", "-2.5", "e=b", "1_0", "a b", "24/11/2026 02:30", "nan")
"""Texts: some are numbers, pairs, or times by a form."""
IMPORTS = """
import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import floor
LINE = re.compile(r"(?P<first>[a-z]+)([=.])?")
RATE = Decimal("1.5")
from types import MappingProxyType
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIZES = {"web": 1, "app": 2, "": 2**53 + 1}
SHARES = MappingProxyType({0: 0.5, 1: 1.5, True: 2.5, 2.0: -0.0, "web": 7.5})
NAMES = {"web": "Web", "Z\u00fcrich": "zh", "": ""}
MAYBE = {"web": None, "app": 3, 0: 10**30}
PAIRS = {("web", 1): 4, ("app", 0): 5, "web": 6}
VIPS = {"web", "Z\u00fcrich", ("app", 0)}
HELD = frozenset({0, 1, 2**53, True, 0.5})
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
OF_PARTS = (
    '{0}.t.split("e")[0]', '{0}.t.split("e")[1]', '{0}.t.split("e")[-1]', '{0}.t.split()[0]', '{0}.t.split("eb", 1)[1]',
    '{0}.t.partition("e")[0]', '{0}.t.partition("e")[2]', '{0}.t.rpartition("b")[0]', '{0}.t.rpartition("b")[2]',
    '{0}.t.partition("e")[1]', '{0}.t.rpartition("b")[1]', '{0}.t.rsplit("p", maxsplit=1)[0]', '{0}.t[:2]', '{0}.t[0]',
    '{0}.t[-1].upper()', '{0}.t.zfill(5)', '{0}.g["web"]', '{0}.g[{0}.t]', '{0}.g.get({0}.t, 0)', '{0}.g.get("app")',
    'LINE.match({0}.t)["first"]', 'LINE.search({0}.t).group(2)', 're.search("e(b)", {0}.t).group()',
    'LINE.fullmatch({0}.t).groups()', 'datetime.strptime({0}.t, "%d/%m/%Y %H:%M")',
    'datetime.strptime({0}.d, "%Y-%m-%dT%H:%M:%S%z")', 'datetime.fromtimestamp({0}.x, UTC).strftime("%H:%M")',
    'datetime.fromtimestamp({0}.a, tz=UTC).date()', 'datetime.fromtimestamp({0}.x, UTC).isoformat()',
    '(datetime.fromtimestamp({0}.x, UTC) + timedelta(hours=1)).isoformat()', 'Decimal({0}.t)', 'Decimal({0}.a) * RATE',
    'sorted({0}.g)', 'sorted({0}.t.split(), reverse=True)', 'set({0}.t.split("e"))', 'list({0}.g.values())',
    'tuple({0}.t.split())', '{0}.s and {0}.s.upper()', '{0}.t in VIPS', '{0}.a not in HELD', '({0}.t, {0}.a) in VIPS',
    '{0}.x in HELD', '{0}.s in {{"web", None}}', 'bool({0}.n)', 'bool({0}.t)', '{0}.n and {0}.n + 1', '+{0}.f',
    '{0}.t in {{"web", "app"}} or {0}.a in {{1, 2}}', '~{0}.a', '~{0}.f', '{0}.f ** {0}.a', '"web" in {0}.t.split("=")',
    '{0}.f is True', '{0}.a is not True',
    '"-".join({0}.t.split("e"))', '"+".join(({0}.t, {0}.d))', '"".join([{0}.t, {0}.s])', '" ".join(sorted({0}.g))',
)  # fmt: skip
INTS_OF_PARTS = (
    'len({0}.t.split("e"))', 'int({0}.t)', '{0}.t.count("e")', 'len({0}.g)', 'int("web" in {0}.g)', 'math.floor({0}.x)',
    'math.ceil({0}.x)', 'floor({0}.a)', 'datetime.fromtimestamp({0}.x, UTC).weekday()', 'len({0}.t.split())',
    '(datetime.fromtimestamp({0}.x, UTC) - EPOCH) // timedelta(seconds=1)',
    '(datetime.fromtimestamp({0}.a, UTC) - datetime.fromisoformat({0}.d)).days',
    'int(datetime.fromtimestamp({0}.a, UTC) >= datetime.fromisoformat({0}.d))',
    'int(datetime.fromtimestamp({0}.x, UTC) - EPOCH > timedelta(hours=2))',
    'int((datetime.fromtimestamp({0}.x, UTC) - EPOCH).total_seconds())', 'int(Decimal({0}.a) * RATE)',
    'int({0}.t in VIPS)', 'int({0}.a in {{0, 1, 7}})', 'len(set({0}.t.split("e")))', '({0}.a << 2)', '({0}.a >> 1)',
    '{0}.a ** 2', '(1 << ({0}.a % 9))', 'int(bool({0}.x))', 'len(sorted({0}.g))', '(7 >> {0}.a % 5)',
)  # fmt: skip
FLOATS_OF_PARTS = ("math.hypot({0}.a, {0}.x)", "math.sqrt({0}.x)", "math.log({0}.x)", "round(math.sin({0}.x), 3)",
                   "float({0}.t)", "math.sqrt({0}.a)", "{0}.x ** 2", "2.0 ** ({0}.a % 7)", "({0}.a % 9) ** -1",
                   "(datetime.fromtimestamp({0}.x, UTC) - EPOCH).total_seconds()",
                   "(datetime.fromtimestamp({0}.x, UTC) - EPOCH) / timedelta(hours=1)")  # fmt: skip
"""Expressions of parts of a row's fields."""
ATTEMPTS = (("int({0}.t)", "ValueError"), ("float({0}.t)", "ValueError"), ("{0}.g[{0}.t]", "KeyError"),
            ("{0}.a // {0}.g[{0}.t]", "ZeroDivisionError"), ("SIZES[{0}.t]", "(KeyError, ValueError)"),
            ('{0}.t.split("e")[1]', "IndexError"),
            ("{0}.a / {0}.x", "ZeroDivisionError"), ("int({0}.t) // {0}.a", "ZeroDivisionError"),
            ("datetime.fromisoformat({0}.d).hour", "ValueError"), ("int({0}.t.partition('e')[2])", "ValueError"),
            ("math.sqrt({0}.x)", "ValueError"), ("len({0}.t) % {0}.a", "ValueError"))  # fmt: skip
"""Expressions that may fail, and the classes that are caught, which are not always those."""


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
    except (ArithmeticError, LookupError, TypeError, AttributeError, ValueError, OSError) as error:
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


def check_same_flow(flow_of: Callable[[Callable[..., Any]], Flow], rows: Sequence[Any]) -> None:
    """Compare a flow with the same one of which nothing is followed: results of both sinks, dead letters, errors.

    ``flow_of``: makes it, with what is to be put around each function; its sinks are ``all`` and ``out``. The order of
    ``out`` is free. Keys of a type that can be no key may be refused where they are written, in place of each row.
    """

    def results(around: Callable[..., Any]) -> Any:
        test = JobTestDriver(flow_of(around).job)
        try:
            test.feed(0, *rows)
            test.finish()
        except Exception as error:
            return type(error), str(error)
        return test.raw_outputs("all"), sorted(map(repr, test.outputs("out"))), test.dead()

    try:
        found = results(lambda function: function)
    except FlowError as error:
        assert "a key is an int, a text" in str(error)
        return
    assert found == results(partial)
