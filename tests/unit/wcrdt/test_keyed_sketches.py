"""Theta sketches by key as columns (wcrdt/lattices/keyed/members/sketches.py), and their hashes."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcrdt import ColumnsOf, GCounter, MapOf, RecordOf, ThetaSketch, decode, encode
from wcrdt.codec import DecodeError
from wcrdt.lattices.keyed.members.murmur import hashes_of_ints, hashes_of_texts
from wcrdt.lattices.keyed.packing import narrow
from wcrdt.lattices.keyed.spans import KeySpans

LG_K, K = 5, 32
KEYS = np.arange(64)
# Of a release in which a sketch was an object a key.
WRITTEN = (
    "eNqbwrg4N7Fg0tKSjNSSRNY7DIKTGI5oMDEzMzBInZkMJMHgaXbiuxMNLgr+W5cmVVuqqR2r+5AWbcxoP4kRU63oz9rTe9sWsmKo"
    "ZcFUe3j6H6HGgrlyGGo5jzJKMEMVK0AVp9gK5XVft/b8bVHZKazSz/jo1vn5Z1/tY4FZ6HBP7+HJ27Ycmd07J+7ICOf4J6Yo/HvG"
    "HoGJc7/GfMvfJbjXqLjIbeIZkVPMiaueG88Xnb24RZDt7klp/0++D/bwrJPJXSm2xystUQ7mKOWl0RZSf0vkYZ6323VncX7+NoVt"
    "n/o6/eOLFKUuGnDP7NFX+j7t91VOz1Wqp2MNdL8dsdG4utP5epummeasKxIaxssW6qZf+J4gzOGjN1NoI0er8HYDt0dHjFarhJqG"
    "yx2Zs95xutUhk2ePIltkrWNWhzgI21ba3p7O8rHqtpJd+o+1Xytudts/fKfxiOvGWZftSVKavZzeHpMEMAMS5neMgJTEVAsLBwy1"
    "KphqYWGIodYQUy26mgdful/NbD5cM8kBUy0sjjDMDcRUCwtnDLUphN1wQ1e53Hunad2kSky1sHSEYe6ZCZiKYYkBU/FK3K6AxTBC"
    "8RFMxbBkhWnyQ0zFsDSKofgsIwPh0IClIABOPGAL"
)


def hash_of(element: int | str) -> int:
    sketch = ThetaSketch()
    sketch.insert(element)
    return int(sketch.hashes()[0][0])


def test_columns_are_hashed_as_datasketches_hashes_elements() -> None:
    ints = [0, 1, -1, 2**63 - 1, -(2**63), 12345]
    assert hashes_of_ints(np.array(ints)).tolist() == list(map(hash_of, ints))
    texts = ["x" * size for size in range(1, 70)] + ["é" * size for size in range(1, 40)] + ["a\0b", "ab\0", "\0"]
    texts = texts[1::2] + texts[::2]
    found = hashes_of_texts(KeySpans.of([text.encode() for text in texts]))
    assert found.tolist() == list(map(hash_of, texts))


def test_every_kind_of_element_is_counted_by_key_as_by_a_sketch_alone() -> None:
    elements: list[Any] = [0, 2**70, True, 1.5, "", "é" * 20, "a", b"", b"a", None, (1, "a"), -(2**63)]
    state, alone = MapOf(ThetaSketch(LG_K)), ThetaSketch(LG_K)
    alone.insert_many(elements)
    for column in (elements, elements[:1] + elements):
        state.insert_many((np.repeat(KEYS, len(column)), column * len(KEYS)))
    assert state.held_as_columns
    assert encode(state.entries()[63]) == encode(alone) and state.value[63] == 12.0
    for wrong in (float("nan"), "\ud800", [1]):
        with pytest.raises((TypeError, ValueError)):
            state.insert_many((KEYS[:1], [wrong]))
    assert state.value[0] == 12.0


BATCHES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 400), st.integers(0, 2**32 - 1), st.sampled_from([40, 2_000])),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=30)
@given(batches=BATCHES, order=st.permutations(range(3)))
def test_full_sketches_by_key_are_those_of_all_elements_together(
    batches: list[tuple[int, int, int, int]], order: list[int]
) -> None:
    """Three replicas take some batches each; their states, and the deltas of all, meet in any order."""
    states = [MapOf(ThetaSketch(LG_K)) for _ in range(3)]
    deltas, expected = MapOf(ThetaSketch(LG_K)), [ThetaSketch(LG_K) for _ in KEYS]
    for state in states:
        deltas.merge(state.insert_many((KEYS, KEYS)))
    for at, count, seed, most in batches:
        draw = np.random.default_rng(seed)
        keys, elements = draw.integers(0, 3, count), draw.integers(0, most, count)
        before = states[at].copy()
        delta = states[at].insert_many((keys, elements))
        before.merge(decode(encode(delta), delta))
        assert before == states[at]
        deltas.merge(delta)
        for key in range(3):
            expected[key].insert_many(elements[keys == key])
    for key, sketch in enumerate(expected):
        sketch.insert(key)
    met = MapOf(ThetaSketch(LG_K))
    for at in order:
        below = states[at].leq(met)
        assert met.merge(states[at]) != below
        assert not met.merge(states[at]) and states[at].leq(met)
    assert met.held_as_columns and deltas == met
    assert met.value == {key: sketch.value for key, sketch in enumerate(expected)}
    assert [encode(each) for each in met.entries().values()] == list(map(encode, expected))
    back = decode(encode(met), met)
    assert back == met and encode(back) == encode(met)


def test_estimates_are_read_as_a_column() -> None:
    state = ColumnsOf(RecordOf(n=GCounter(), who=ThetaSketch(LG_K)))
    keys = np.repeat(KEYS, 100)
    state.insert_many((keys, (np.ones(6400, np.int64), np.arange(6400))))
    names, columns = state.value.columns()
    assert names.tolist() == KEYS.tolist() and columns["n"].tolist() == [100] * 64
    assert columns["who"].dtype == np.float64 and columns["who"].tolist() == [v["who"] for v in state.value.values()]
    assert 60 < columns["who"][0] < 150 and len(set(columns["who"].tolist())) > 32


def test_hashes_of_which_the_first_bits_are_the_same_stay_in_order() -> None:
    def of(hashes: np.ndarray[Any, Any]) -> MapOf[Any, Any, Any]:
        sizes = narrow(np.full(64, len(hashes)))
        return MapOf(ThetaSketch(LG_K)).from_wire(
            [1, "i", narrow(KEYS), [sizes, None, np.tile(hashes, 64).astype("<i8").tobytes()]]
        )

    odd, even = of(np.arange(1, 20, 2)), of(np.arange(2, 20, 2))
    assert odd.merge(even) and odd == of(np.arange(1, 20)) and not odd.merge(even)
    assert odd.merge(of(np.arange(10, 42))) and odd.value[5] > 1e18
    hashes, bound = odd.entries()[5].hashes()  # type: ignore[attr-defined]
    assert hashes.tolist() == list(range(1, 33)) and bound == 33


def test_maps_of_sketches_that_an_earlier_release_wrote_are_read() -> None:
    state = MapOf(ThetaSketch(LG_K))
    for key in range(17):
        elements: Any = range(40) if key == 3 else [key, "é", b"b"]
        for number, element in enumerate(elements):
            state.insert((key * key, element), actor=number % 2)
    back = decode(zlib.decompress(base64.b64decode(WRITTEN)), state)
    assert back == state and back.value == state.value and back.value[9] > 40
    back.insert_many((KEYS * KEYS, KEYS + 1000))
    assert back.held_as_columns and back.value[4] == back.value[256] == 4.0


def test_a_sketch_is_made_of_its_hashes() -> None:
    for count in (0, 1, 2, 32, 33, 500):
        sketch = ThetaSketch(LG_K)
        sketch.insert_many(range(count))
        twin = ThetaSketch(LG_K).of_hashes(*sketch.hashes())
        assert encode(twin) == encode(sketch) and twin.value == sketch.value


@pytest.mark.parametrize(
    ("sizes", "bounds", "hashes"),
    [
        (None, None, range(64)),
        (None, None, [2**63 - 1] * 64),
        (None, None, [-1] * 64),
        (None, narrow(np.arange(0)), range(1, 65)),
        (narrow(np.full(64, 2)), None, [2, 1] * 64),
        (narrow(np.full(64, 2)), None, [1, 1] * 64),
        (narrow(np.full(64, K + 1)), None, [*range(1, K + 2)] * 64),
        (narrow(np.full(64, K)), narrow(np.full(64, K)), [*range(1, K + 1)] * 64),
        (narrow(np.full(64, K)), narrow(np.full(64, 2**63 - 1)), [*range(1, K + 1)] * 64),
        (narrow(np.full(64, K)), narrow(np.full(63, K + 1)), [*range(1, K + 1)] * 64),
        (narrow(np.full(63, 1)), None, range(1, 64)),
    ],
)
def test_damaged_columns_of_sketches_are_refused(sizes: Any, bounds: Any, hashes: Any) -> None:
    like = MapOf(ThetaSketch(LG_K))
    wire = [1, "i", narrow(KEYS), [sizes, bounds, np.array([*hashes]).astype("<i8").tobytes()]]
    with pytest.raises(DecodeError):
        like.from_wire(wire)
    whole = [1, "i", narrow(KEYS), [None, None, np.arange(1, 65).astype("<i8").tobytes()]]
    assert like.from_wire(whole).value[0] == 1.0
