"""Rows of Arrow that are dead: in columns that lie there, in those that msgspec makes, and in both."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from holon.arrow import ArrowColumns, write_atom


@pytest.mark.parametrize("dead", [[], [0], [1], [0, 2], [3]])
@pytest.mark.parametrize("unfit", [[], [1], [2, 4]])
def test_columns_that_msgspec_makes_are_of_their_rows_beside_dead_rows_of_either_kind(
    dead: list[int], unfit: list[int]
) -> None:
    class Counted(msgspec.Struct):
        id: int
        by_name: dict[str, int | str]

    ids = pa.array([None if n in dead else n for n in range(6)], pa.int64())
    counts = pa.array([{"a": n, "b": None if n in unfit else 1} for n in range(6)])
    form = ArrowColumns(Counted)
    assert [read for name, _, read in form.columns_read() if name == "by_name"] == [False]
    found = form.decode([write_atom(pa.record_batch({"id": ids, "by_name": counts}))])
    good = [n for n in range(6) if n not in dead and n not in unfit]
    assert list(found.columns["id"]) == good
    assert list(found.columns["by_name"]) == [{"a": n, "b": 1} for n in good]
    assert [place for _, place, _ in found.bad_events] == sorted({*dead, *unfit})
