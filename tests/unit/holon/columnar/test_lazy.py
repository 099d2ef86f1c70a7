"""Columns of fields that may be None: which rows are, and plain values where none is."""

from __future__ import annotations

import msgspec
import numpy as np

from holon.columnar.payloads import BinaryColumn, Texts
from holon.columnar.structs.kinds import MISSING, NULL, PRESENT
from holon.columnar.structs.lazy import LazyColumn


def marks(*given: int) -> np.ndarray:
    return np.array(given, np.int64)


def test_rows_without_a_value_are_known_without_making_objects() -> None:
    column = LazyColumn(np.array([1, 2, 3, 4]), marks(PRESENT, NULL, MISSING, PRESENT), missing=7)
    nones = column.nones()
    assert nones is not None and nones.tolist() == [False, True, False, False]
    assert column.present() is None
    other = LazyColumn(np.array([1, 2]), marks(PRESENT, MISSING)).replaced(np.array([0]), [None])
    assert other.nones() is not None and other.tolist() == [None, None]
    assert np.all(other.nones())


def test_values_of_all_rows_are_plain_columns() -> None:
    column = LazyColumn(np.array([1, 2, 3]), marks(PRESENT, NULL, PRESENT))
    present = column.take(np.array([0, 2])).present()
    assert isinstance(present, np.ndarray) and present.tolist() == [1, 3]
    texts = LazyColumn(Texts.of(["a", "b"]), marks(PRESENT, PRESENT)).present()
    assert isinstance(texts, Texts) and list(texts) == ["a", "b"]


def test_bytes_that_are_decoded_are_none_where_they_are_null() -> None:
    decode = msgspec.json.decode
    column = LazyColumn(BinaryColumn.of([b"[1]", b"", b"true"]), marks(PRESENT, NULL, PRESENT), decode=decode)
    nones = column.nones()
    assert nones is not None and nones.tolist() == [False, True, False]
    null = LazyColumn(BinaryColumn.of([b"null", b"1"]), marks(PRESENT, PRESENT), decode=decode)
    assert (null.nones(), null.present(), null.tolist()) == (None, None, [None, 1])
