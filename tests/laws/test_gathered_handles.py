"""Laws: elements that are gathered without a check are those that would pass it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.program.gathered_handles import is_key, numbers_check
from tests.unit.holon.program.test_gathered_handles import NO_NUMBERS, PARTS
from wcrdt import RecordOf
from wcrdt.elements import identity, plain
from wcrdt.lattices.exact_sums.decimals import is_small

NUMBERS = st.integers(0, 5) | st.floats(0.0, 5.0) | st.decimals(-5, 5, places=2)
ODD = st.sampled_from([-1, True, None, "1", math.nan, -math.inf, 2**70, (1,), -0.0])
ODD |= st.sampled_from([*NO_NUMBERS, Decimal("-0.0"), Decimal("1E-999")])


def is_plain(number: Any, part: Any) -> bool:
    return type(number) in part.kinds or (part.decimals and type(number) is Decimal and is_small(number))


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
def test_numbers_that_need_no_check_are_those_that_pass_it(width: int) -> None:
    parts, record = PARTS[:width], RecordOf({str(place): part for place, part in enumerate(PARTS[:width])})
    are_numbers = numbers_check(record.parts)

    @given(element=st.lists(NUMBERS | ODD, min_size=width, max_size=width).map(tuple))
    def holds(element: tuple[Any, ...]) -> None:
        plain_parts = all(is_plain(one, part) for one, part in zip(element, parts, strict=True))
        try:
            record.check(element)
            accepted = True
        except (TypeError, ValueError):
            accepted = False
        assert are_numbers(element) == (plain_parts and accepted)

    holds()
    assert not are_numbers((1,) * (width + 1)) and not are_numbers([1] * width) and not are_numbers(1)


@given(st.recursive(st.integers() | st.text(max_size=2) | ODD, lambda inner: st.lists(inner, max_size=3).map(tuple)))
def test_keys_without_a_check_are_their_own_identities(key: Any) -> None:
    if is_key(key):
        assert identity(plain(key)) is key or identity(plain(key)) == key
