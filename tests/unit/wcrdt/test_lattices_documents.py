"""Theta sketches and Yjs documents as lattices."""

import builtins
from itertools import permutations

import numpy as np
import pytest

from wcrdt import MapOf, RecordOf, ThetaSketch, YArray, YMap, YText, canonical_bytes, decode, encode
from wcrdt.lattices import theta
from wcrdt.lattices.documents import document as ydocument


def test_a_sketch_counts_exactly_while_it_can():
    sketch = ThetaSketch(5)
    sketch.insert_many([1, 1.0, True, "1", b"1", (1,), None, "", 1, "1"])
    assert sketch.exact and sketch.value == 8.0


def test_a_sketch_estimates_within_its_bounds_and_the_same_on_every_way():
    column = np.arange(20_000)
    whole, parts, back = ThetaSketch(), ThetaSketch(), ThetaSketch()
    whole.insert_many(column)
    shares = []
    for start in range(0, 20_000, 1_999):
        share = ThetaSketch()
        share.insert_many(column[start : start + 2_500])  # overlapping
        shares.append(share)
    for share in shares:
        parts.merge(share)
    for share in reversed(shares):
        back.merge(share)
    assert canonical_bytes(whole) == canonical_bytes(parts) == canonical_bytes(back)
    low, high = whole.bounds(3)
    assert not whole.exact and low <= 20_000 <= high


def test_a_sketch_needs_a_sensible_size():
    for lg_k in (4, 27):
        with pytest.raises(ValueError, match="between 5 and 26"):
            ThetaSketch(lg_k)


@pytest.mark.parametrize(
    ("module", "make", "extra"), [(theta, ThetaSketch, "sketches"), (ydocument, lambda: YText().value, "yjs")]
)
def test_a_missing_extra_is_named(module, make, extra, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name in ("datasketches", "pycrdt"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"pip install 'holon-streams\[{extra}\]'"):
        make()


def test_text_counts_code_points():
    text = YText()
    text.insert("héllo 😀")
    text.insert((7, "!"))
    assert text.value == "héllo 😀!"
    text.insert((1, "ÉÉ"))
    text.insert(("remove", 8, 1))
    text.insert(("remove", 0, 2))
    assert text.value == "Ééllo !"


def documents():
    """Edits of three actors, of which two saw the first one's."""
    first = YText()
    first.insert("base", actor=0)
    second, third = first.copy(), first.copy()
    second.insert((2, "-two-"), actor=1)
    second.insert(("remove", 0, 1), actor=1)
    third.insert((2, "-three-"), actor=2)
    third.insert("!", actor=2)
    first.insert((0, ">"), actor=0)
    return [first, second, third]


def test_any_order_of_merge_gives_the_same_text_and_bytes():
    seen = set()
    for order in permutations(documents()):
        merged = YText()
        for document in order:
            merged.merge(document)
            merged.merge(document)
        seen.add((merged.value, canonical_bytes(merged)))
    assert len(seen) == 1
    ((text, _),) = seen
    assert sorted(text) == sorted(">base-two--three-!".replace("b", "", 1))


def test_deltas_in_any_order_and_with_gaps_give_the_same_text():
    writer = YText()
    deltas = [writer.insert(word) for word in ("one ", "two ", (0, "zero "), ("remove", 5, 4))]
    for order in permutations(deltas):
        reader = YText()
        for delta in order:
            reader.merge(delta)
            reader.value  # noqa: B018  # reading in between must not matter
        assert reader == writer and reader.value == "zero two "


def test_the_same_edits_give_the_same_bytes_in_another_incarnation():
    assert [canonical_bytes(a) for a in documents()] == [canonical_bytes(b) for b in documents()]


def test_an_actor_goes_on_after_its_document_was_restored():
    writer = YText()
    writer.insert("abc", actor=5)
    early = writer.copy()
    restored = decode(encode(writer), YText())
    for replica in (writer, restored):
        replica.insert((1, "-"), actor=5)
    assert restored == writer and restored.value == "a-bc"
    early.merge(restored)
    assert early == writer


@pytest.mark.parametrize(
    "refused", [5, (9, "x"), (-1, "x"), (True, "x"), ("remove", 0, 4), ("remove", 4, 0), b"x", "\ud800"]
)
def test_text_refuses_other_edits_and_places_outside(refused):
    text = YText()
    text.insert("abc")
    before = encode(text)
    with pytest.raises((TypeError, ValueError, IndexError)):
        text.insert(refused)
    assert encode(text) == before


def test_an_edit_that_changes_nothing_is_no_edit():
    text, shared = YText(), YMap()
    assert text.insert("") == text.insert((0, "")) == text.insert(("remove", 0, 0)) == YText() == text
    assert shared.insert(("remove", "a")) == YMap() == shared


def test_an_edit_may_follow_another_one_of_its_key_in_a_few_rows():
    texts = MapOf(YText())
    texts.insert_many([("a", (0, "h")), ("b", (0, "x")), ("a", (1, "o")), ("a", (2, "!"))])
    assert texts.value == {"a": "ho!", "b": "x"}
    with pytest.raises(IndexError, match="index 5"):
        texts.insert_many([("b", (1, "y")), ("a", (3, "?")), ("a", (5, "?"))])
    assert texts.value == {"a": "ho!", "b": "x"}


def test_a_refused_column_of_edits_leaves_maps_and_records_as_they_were():
    notes = MapOf(YText())
    with pytest.raises(IndexError):
        notes.insert_many((["a", "b", "b"], ["x", "y", (5, "z")]))
    assert notes == MapOf(YText())
    record = RecordOf(a=YText(), b=YText())
    with pytest.raises(IndexError):
        record.insert_many((["x", "y"], ["y", (5, "z")]))
    assert record == record.bottom()
    record.insert_many((["x", (1, "y")], ["y", (0, "z")]))
    assert record.value == {"a": "xy", "b": "zy"}


def test_maps_and_arrays_hold_plain_values():
    values = [None, True, 0, -(2**63), 2**53 + 1, 0.5, "é", b"x", (1, ("a", None))]
    array, shared = YArray(), YMap()
    for number, value in enumerate(values):
        array.insert(("append", value))
        shared.insert(("set", f"k{number}", value))
    assert [repr(x) for x in array.value] == [repr(x) for x in values]
    assert list(map(repr, shared.value.values())) == [repr(x) for x in values]
    array.insert(("insert", 1, "new"))
    array.insert(("remove", 0))
    shared.insert(("remove", "k0"))
    assert array.value[:2] == ("new", True) and "k0" not in shared.value


def test_numbers_in_documents_are_those_of_json():
    whole, pointed = YArray(), YArray()
    whole.insert(("append", 1))
    pointed.insert(("append", 1.0))
    assert whole == pointed and repr(whole.value) == repr(pointed.value) == "(1,)"


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, float("nan")])
def test_documents_refuse_numbers_that_they_cannot_hold(value):
    with pytest.raises(ValueError):
        YArray().insert(("append", value))
    with pytest.raises(ValueError):
        YMap().insert(("set", "k", (value,)))


@pytest.mark.parametrize("edit", [("append",), ("put", 1), ("insert", 1, 1), ("remove", 0), ("insert", "0", 1), "x"])
def test_arrays_refuse_other_edits(edit):
    with pytest.raises((TypeError, IndexError)):
        YArray().insert(edit)


@pytest.mark.parametrize("edit", [("set", "k"), ("set", 1, 1), ("remove",), ("remove", "k", 1), ("add", "k"), "x"])
def test_maps_refuse_other_edits(edit):
    with pytest.raises(TypeError):
        YMap().insert(edit)


def test_actors_beyond_the_client_ids_of_yjs_are_refused():
    for actor in (-1, 2**53 - 1):
        with pytest.raises(ValueError, match="actor"):
            YText().insert("x", actor=actor)
    text = YText()
    text.insert("x", actor=2**53 - 2)
    assert decode(encode(text), YText()).value == "x"
