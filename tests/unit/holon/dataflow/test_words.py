"""Words of texts, and texts in lower and upper case, by their bytes: as Python has them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from holon.columnar.casing import cased
from holon.columnar.payloads import Texts
from holon.dataflow.following.loops.words import Words

LETTERS = "ab AB\t\n\x1c\x1f\x0b Z\u00fc\u00a0\u00e9\u0130\u00df\u017f\u8a9e \u3000"
"""The first ones are ASCII, then there are others, and blanks of several bytes."""


@pytest.mark.parametrize("seed", range(40))
def test_words_and_cases_are_those_of_python(seed: int) -> None:
    draw = random.Random(seed)
    letters = LETTERS[: (8, 12, 13, len(LETTERS))[seed % 4]]
    each = ["".join(draw.choices(letters, k=draw.randrange(6))) for _ in range(draw.randrange(1, 12))]
    index = [draw.randrange(len(each)) for _ in range(draw.randrange(1, 14))]
    texts, expected = Texts.of(each).take(np.array(index)), [each[place] for place in index]
    assert list(cased(texts, str.lower)) == [text.lower() for text in expected]
    assert list(cased(texts, str.upper)) == [text.upper() for text in expected]
    words = Words.of(texts)
    if words is None:
        assert any(blank in text for text in each for blank in "\u00a0\u3000")
        return
    lists = [text.split() for text in expected]
    assert words.tolist() == lists and words.lengths().tolist() == list(map(len, lists))
    assert list(words.take(slice(1, None))) == lists[1:] and words.take(slice(1, None)).lengths().tolist() == [
        len(one) for one in lists[1:]
    ]
    flat, offsets = words.flat()
    assert list(flat) == [word for one in lists for word in one]
    assert offsets.tolist() == np.cumsum([0, *map(len, lists)]).tolist()
    assert [words[row] for row in range(len(lists))] == lists


def test_texts_far_apart_are_gathered() -> None:
    many = Texts.of([f"Word {number} Of \u00dc" for number in range(2_000)])
    some = many.take(np.array([3, 1_999, 3]))
    assert list(cased(some, str.upper)) == ["WORD 3 OF \u00dc", "WORD 1999 OF \u00dc", "WORD 3 OF \u00dc"]
    words = Words.of(some)
    assert words is not None and words.tolist()[1] == ["Word", "1999", "Of", "\u00dc"]
