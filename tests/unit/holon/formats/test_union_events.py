"""Events that are one of several Structs with tags: as columns they are what msgspec says, values and reasons."""

from __future__ import annotations

import random
from typing import Any, Union, get_args

import msgspec
import pytest

from holon import Json, JsonColumns
from holon.columnar.loops import installed
from holon.errors import JobError
from tests.column_readings import readings, taken, without_loops
from tests.json_records import UnionSchema
from tests.unit.holon.formats.test_json_columns import INPUTS, ODD_PETS, PETS, Cat, Click, Dog, Key

pytestmark = pytest.mark.usefixtures("loops_installed")

RUNS, RECORDS = 3, 60
SEEDS = 15
"""More of them are in tests/laws/test_drawn_columns.py."""


def compare_union(seed: int) -> int:
    """Draw a union and records of it, and read them as columns, both ways, and as objects; returns how many."""
    draw = random.Random(seed)
    schema = UnionSchema(draw)
    columns, events = JsonColumns[Any](schema.type), Json[Any](schema.type)
    names = [kind.__name__ for kind in get_args(schema.type)]
    for _ in range(RUNS):
        payloads = [schema.record(draw) for _ in range(RECORDS)]
        found, wanted = readings(columns, payloads), events.decode(payloads)
        assert found == without_loops(columns, payloads), f"seed {seed}"
        assert found[2] == wanted.bad, f"seed {seed}"
        objects = zip(*(columns.decode(payloads).columns[name] for name in names), strict=True)
        made = [[one for one in row if one is not None] for row in objects]
        assert repr(made) == repr([[event] for event in wanted.events]), f"seed {seed}"
    return RUNS * RECORDS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_drawn_records_of_drawn_unions_are_read_as_msgspec_reads_them(seed: int) -> None:
    compare_union(seed)


@pytest.mark.nightly
def test_ten_million_drawn_records_of_unions_are_read_as_msgspec_reads_them() -> None:
    seed, compared = random.randrange(1 << 40), 0
    while compared < 10_000_000:
        compared += compare_union(seed)
        seed += 1


def test_events_that_are_one_of_several_structs_need_no_msgspec_until_somebody_asks_for_the_objects() -> None:
    payloads = [f" {pet}\n".encode() for pet in PETS] * 9
    assert all(taken(Cat | Dog, payloads))
    found = JsonColumns(Cat | Dog).decode(payloads).columns
    pets = [msgspec.json.decode(payload, type=Cat | Dog) for payload in payloads]
    assert found["type"] == ["cat" if isinstance(pet, Cat) else "dog" for pet in pets]
    assert found["Cat"] == [pet if isinstance(pet, Cat) else None for pet in pets]
    assert found["Cat.lives"] == [pet.lives if isinstance(pet, Cat) else None for pet in pets]
    places = [pet.home if isinstance(pet, Dog) else None for pet in pets]
    assert found["Dog.home.lat"] == [None if place is None else place.lat for place in places]
    inputs = [one.encode() for one in INPUTS[1:]] * 8
    assert all(taken(Key | Click, inputs))
    assert JsonColumns(Key | Click).decode(inputs).columns["kind"][:2] == [1, 12]


def test_events_without_their_tag_or_with_two_are_msgspecs() -> None:
    refused = [one.encode() for one in ODD_PETS]
    assert not any(taken(Cat | Dog, refused * 2))
    large = [b'{"type":"cat","lives":%d}' % 2**70]
    mixed = [*refused, *large, *(pet.encode() for pet in PETS)] * 2
    columns, wanted = JsonColumns(Cat | Dog), Json[Any](Cat | Dog).decode(mixed)
    assert readings(columns, mixed) == without_loops(columns, mixed)
    assert columns.decode(mixed).bad == wanted.bad
    assert 2**70 in columns.decode(mixed).columns["Cat.lives"], "as Json takes it"


class Even(msgspec.Struct, tag="even"):
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError(f"{self.n} is odd")


class Pair(msgspec.Struct, tag="pair", array_like=True):
    left: int
    right: int


class Single(msgspec.Struct, tag="single", array_like=True):
    only: int


@pytest.mark.parametrize(
    ("of", "records", "field", "values"),
    [
        (Cat | Even, [PETS[0], '{"type":"even","n":2}', '{"type":"even","n":3}'], "Even.n", [None, 2]),
        (Pair | Single, ['["pair",1,2]', '["single",3]', '["both"]'], "Pair.right", [2, None]),
    ],
)
def test_unions_that_no_loop_reads_have_columns_by_msgspec(
    of: Any, records: list[str], field: str, values: list[Any]
) -> None:
    payloads, columns, loops = [one.encode() for one in records] * 9, JsonColumns[Any](of), installed()
    assert loops is not None and columns.reader(loops) is None
    found, wanted = columns.decode(payloads), Json[Any](of).decode(payloads)
    assert found.columns[field] == values * 9 and found.bad == wanted.bad
    assert {name for name, _, is_compiled in columns.columns_read() if not is_compiled} == set(found.columns)


def test_unions_whose_columns_have_one_name_are_refused() -> None:
    one, two = (msgspec.defstruct("Same", [("a", int)], tag=tag) for tag in ("x", "y"))
    with pytest.raises(JobError, match="two of its columns have one name"):
        JsonColumns(Union[one, two])  # noqa: UP007
    with pytest.raises(JobError, match="or a plain dataclass, TypedDict or NamedTuple, got"):
        JsonColumns(Cat | None)
    with pytest.raises(JobError, match=r"Cat \| Dog has no column 'lives'; it has type, Cat, Cat.lives"):
        JsonColumns(Cat | Dog).check_column("lives")
