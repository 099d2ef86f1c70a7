"""Drawn records of drawn Structs, unions and plain types: the compiled decoder and msgspec say the same of each.

The first seeds are unit tests, which also hold the comparison.
"""

from __future__ import annotations

import pytest

from tests.plain_types import Form
from tests.unit.holon.formats import test_json_columns as structs
from tests.unit.holon.formats import test_plain_types as plain
from tests.unit.holon.formats import test_union_events as unions

pytestmark = pytest.mark.usefixtures("loops_installed")

ALL = 150


@pytest.mark.parametrize("seed", range(structs.SEEDS, ALL))
def test_drawn_records_of_drawn_structs_are_read_as_msgspec_reads_them(seed: int) -> None:
    assert structs.compare(seed) == structs.RUNS * structs.RECORDS


@pytest.mark.parametrize("seed", range(unions.SEEDS, ALL))
def test_drawn_records_of_drawn_unions_are_read_as_msgspec_reads_them(seed: int) -> None:
    assert unions.compare_union(seed) == unions.RUNS * unions.RECORDS


@pytest.mark.parametrize("form", plain.FORMS)
@pytest.mark.parametrize("seed", range(plain.SEEDS, ALL // 2))
def test_drawn_records_of_drawn_plain_types_are_what_msgspec_makes_of_them(seed: int, form: Form) -> None:
    assert plain.compare_plain(seed, form) in (0, plain.RUNS * plain.RECORDS)
