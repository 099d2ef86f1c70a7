"""Maps as columns combine as maps of objects do, whatever form each of the two has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.test_keyed_columns import (
    BYTES,
    EXAMPLES,
    INNER,
    KEYS,
    PAIRS,
    SMALL,
    TEXTS,
    as_objects,
    columns_of_few_keys,
    outcome_of_many,
    rows,
)
from wcrdt import MapOf, decode, encode
from wcrdt.laws import columns_of

__all__ = ["columns_of_few_keys"]
"""The fixture holds for this file, too."""

pytestmark = pytest.mark.laws


@pytest.mark.parametrize("name", INNER)
@settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)
@given(data=st.data())
def test_columns_combine_as_objects_do(name: str, data: st.DataObject) -> None:
    """Also where one side is empty, has other keys, or what columns cannot hold."""
    inner, elements = INNER[name]
    zero = MapOf(as_objects(inner))
    made: list[tuple[Any, Any]] = []
    for keys in data.draw(st.lists(st.sampled_from([SMALL, SMALL, TEXTS, PAIRS, BYTES, KEYS]), min_size=2, max_size=4)):
        columns, objects = MapOf(inner), zero.bottom()
        batches = st.lists(st.tuples(st.lists(st.tuples(keys, elements), max_size=8), st.integers(0, 2)), max_size=3)
        for batch, actor in data.draw(batches):
            for column in columns_of(batch):
                outcome_of_many(columns, column, actor)
                outcome_of_many(objects, column, actor)
        made.append((columns, objects))
    before = [encode(columns) for columns, _ in made]
    columns, objects = made[0]
    for more_columns, more_objects in made[1:]:
        columns.combine(more_columns)
        objects.combine(more_objects)
        assert not objects.held_as_columns
        assert rows(columns) == rows(objects)
        assert repr(columns.value) == repr(objects.value)
        assert encode(decode(encode(columns), MapOf(inner))) == encode(columns)
        assert encode(MapOf(inner).from_wire(rows(columns))) == encode(columns)
    assert [encode(columns) for columns, _ in made[1:]] == before[1:]
