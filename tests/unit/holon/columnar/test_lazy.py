"""Columns of fields that may be None: which rows are, and plain values where none is."""

from __future__ import annotations

import msgspec
import numpy as np

from holon.columnar.payloads import BinaryColumn, Texts
from holon.columnar.structs.kinds import MISSING, NULL, PRESENT
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.members import Members
from wcrdt.lattices.columns import group_by
from wcrdt.lattices.keyed.keys import grouped


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


def test_members_are_numbered_as_the_objects_that_they_are() -> None:
    numbers, tags = np.array([2, 0, 2, 1, 0, 2]), ("play", "seek", "stop", "never")
    members = Members(numbers, tags)
    column = LazyColumn(members, marks(*[PRESENT] * 6))
    known = column.numbered()
    assert known is not None and known[0].tolist() == [0, 1, 0, 2, 1, 0] and known[1] == ["stop", "play", "seek"]
    found, objects = grouped(column), grouped(column.tolist())
    assert found is not None and objects is not None
    assert found[0].tolist() == objects[0].tolist() == ["stop", "play", "seek"]
    assert found[1].sizes().tolist() == objects[1].sizes().tolist() == [3, 2, 1]
    assert group_by(column)[0] == group_by(column.tolist())[0]


def test_rows_that_are_no_texts_or_ints_have_no_numbers() -> None:
    numbers, here = np.array([0, 1, 0]), marks(PRESENT, PRESENT, PRESENT)
    assert Members(numbers, ("a", "a")).numbered_rows() is None, "equal objects are one key"
    assert Members(numbers, ("a", 1)).numbered_rows() is None
    assert Members(numbers, (1, True)).numbered_rows() is None
    tags = Members(numbers, ("a", "b"))
    assert LazyColumn(tags, marks(PRESENT, NULL, PRESENT)).numbered_rows() is None
    assert LazyColumn(tags, here).replaced(np.array([1]), ["c"]).numbered_rows() is None
    assert LazyColumn(np.array([1, 2, 3]), here).numbered_rows() is None
