"""Batches: columns without None, and lengths of rows."""

import msgspec
import numpy as np
import pytest

from holon import Batch, JsonColumns
from holon.formats.json_columns import FEW


class Row(msgspec.Struct):
    level: float | None = None
    either: int | str | None = None
    count: int = 0


@pytest.fixture(params=[1, 2 * FEW], ids=["few rows", "many rows"])
def batch(request: pytest.FixtureRequest, loops_installed: None) -> Batch[Row]:
    payloads = [b'{"level":1.5,"either":3,"count":4}'] * request.param
    zeros = np.zeros(len(payloads), np.int64)
    return Batch(zeros, zeros, JsonColumns(Row).decode(payloads).columns, ())


def test_a_value_of_another_type_is_refused_with_the_column(batch: Batch[Row]) -> None:
    with pytest.raises(TypeError, match=r"column 'level': 0 cannot replace None, since 1\.5 has another type"):
        batch.filled("level", 0)
    with pytest.raises(TypeError, match=r"column 'either': 'none' cannot replace None, since 3"):
        batch.filled("either", "none")
    with pytest.raises(TypeError, match=r"column 'count': 0\.0 cannot replace None, since 4"):
        batch.filled("count", 0.0)


def test_a_column_that_has_no_none_stays_as_it_is(batch: Batch[Row]) -> None:
    assert batch.filled("count", 0) is batch["count"]


def test_unknown_columns_are_refused_with_the_names_that_there_are(batch: Batch[Row]) -> None:
    with pytest.raises(KeyError, match="no column 'size'; there are level, either, count"):
        batch.filled("size", 0)
    with pytest.raises(KeyError, match="no column 'size'"):
        batch.lengths("size")


def test_numbers_have_no_length(batch: Batch[Row]) -> None:
    with pytest.raises(TypeError, match="has no len"):
        batch.lengths("count")
