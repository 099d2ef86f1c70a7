"""Functions of rows as laws draw them: by columns they give what Python gives row by row."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holon.columnar.encoding import FEW
from holon.dataflow.arithmetic import as_list
from holon.dataflow.expressions import column_of
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed


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
    except (ArithmeticError, TypeError, AttributeError, ValueError) as error:
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
