"""Rows of bytes: hashed and compared by compiled loops as by NumPy, and keys in their order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.columnar.loops import install, installed
from wcrdt.lattices.keyed.int_index import factor
from wcrdt.lattices.keyed.keys import KeyIndex, Keys
from wcrdt.lattices.keyed.spans import KeySpans, equal, hashes

pytestmark = pytest.mark.usefixtures("loops_installed")

WORDS = [b"", b"\0", b"\0\0", b"a", b"1234567", b"12345678", b"12345678\0", b"123456789", b"x" * 40, b"x" * 39 + b"y"]
PAIRS = st.tuples(st.sampled_from(WORDS), st.sampled_from(WORDS))
ROWS = st.lists(st.sampled_from(WORDS) | st.binary(max_size=20), min_size=1, max_size=40)


@pytest.fixture(params=["compiled", "numpy"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """With the compiled loops, or without."""
    before = installed()
    install(before if request.param == "compiled" else None)
    yield
    install(before)


@given(rows=ROWS, step=st.integers(1, 3))
def test_loops_hash_rows_as_numpy_does(rows: list[bytes], step: int) -> None:
    spans, before = KeySpans.of(rows).take(slice(None, None, step)), installed()
    by_loops = hashes(spans, factor()).tolist()
    install(None)
    try:
        assert hashes(spans, factor()).tolist() == by_loops
    finally:
        install(before)


@pytest.mark.usefixtures("loops")
def test_rows_are_compared_as_bytes_are() -> None:
    @settings(max_examples=50)
    @given(pairs=st.lists(PAIRS, min_size=1), step=st.integers(1, 3))
    def holds(pairs: list[tuple[bytes, bytes]], step: int) -> None:
        ones, others = (KeySpans.of(rows).take(slice(None, None, step)) for rows in zip(*pairs, strict=True))
        assert equal(ones, others).tolist() == [one == other for one, other in pairs[::step]]

    holds()


@pytest.mark.usefixtures("loops")
def test_the_order_of_an_index_is_that_of_its_keys_while_keys_are_added() -> None:
    @settings(max_examples=50)
    @given(batches=st.lists(ROWS, min_size=1, max_size=4))
    def holds(batches: list[list[bytes]]) -> None:
        index, known = KeyIndex("b"), list[bytes]()
        for rows in batches:
            fresh = [row for row in dict.fromkeys(rows) if row not in known]
            known += fresh
            if fresh:
                keys = Keys("b", [KeySpans.of(fresh)])
                index.add(keys, index.find(keys)[1])
            places = index.ascending(len(known))
            assert places is not None
            assert [known[place] for place in places.tolist()] == sorted(known)

    holds()


def test_an_index_is_not_sorted_for_few_of_its_keys() -> None:
    index = KeyIndex.of(Keys("b", [KeySpans.of([b"b", b"a", b"c"])]))
    assert index.ascending(1) is None
    assert index.ascending(2) is not None


def test_the_kept_order_of_an_index_counts_as_its_memory() -> None:
    index = KeyIndex.of(Keys("b", [KeySpans.of([b"b", b"a", b"c"])]))
    index.find(Keys("b", [KeySpans.of([b"a"])]))
    before = index.size_bytes
    order = index.ascending(3)
    assert order is not None and index.size_bytes == before + order.nbytes
