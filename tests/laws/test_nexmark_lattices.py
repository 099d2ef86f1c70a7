"""The benchmark's own lattices keep the laws, as any type of a user has to."""

import numpy as np
import pytest
from hypothesis import strategies as st

from nexmark.queries.counts import KeyCounts
from nexmark.queries.people import Named, Numbers
from wcrdt import DecodeError, check_laws
from wcrdt.lattices.keyed.packing import narrow

NUMBERS = st.integers(-(2**63), 2**63 - 1)


def test_counts_keep_the_laws() -> None:
    few = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**40, 2**63 - 1])
    check_laws(KeyCounts(), st.one_of(few, NUMBERS, st.sampled_from(["x", 2**63, True])))


def test_counts_of_actors_add_up() -> None:
    counts = KeyCounts()
    counts.insert_many(np.array([7, 3, 7]), actor=1)
    counts.insert_many(np.array([7, 2**60]), actor=2)
    keys, numbers = counts.value
    assert keys.tolist() == [3, 7, 2**60]
    assert numbers.tolist() == [1, 3, 1]


def test_sets_of_numbers_and_of_named_ones_keep_the_laws() -> None:
    numbers = st.one_of(st.sampled_from([-(2**63), 0, 1, 2**63 - 1]), NUMBERS)
    check_laws(Numbers(), st.one_of(numbers, st.sampled_from(["x", 2**63, True])))
    check_laws(Named(), st.tuples(numbers, st.sampled_from(["", "a", "\N{SNOWMAN}", "\udc80", 1])))


def test_columns_of_numbers_and_names_are_checked_as_pairs_are() -> None:
    named = Named()
    named.insert_many((np.array([2, 1]), ["b", "a"]))
    assert named.value == ((1, "a"), (2, "b"))
    for texts, error in ((["x", 1], TypeError), (["x", "\udc80"], ValueError), (["x"], ValueError)):
        with pytest.raises(error):
            named.insert_many((np.array([3, 4]), texts))
    with pytest.raises(TypeError):
        named.insert_many((np.array([1.5, 2.5]), ["x", "y"]))
    assert named.value == ((1, "a"), (2, "b"))
    wire = named.to_wire()
    for texts in (["a", 1], ["a", "\ud83d"], ["a"]):
        with pytest.raises(DecodeError):
            Named().from_wire([wire[0], texts])
    same = narrow(np.array([1, 1]))
    assert Named().from_wire([same, ["a", "b"]]).value == ((1, "a"), (1, "b"))
    for texts in (["b", "a"], ["a", "a"]):
        with pytest.raises(DecodeError):
            Named().from_wire([same, texts])


def test_letters_are_no_list_of_names() -> None:
    wire = Named().to_wire()
    one = Named().insert((1, "x")).to_wire()
    for texts in ("x", ("x",), None):
        with pytest.raises(DecodeError):
            Named().from_wire([one[0], texts])
    assert Named().from_wire(wire).value == ()


def test_one_number_may_have_two_names() -> None:
    named = Named()
    named.insert_many((np.array([2, 1, 2]), ["b", "a", "a"]))
    assert named.value == ((1, "a"), (2, "a"), (2, "b"))
