"""Protobuf: drawn messages read as drawn Structs give the values that were written, and no bytes make a reader fail."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holon.formats.protobuf.messages import Schema
from holon.formats.registry import RegisteredSchema, UnknownSchema, head_of
from holon.protobuf import Protobuf

URL = "http://registry:8081"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def ints(bits: int, least: int) -> st.SearchStrategy[int]:
    return st.integers(least, 2**bits - 1)


SCALARS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "bool": (bool, st.booleans()),
    "double": (float, st.floats(allow_nan=False)),
    "float": (float, st.floats(allow_nan=False, width=32)),
    "string": (str, TEXTS),
    "bytes": (bytes, st.binary(max_size=6)),
    **{name: (int, ints(31, -(2**31))) for name in ("int32", "sint32", "sfixed32")},
    **{name: (int, ints(63, -(2**63))) for name in ("int64", "sint64", "sfixed64")},
    **{name: (int, ints(32, 0)) for name in ("uint32", "fixed32")},
    **{name: (int, ints(64, 0)) for name in ("uint64", "fixed64")},
}


class Drawn(NamedTuple):
    """The fields of a message, a Struct of them, and values as its constructor and the Struct's take them."""

    text: str
    type: Any
    values: st.SearchStrategy[dict[str, Any]]


@st.composite
def messages(draw: st.DrawFn, depth: int = 1) -> Drawn:
    lines: list[str] = []
    fields: list[Any] = []
    values: dict[str, st.SearchStrategy[Any]] = {}
    numbers = draw(st.lists(st.integers(1, 200), min_size=1, max_size=4, unique=True))
    for at, number in enumerate(numbers):
        name, kind = f"f{at}", draw(st.sampled_from(["plain", "optional", "repeated", "map", "message"][: 4 + depth]))
        scalar = draw(st.sampled_from(sorted(SCALARS)))
        of, value = SCALARS[scalar]
        if kind == "message":
            inner = draw(messages(depth - 1))
            lines.append(f"message M{at} {{ {inner.text} }} M{at} {name} = {number};")
            of, value = inner.type | None, st.one_of(st.none(), inner.values)
        elif kind == "map":
            lines.append(f"map<string, {scalar}> {name} = {number};")
            of, value = dict[str, of], st.dictionaries(TEXTS, value, max_size=2)
        elif kind == "repeated":
            lines.append(f"repeated {scalar} {name} = {number};")
            of, value = list[of], st.lists(value, max_size=3)
        elif kind == "optional":
            lines.append(f"optional {scalar} {name} = {number};")
            of, value = of | None, st.one_of(st.none(), value)
        else:
            lines.append(f"{scalar} {name} = {number};")
        fields.append((name, of))
        values[name] = value
    order = draw(st.permutations(fields))
    return Drawn(" ".join(lines), msgspec.defstruct("Row", order), st.fixed_dictionaries(values))


def constructed(values: Any) -> Any:
    """Without fields that are None, which a message's constructor does not take inside of messages."""
    if not isinstance(values, dict):
        return values
    return {name: constructed(value) for name, value in values.items() if value is not None}


@given(st.data(), st.binary(max_size=10))
def test_a_struct_has_the_values_that_were_written_and_damage_spares_its_neighbours(
    data: st.DataObject, noise: bytes
) -> None:
    found = data.draw(messages())
    text = f'syntax = "proto3"; message Row {{ {found.text} }}'
    message = Schema(RegisteredSchema(text, "PROTOBUF")).message("Row")
    values = data.draw(found.values)
    whole = head_of(3) + b"\x00" + message(**constructed(values)).SerializeToString()
    event = msgspec.convert(values, found.type)
    form = Protobuf(found.type, registry=URL, schemas={3: text})
    assert form.decode([whole]).events == [event]
    assert Protobuf(found.type, message=message).decode([whole[6:]]).events == [event]
    cut = data.draw(st.integers(0, len(whole)))
    damaged = [whole[:cut] + noise, whole[:cut] + noise + whole[cut + len(noise) :], noise]
    assert form.schemas is not None
    for id in (form.schemas.missing(damaged) or (0, []))[1]:
        form.schemas.learn(id, UnknownSchema())
    decoded = form.decode([whole, *damaged, whole])
    rows = list(range(5)) if decoded.rows is None else decoded.rows.tolist()
    assert sorted([*rows, *(row for row, _ in decoded.bad)]) == [0, 1, 2, 3, 4]
    assert decoded.events[0] == decoded.events[-1] == event


@given(st.text('messagenu{}=;"/*\n .<,>12[]ft', max_size=60))
def test_no_text_makes_a_schema_fail_otherwise_than_by_its_reason(text: str) -> None:
    form = Protobuf(dict[str, Any], registry=URL, schemas={3: text})
    decoded = form.decode([head_of(3) + b"\x00"])
    assert len(decoded.events) + len(decoded.bad) == 1
