"""Values of Arrow that are there for many rows: they are counted before they are made."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from holon.arrow import Arrow, ArrowColumns, write_atom
from holon.columnar.atoms.repetition import sizes_of
from tests.unit.holon.formats.arrow_arrays import runs

LARGE = 20_000
ALL = pa.array([0] * LARGE, pa.int32()), pa.array([LARGE] * LARGE, pa.int32())


_, ITS_BYTES, TEXT = pa.array(["7" * LARGE], pa.string_view()).buffers()
ONE_VIEW = pa.Array.from_buffers(
    pa.string_view(), LARGE, [None, pa.py_buffer(ITS_BYTES.to_pybytes()[:16] * LARGE), TEXT]
)


@pytest.mark.parametrize(
    ("declared", "column"),
    [
        (list[int], pa.ListViewArray.from_arrays(*ALL, pa.array([7] * LARGE, pa.int8()))),
        (list[int | None], pa.ListViewArray.from_arrays(*ALL, pa.array([7] * LARGE, pa.int8()))),
        (list[bytes], pa.ListViewArray.from_arrays(*ALL, pa.array([b"7"] * LARGE))),
        (list[int], runs([LARGE], [[7] * LARGE])),
        (dict[int, int], pa.DictionaryArray.from_arrays(
            pa.array([0] * LARGE, pa.int8()), pa.MapArray.from_arrays([0, LARGE], list(range(LARGE)), [7] * LARGE))),
        (list[list[int]], pa.ListViewArray.from_arrays(
            [0], [LARGE], pa.ListViewArray.from_arrays([0] * LARGE, [LARGE] * LARGE, pa.array([7] * LARGE)))),
        (str, runs([LARGE], ["7" * LARGE])),
        (str, ONE_VIEW),
    ],
)  # fmt: skip
def test_few_bytes_that_claim_to_be_gigabytes_of_values_are_a_dead_letter(declared: Any, column: Any) -> None:
    record = write_atom(pa.record_batch({"x": column}))
    assert len(record) < 1_000_000
    for form in (ArrowColumns({"x": declared}), Arrow(msgspec.defstruct("Event", [("x", declared)]))):
        assert "values of" in form.decode([record]).bad[0][1] and form.events_in(record) == 1


def test_values_that_many_rows_have_are_read_and_counted_as_often_in_each_type() -> None:
    columns: dict[str, Any] = {
        "v": pa.ListViewArray.from_arrays(pa.array([0, 0]), pa.array([2, 1]), pa.array([1, 2])),
        "d": pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array([{"a": "x"}])),
        "r": runs([2], [["y"]]),
        "u": pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array(["z"])]),
        "s": pa.array(["one", "two"], pa.string_view()),
        "m": pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.binary_view())),
    }
    record = write_atom(pa.record_batch(columns))
    assert Arrow(dict[str, Any]).decode([record]).events == [
        {"v": [1, 2], "d": {"a": "x"}, "r": ["y"], "u": "z", "s": "one", "m": {"k": b"v"}},
        {"v": [1], "d": None, "r": ["y"], "u": "z", "s": "two", "m": None},
    ]
    sizes = {name: sizes_of(column).tolist() for name, column in columns.items()}
    assert sizes == {
        "v": [24, 16], "d": [17, 17], "r": [17, 17], "u": [17, 17], "s": [11, 11], "m": [26, 8],
    }  # fmt: skip
