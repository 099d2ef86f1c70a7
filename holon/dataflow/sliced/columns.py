"""Values of Python as columns of results."""

from __future__ import annotations

from typing import Any

import numpy as np

from holon.dataflow.groups import plain_value
from holon.formats.batch import Column


def plain_column(values: list[Any]) -> Column:
    """The values as rows hold them."""
    return number_column([plain_value(value) for value in values])


def number_column(values: list[Any]) -> Column:
    """Numbers of 64 bits as an array; other values as they are."""
    kinds = set(map(type, values))
    try:
        return np.array(values, np.int64 if kinds == {int} else np.float64) if kinds in ({int}, {float}) else values
    except OverflowError:
        return values
