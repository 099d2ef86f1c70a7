"""Max, Min, MaxBy, MinBy, TopK and the flags."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from wcrdt import (
    Bag,
    BoolAnd,
    BoolOr,
    ColumnsOf,
    GSet,
    Lattice,
    MapOf,
    Max,
    MaxBy,
    Min,
    MinBy,
    OfLargest,
    ORSet,
    TopK,
)
from wcrdt.lattices.columns import SelectedRows


def test_an_empty_extreme_reads_none_and_takes_no_none():
    assert Max().value is None and Min().value is None
    with pytest.raises(TypeError, match="None"):
        Max().insert(None)


@pytest.mark.parametrize(
    ("elements", "low", "high"),
    [
        ([3, -(2**80), 2**80], -(2**80), 2**80),
        (["b", "a", "é"], "a", "é"),
        ([(1, "z"), (1, "a"), (0,)], (0,), (1, "z")),
        ([Decimal("0.30"), 0.1, 1], 0.1, 1),
    ],
)
def test_extremes_of_every_kind(elements, low, high):
    top, bottom = Max(), Min()
    top.insert_many(elements)
    bottom.insert_many(elements)
    assert (bottom.value, top.value) == (low, high)


def test_equal_numbers_of_different_types_have_one_winner_whatever_the_order():
    for order in ([1, 1.0, Decimal(1)], [Decimal(1), 1.0, 1]):
        top, low = Max(), Min()
        top.insert_many(order)
        low.insert_many(order)
        assert (type(top.value), type(low.value)) == (Decimal, int)


def test_nan_is_refused_in_columns_too_and_changes_nothing():
    top = Max()
    with pytest.raises(ValueError, match="NaN"):
        top.insert_many(np.array([1.0, float("nan"), 2.0]))
    assert top.value is None


def test_a_column_with_one_refused_element_is_refused_as_a_whole():
    top = Max()
    with pytest.raises(TypeError):
        top.insert_many([1, 2, [3]])
    assert top.value is None


def test_all_ties_are_kept_in_order_and_equal_payloads_once():
    best = MaxBy()
    best.insert_many([(5, "b"), (7, "z"), (7, "a"), (7, "z"), (6, "c")])
    assert best.value == (7, ("a", "z"))


def test_the_first_tie_is_the_smallest_payload_whatever_the_order():
    for rows in ([(7, "z"), (7, "a"), (1, "0")], [(1, "0"), (7, "a"), (7, "z")]):
        best = MaxBy(ties="first")
        best.insert_many(rows)
        assert best.value == (7, "a")
        low = MinBy(ties="first")
        low.insert_many(rows)
        assert low.value == (1, "0")


def test_the_first_of_many_ties_is_the_smallest():
    best = MaxBy(ties="first")
    best.insert_many((np.zeros(26, np.int64), np.arange(26)[::-1] * 7919 + 10**6))
    best.insert_many([(0, letter) for letter in "zyxwvutsrqponmlkjihgfedcba"])
    assert best.value == (0, 10**6)


def test_argmax_of_columns_gives_plain_payloads():
    best = MaxBy()
    prices = np.array([5, 9, 9, 1])
    best.insert_many((prices, (np.array([1, 2, 3, 4]), ["a", "b", "c", "d"])))
    assert best.value == (9, ((2, "b"), (3, "c")))
    columns = MaxBy()
    columns.insert_many((prices, (np.array([1, 2, 3, 4]), prices)))
    assert repr(columns.value) == "(9, ((2, 9), (3, 9)))"


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="equally long"):
        MaxBy().insert_many((np.array([1, 2]), np.array([1])))


def test_other_ties_are_refused_and_not_merged():
    with pytest.raises(ValueError, match="ties"):
        MaxBy(ties="last")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="shape"):
        MaxBy().merge(MaxBy(ties="first"))


def test_topk_ranks_items_by_their_best_score():
    top = TopK(2)
    top.insert_many([(1, "a"), (5, "b"), (3, "a"), (4, "c"), (2, "b")])
    assert top.value == ((5, "b"), (4, "c"))
    top.insert((9, "a"))
    assert top.value == ((9, "a"), (5, "b"))


def test_topk_of_pairs_may_name_an_item_twice():
    top = TopK(3, distinct=False)
    top.insert_many((np.array([5, 5, 4, 4, 3]), np.array([1, 1, 2, 1, 9])))
    assert top.value == ((5, 1), (4, 1), (4, 2))


def test_equal_scores_at_the_border_are_decided_by_the_item():
    for rows in ([(1, "b"), (1, "a"), (1, "c")], [(1, "c"), (1, "b"), (1, "a")]):
        top = TopK(2)
        for row in rows:
            top.insert(row)
        assert top.value == ((1, "a"), (1, "b"))


def test_topk_of_many_columns_equals_a_sort():
    scores = np.arange(500) * 7919 % 101
    items = np.arange(500) * 104729 % 50
    pairs, distinct = TopK(10, distinct=False), TopK(10)
    for start in range(0, 500, 50):
        rows = slice(start, start + 50)
        pairs.insert_many((scores[rows], items[rows]))
        distinct.insert_many((scores[rows], items[rows]))
    everything = sorted({(-s, i) for s, i in zip(scores.tolist(), items.tolist(), strict=True)})
    assert pairs.value == tuple((-s, i) for s, i in everything[:10])
    best: dict[int, int] = {}
    for s, i in everything:
        best.setdefault(i, -s)
    assert distinct.value == tuple(sorted(((s, i) for i, s in best.items()), key=lambda p: (-p[0], p[1]))[:10])


def test_topk_needs_a_k():
    with pytest.raises(ValueError, match="at least 1"):
        TopK(0)


def test_flags_flip_once():
    some, every = BoolOr(), BoolAnd()
    assert (some.value, every.value) == (False, True)
    some.insert_many(np.array([False, True, False]))
    every.insert_many(np.array([True, True]))
    assert (some.value, every.value) == (True, True)
    every.insert(False)
    every.insert(True)
    assert (some.value, every.value) == (True, False)
    with pytest.raises(TypeError, match="takes bools"):
        some.insert(1)  # type: ignore[arg-type]


class Spans(list[str]):
    """A column of texts as one buffer."""

    def utf8(self) -> Any:
        rows = [row.encode("utf-8", "surrogatepass") for row in self]
        ends = np.cumsum([len(row) + 1 for row in rows]) - 1
        return np.frombuffer(b"|".join(rows) + bytes(8), np.uint8), ends - [len(row) for row in rows], ends

    def take(self, rows: Any) -> list[str]:
        return [self[row] for row in rows.tolist()]


def test_of_largest_has_equal_elements_as_often_as_they_come():
    best = OfLargest(Bag())
    prices, ids = np.array([3, 5, 5, 5, 4]), np.array([1, 2, 3, 2, 4])
    best.insert_many((prices, (ids, Spans(["a", "ü", "b", "ü", "c"]))), actor=1)
    assert best.value == (5, {(2, "ü"): 2, (3, "b"): 1})
    best.insert((4, (9, "a")), actor=1)
    best.insert((5, (2, "ü")), actor=2)
    assert best.value == (5, {(2, "ü"): 3, (3, "b"): 1})
    higher = OfLargest(Bag())
    higher.insert((6, (7, "z")))
    assert higher.merge(best) is False and best.merge(higher) is True
    assert best.value == higher.value == (6, {(7, "z"): 1})


@pytest.mark.parametrize(
    "column", [(np.array([1, 2]), Spans(["\ud800", "a"])), (np.array([1, 2]), [[1], 1]), ([None, 1], np.array([1, 2]))]
)
def test_of_largest_refuses_a_column_for_an_element_that_is_not_the_largest(column: Any):
    best = OfLargest(Bag())
    with pytest.raises((TypeError, ValueError)):
        best.insert_many(column)
    assert best.value is None


class Known(Spans):
    """Texts of which whoever made them knows that they are."""

    def utf8(self) -> Any:
        return *super().utf8(), True

    def tolist(self) -> list[str]:
        raise AssertionError("all of them are read")


@pytest.mark.parametrize("texts", [Spans, Known])
def test_of_largest_gathers_the_largest_of_selected_rows(texts: Callable[[list[str]], Spans]):
    best, index = OfLargest(Bag()), np.array([1, 2, 4])
    ids, names = np.array([9, 1, 2, 9, 3]), texts(["z", "a", "ü", "z", "b"])
    best.insert_many((np.array([5, 7, 7]), (SelectedRows(ids, index), SelectedRows(names, index))))
    assert best.value == (7, {(2, "ü"): 1, (3, "b"): 1})


def test_of_largest_refuses_selected_rows_and_not_those_beside_them():
    best, names, index = OfLargest(Bag()), Spans(["a", "\ud800", "b"]), np.array([0, 2])
    best.insert_many((np.array([1, 2]), SelectedRows(names, index)))
    assert best.value == (2, {"b": 1})
    with pytest.raises(ValueError):
        best.insert_many((np.array([1, 2]), SelectedRows(names, np.array([1, 2]))))
    with pytest.raises(TypeError):
        best.insert_many((np.array([4, 5]), SelectedRows(np.array([0.5, 1.0]), np.array([1, 0]))))
    assert best.value == (2, {"b": 1})


@pytest.mark.parametrize("base", [np.arange(40) * 7 % 13, Spans([str(row % 6) for row in range(40)])])
@pytest.mark.parametrize("bottom", [GSet(), Bag(), MapOf(Max()), ColumnsOf(Max())])
def test_selected_rows_are_a_column_as_any_other(base: Any, bottom: Lattice[Any, Any]):
    index = np.array([3, 3, 39, *range(30)])
    selected, gathered = SelectedRows(base, index), base[index] if isinstance(base, np.ndarray) else base.take(index)
    numbers = np.arange(len(index))
    of_map = isinstance(bottom, MapOf | ColumnsOf)
    for part in (slice(0, 2), slice(2, None)):
        states = bottom.bottom(), bottom.bottom()
        for state, column in zip(states, (selected, gathered), strict=True):
            state.insert_many((column[part], numbers[part]) if of_map else column[part])
        assert states[0] == states[1] != bottom.bottom()


def test_of_largest_takes_lattices_without_an_order_of_elements():
    with pytest.raises(TypeError, match="no order, not a orset"):
        OfLargest(ORSet())
