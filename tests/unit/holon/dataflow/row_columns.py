"""Rows by columns, and what a function that is followed gives for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed


def rows_with(columns: dict[str, Any], struct: Any) -> Rows:
    """All rows of these columns, each of the same length."""
    places = np.arange(len(next(iter(columns.values()))))
    return Rows(places, places, columns=columns, struct=struct)


def column_by(function: Callable[[Any], Any], rows: Rows, struct: Any) -> Any:
    """The column of results, of several a tuple. Fails where the function is not followed."""
    decision, why_not = followed(function, struct, checked=True)
    assert decision is not None, why_not
    return column_of(decision, rows)


def values_by(function: Callable[[Any], Any], rows: Rows, struct: Any) -> list[Any]:
    """The result of each row."""
    return listed(column_by(function, rows, struct))


def listed(column: Any) -> list[Any]:
    """The rows of a column, or of the columns of a tuple."""
    return list(zip(*map(as_list, column), strict=True)) if isinstance(column, tuple) else as_list(column)
