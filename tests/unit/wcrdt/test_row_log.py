"""Logs of rows: the order of rows, what a column is read as, and what is refused."""

import numpy as np
import pytest

from wcrdt import RowColumns, RowLog, canonical_bytes, decode


def plain(columns: RowColumns) -> list[list[object]]:
    return [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]


def test_rows_are_read_by_actor_and_then_as_they_came() -> None:
    log = RowLog(2)
    log.insert_many((np.array([3, 1]), ["c", "a"]), actor=1)
    log.insert((2, "b"), actor=0)
    log.insert((0, "z"), actor=1)
    assert plain(log.value) == [[2, 3, 1, 0], ["b", "c", "a", "z"]]
    assert plain(RowLog(1).value) == [[]]


def test_columns_of_plain_numbers_are_arrays_and_others_are_not() -> None:
    log = RowLog(5)
    log.insert_many((np.array([1, 2]), np.array([0.5, -0.0]), [True, False], [1, None], [2**70, 1]))
    ints, floats, *others = log.value
    assert isinstance(ints, np.ndarray) and ints.dtype == np.int64
    assert isinstance(floats, np.ndarray) and floats.dtype == np.float64 and not np.signbit(floats[1])
    assert others == [[True, False], [1, None], [2**70, 1]]
    assert decode(canonical_bytes(log), RowLog(5)) == log


def test_ints_that_come_alone_or_as_a_column_have_the_same_bytes() -> None:
    one, other = RowLog(1), RowLog(1)
    one.insert_many((np.arange(3),))
    for number in range(3):
        other.insert((number,))
    assert canonical_bytes(one) == canonical_bytes(other)


def test_a_delta_has_the_new_rows_and_fits_wherever_it_comes() -> None:
    log, first, second = RowLog(1), RowLog(1), RowLog(1)
    deltas = [log.insert_many((rows,), actor=1) for rows in ([0, "x", 2], [3], [4, 5])]
    assert [len(delta.value[0]) for delta in deltas] == [3, 1, 2]
    for delta in deltas:
        assert first.merge(delta) and not first.merge(delta)
    for delta in (deltas[2], deltas[0], log, deltas[1]):
        second.merge(delta)
    assert canonical_bytes(first) == canonical_bytes(second) == canonical_bytes(log)
    assert plain(second.value) == [[0, "x", 2, 3, 4, 5]]


def test_a_history_that_was_cut_at_other_rows_is_the_same() -> None:
    one, other = RowLog(1), RowLog(1)
    one.insert_many(([0, "x", 2, 3],))
    other.insert_many(([0, "x"],))
    deltas = [other.insert((number,)) for number in (2, 3)]
    one.merge(deltas[1])
    other.merge(one)
    short, part = RowLog(1), RowLog(1)
    short.insert_many(([0, "x"],))
    short.merge(one)
    assert canonical_bytes(short) == canonical_bytes(one)
    for delta in (deltas[1], one, deltas[0]):
        part.merge(delta)
    assert canonical_bytes(one) == canonical_bytes(other) == canonical_bytes(part)
    assert part.leq(one) and one.leq(part)


def test_arrays_of_others_may_change_behind_an_insert() -> None:
    log, rows = RowLog(1), np.arange(3)
    log.insert_many((rows,))
    rows[:] = 7
    assert plain(log.value) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("elements", "error"),
    [((np.arange(2),), TypeError), ((np.arange(2), [1]), ValueError), ((np.arange(1), [float("nan")]), ValueError),
     (([1], [[1]]), TypeError), ([(1,)], TypeError), ([1], TypeError)],
)  # fmt: skip
def test_rows_that_cannot_be_kept_change_nothing(elements: object, error: type[Exception]) -> None:
    log = RowLog(2)
    with pytest.raises(error):
        log.check_many(elements)
    with pytest.raises(error):
        log.insert_many(elements)
    assert log == RowLog(2)
    with pytest.raises(ValueError, match="1 element or more"):
        RowLog(0)
