"""Comparison of results as multisets."""

from __future__ import annotations

import pytest

from nexmark.oracle.compare import RecordCounts, compare


def test_order_of_rows_and_of_columns_does_not_matter() -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 1, "b": "x"}]
    assert compare(rows, [{"b": "y", "a": 2}, rows[0], {"b": "x", "a": 1}]).differences == 0


def test_repeats_count() -> None:
    row = {"a": 1}
    found = compare([row], [row, row, row])
    assert (found.differences, found.first) == (2, ['expected 1 times, got 3: {"a":1}'])


def test_a_changed_row_is_one_missing_and_one_not_expected() -> None:
    found = compare([{"a": 1}], [{"a": 2}])
    assert found.differences == 2
    assert found.first == ['missing: {"a":1}', 'not expected: {"a":2}']


@pytest.mark.parametrize("other", [1.0, True, "1", None])
def test_values_of_other_types_differ(other: object) -> None:
    assert compare([{"a": 1}], [{"a": other}]).differences == 2


def test_missing_and_further_columns_differ() -> None:
    assert compare([{"a": 1, "b": 2}], [{"a": 1}]).differences == 2
    assert compare([{"a": 1}], [{"a": 1, "b": 2}]).differences == 2


def test_only_the_first_differences_are_described_but_all_are_counted() -> None:
    found = compare([], ({"a": number} for number in range(1000)), first=3)
    assert (found.differences, len(found.first)) == (1000, 3)


def test_counts_name_what_differs() -> None:
    expected = RecordCounts(accepted=10, filtered=2, late=1, dead=0)
    assert expected.total == 13
    assert expected.differences(expected) == []
    assert expected.differences(RecordCounts(9, 2, 2, 0)) == ["accepted: expected 10, got 9", "late: expected 1, got 2"]
