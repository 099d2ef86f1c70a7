"""Keys together are in the partitions of the keys alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.outputs.partitioner import partition_of, partitions_of
from transactional.requests import requests

pytestmark = pytest.mark.laws


@given(st.lists(st.binary(max_size=90), max_size=6), st.integers(0, 250), st.integers(1, 300))
def test_many_keys_are_in_the_partitions_of_each_alone(drawn: list[bytes], others: int, partitions: int) -> None:
    keys = drawn + [b"%d" % (7**number) for number in range(others)]
    assert partitions_of(keys, partitions) == [partition_of(key, partitions) for key in keys]


@given(st.lists(st.text(min_size=1, max_size=50), max_size=6), st.integers(0, 120), st.integers(1, 16))
def test_many_ids_are_in_the_request_partitions_of_each_alone(drawn: list[str], others: int, partitions: int) -> None:
    names = [name for name in drawn if name.isprintable()] + [f"h{number}-é" for number in range(others)]
    assert requests.partitions_of(names, partitions) == [requests.partition_of(name, partitions) for name in names]
