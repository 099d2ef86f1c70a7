"""Whether stored state fits the types that the code has now: by field, and by what would become of the values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest

from holon.fingerprint.fitting import misfits
from holon.fingerprint.schema import TypeShape, shape_of
from holon.fingerprint.version import FORMAT, JobVersion


class Old(msgspec.Struct):
    balance: int = 0
    note: str = ""


class Added(msgspec.Struct):
    balance: int = 0
    note: str = ""
    limit: int = 5


class Renamed(msgspec.Struct):
    saldo: int = 0
    note: str = ""


class Removed(msgspec.Struct):
    balance: int = 0


class Retyped(msgspec.Struct):
    balance: str = ""
    note: str = ""


class Widened(msgspec.Struct):
    balance: float | None = 0
    note: str = ""


class Required(msgspec.Struct):
    limit: int
    balance: int = 0
    note: str = ""


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    balance: int = 0


class Defaulted(msgspec.Struct):
    balance: int = 100
    note: str = ""


class Aliased(msgspec.Struct, rename={"balance": "amount"}):
    balance: int = 0
    note: str = ""


@dataclass
class AsDataclass:
    balance: int = 0
    note: str = ""


class Row(msgspec.Struct, array_like=True):
    balance: int = 0
    note: str = ""


class RowSwapped(msgspec.Struct, array_like=True):
    note: str = ""
    balance: int = 0


class RowLonger(msgspec.Struct, array_like=True):
    balance: int = 0
    note: str = ""
    limit: int = 0


class Pair(NamedTuple):
    balance: int = 0
    note: str = ""


class Sparse(msgspec.Struct, omit_defaults=True):
    balance: int = 0


class SparseRequired(msgspec.Struct, omit_defaults=True):
    balance: int


class Loose(TypedDict, total=False):
    balance: int


class Strict(TypedDict):
    balance: int


class Tagged(msgspec.Struct, tag="old"):
    balance: int = 0


class TaggedOther(msgspec.Struct, tag="new"):
    balance: int = 0


class Holding(msgspec.Struct):
    each: dict[str, list[Old]] = {}


class HoldingRenamed(msgspec.Struct):
    each: dict[str, list[Renamed]] = {}


class Tree(msgspec.Struct):
    value: int = 0
    children: list[Tree] = []


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class FewerColors(enum.Enum):
    RED = 1


FITS, LOSES, BREAKS = "fits", "loses", "breaks"


@pytest.mark.parametrize(
    ("old", "new", "verdict", "place"),
    [
        (Old, Old, FITS, ""),
        (Old, Added, FITS, ""),
        (Old, AsDataclass, FITS, ""),
        (Old, Widened, FITS, ""),
        (Old, dict[str, Any], FITS, ""),
        (Old, Any, FITS, ""),
        (Row, RowLonger, FITS, ""),
        (Row, Pair, FITS, ""),
        (Tree, Tree, FITS, ""),
        (FewerColors, Color, FITS, ""),
        (Literal["a"], Literal["a", "b"], FITS, ""),
        (int, float, FITS, ""),
        (int, int | None, FITS, ""),
        (list[int], tuple[int, ...], FITS, ""),
        (Any, Old, LOSES, "state"),
        (Literal["a"], str, LOSES, "state"),
        (Old, Renamed, LOSES, "state.balance"),
        (Old, Removed, LOSES, "state.note"),
        (Old, Aliased, LOSES, "state.balance"),
        (Old, Defaulted, LOSES, "state.balance"),
        (Holding, HoldingRenamed, LOSES, "state.each[value][each].balance"),
        (RowLonger, Row, LOSES, "state.limit"),
        (list[int], set[int], LOSES, "state"),
        (int, Annotated[int, msgspec.Meta(ge=0)], LOSES, "state"),
        (Old, Retyped, BREAKS, "state.balance"),
        (Old, Required, BREAKS, "state.limit"),
        (Old, Closed, BREAKS, "state.note"),
        (Row, RowSwapped, BREAKS, "state.note"),
        (Old, Row, BREAKS, "state"),
        (Old, dict[str, int], BREAKS, "state.note"),
        (Sparse, SparseRequired, BREAKS, "state.balance"),
        (Loose, Strict, BREAKS, "state.balance"),
        (Tagged, TaggedOther, BREAKS, "state"),
        (Color, FewerColors, BREAKS, "state"),
        (int | None, int, BREAKS, "state"),
        (dict[str, int], dict[int, int], BREAKS, "state[key]"),
        (list[int], list[str], BREAKS, "state[each]"),
        (tuple[int, int], tuple[int, int, int], BREAKS, "state"),
    ],
)
def test_each_change_of_a_type_is_judged_by_what_becomes_of_stored_values(
    old: Any, new: Any, verdict: str, place: str
) -> None:
    stored = {"state": msgspec.json.decode(msgspec.json.encode(shape_of(old)), type=TypeShape)}
    found = misfits(stored, {"state": shape_of(new)})
    worst = FITS if not found else BREAKS if any(not each.decodes for each in found) else LOSES
    assert worst == verdict, [str(each) for each in found]
    assert not place or place in [each.place for each in found]


@pytest.mark.parametrize("new", [Added, AsDataclass, Widened, Renamed, Removed, Retyped, Required, Closed, Aliased])
def test_the_verdict_is_what_decoding_does(new: Any) -> None:
    """The oracle is msgspec: a value of the old type, decoded as the new one."""
    found = misfits({"state": shape_of(Old)}, {"state": shape_of(new)})
    data = msgspec.msgpack.encode(Old(7, "seven"))
    if all(each.decodes for each in found):
        msgspec.msgpack.decode(data, type=new)
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(data, type=new)


def test_a_renamed_field_is_told_with_both_names_and_what_would_be_read() -> None:
    text = str(misfits({"account": shape_of(Old)}, {"account": shape_of(Renamed)})[0])
    assert "account.balance" in text and "'saldo' instead" in text and "its default 0" in text


def test_a_version_comes_back_as_it_was_and_one_of_another_format_is_none() -> None:
    version = JobVersion(
        "c0de", {"state": shape_of(Holding), "tree": shape_of(Tree)}, {"state": {}}, {"f": "1"}, FORMAT
    )
    assert JobVersion.decode(version.encode()) == version
    assert JobVersion.decode("{}") is JobVersion.decode("no json") is None
    assert JobVersion.decode(msgspec.json.encode(msgspec.structs.replace(version, format=FORMAT + 1)).decode()) is None


def test_initial_values_are_compared_in_the_fields_that_both_have() -> None:
    shapes = {"state": shape_of(Old)}
    old = JobVersion("1", shapes, {"state": {"balance": 0, "note": ""}}, {}, FORMAT)
    added = JobVersion("2", {"state": shape_of(Added)}, {"state": {"balance": 0, "note": "", "limit": 5}}, {}, FORMAT)
    other = JobVersion("3", shapes, {"state": {"balance": 1, "note": ""}}, {}, FORMAT)
    assert added.misfits(old) == []
    assert [each.place for each in other.misfits(old)] == ["state.balance"]
