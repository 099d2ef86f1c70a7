"""Parts of texts, lists, dicts and matches as expressions: items, ``split``, ``partition``, ``get``, and groups."""

from __future__ import annotations

import dis
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from operator import getitem
from types import FrameType, NoneType
from typing import Any, Literal, get_args, get_origin

from holon.columnar.event_types import is_plain_dict
from holon.dataflow.arithmetic import is_none
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.errors import LacksAttribute
from holon.dataflow.expressions import Apply, Expression, Field
from holon.dataflow.following.declared import field_types, may_be_none, without_none
from holon.dataflow.following.matches import Find, OfMatch
from holon.dataflow.following.path import Path
from holon.dataflow.following.separated import Item, Split, Unpacked
from holon.dataflow.following.stand_ins import NotAValue

SPLIT = ("rsplit", "split", "splitlines")
PARTITION = ("partition", "rpartition")
"""Methods of texts that give lists, and three texts."""
_PLAIN = (bool, bytes, date, datetime, Decimal, float, int, str, timedelta)
_UNPACK = dis.opmap["UNPACK_SEQUENCE"]


def type_of_item(of: Any) -> Any:
    """The type of an item of a list or a value of a dict, where its members are known; else None."""
    if of is str:
        return str
    kinds = get_args(of)
    return plain_type(kinds[-1]) if kinds and get_origin(of) in (list, dict) else None


def plain_type(of: Any) -> Any:
    """The type, if its members are known; else None."""
    return next((one for one in _PLAIN if of is one), None)


def type_given(name: str, is_comparison: bool, *sides: Any) -> Any:
    """The type of an operator's result, where those of its sides decide it; else None."""
    kinds = [plain_type(one) for one in sides]
    if is_comparison:
        return None if None in kinds else bool
    is_float = all(kind in (bool, int, float) for kind in kinds) and (name == "/" or float in kinds)
    return float if is_float and name in ("+", "-", "*", "/", "//", "%") else None


def has_items(of: Any) -> bool:
    """Whether items of values of this type are looked up without code of a user."""
    return of is str or of is re.Match or is_dict(of) or is_sequence(of)


def is_sequence(of: Any) -> bool:
    """Whether it is the type of a list or tuple."""
    return of is list or of is tuple or get_origin(of) in (list, tuple)


def is_dict(of: Any) -> bool:
    """Whether it is the type of a dict."""
    return of is dict or get_origin(of) is dict


def parts_at_none(made: Expression, path: Path) -> bool:
    """Whether a value is None on this way; where the function asks for that, the way parts."""
    return path.asks_none and path.has_no_value(path.interned("is None", is_none, made))


def unpacked(sequence: Expression, number: int, path: Path) -> Sequence[Apply]:
    """Expressions of all items of a sequence, of which one has to be used."""
    checked = path.attempted("unpack", Unpacked(number), sequence)
    found = tuple(path.interned(f"[{place}]", Item(place), checked) for place in range(number))
    path.made.append(found)
    return found


def parts_of_text(name: str, given: Sequence[Expression], path: Path) -> Sequence[Apply]:
    """The three texts of ``partition``, of which one has to be used."""
    whole = path.attempted(f".{name}", Split(name), *given)
    found = tuple(path.interned(f"[{place}]", Item(place), whole) for place in range(3))
    path.made.append(found)
    return found


def wanted_items(called: FrameType | None) -> int | None:
    """How many items the caller of this frame takes apart there; None where it does something else."""
    frame = None if called is None else called.f_back
    if frame is None:
        return None
    code, at = frame.f_code.co_code, frame.f_lasti
    is_long = at >= 2 and code[at - 2] == dis.EXTENDED_ARG
    return code[at + 1] if code[at] == _UNPACK and not is_long else None


class MatchMethod(NotAValue):
    """``group`` or ``groups`` of what a regular expression has found."""

    def __init__(self, owner: Any, way: Literal["item", "group", "groups"]) -> None:
        self._owner = owner
        self._way: Literal["item", "group", "groups"] = way

    @property
    def _find(self) -> Find:
        expression = self._owner._holon_expression
        assert isinstance(expression, Apply) and isinstance(expression.function, Find), "of that type is nothing else"
        return expression.function

    def __call__(self, *given: Any) -> Any:
        is_all, path = self._way == "groups", self._owner._holon_path
        made = list(map(self._group, range(1, self._find.pattern.groups + 1) if is_all else given or (0,)))
        path.made.append(tuple(made))  # of which one is used at least
        found = [type(self._owner)(one, path)._holon_maybe_none(None) for one in made]
        return tuple(found) if is_all or len(found) > 1 else found[0]

    def _group(self, group: Any) -> Apply:
        find = self._find
        known = find.pattern.groupindex if type(group) is str else range(find.pattern.groups + 1)
        if type(group) not in (int, str) or group not in known:
            raise Untraceable("it uses a group that the regular expression has not, or that is no constant")
        if group not in find.wanted:
            find.wanted.append(group)
        return self._owner._holon_path.interned(".group", OfMatch(group, self._way), self._owner._holon_expression)


def kind_of_value(owner: Any) -> Any:
    """The one type that the value of a placeholder has on this way."""
    return owner.__class__ if len(owner._holon_kinds) > 1 else owner._holon_type


def keys_of(owner: Any) -> Mapping[str, Any] | None:
    """The types of its values by key, where the value of a placeholder is a TypedDict on this way; else None."""
    kind = kind_of_value(owner)
    if kind is NoneType and is_plain_dict(without_none(owner._holon_type)):  # as of a row with that value
        raise LacksAttribute("'NoneType' object is no dict")
    return field_types(kind) if is_plain_dict(kind) else None


def value_of_key(owner: Any, key: Any, keys: Mapping[str, Any]) -> Any:
    """The value of a key, as a column; where the dict is computed, of the dict itself."""
    if key not in keys:
        raise Untraceable(f"it takes {key!r:.50} of a dict that has no such key")
    kind, expression = kind_of_value(owner), owner._holon_expression
    if isinstance(expression, Field):
        return owner._holon_field(expression.path, kind, key)
    made = owner._holon_apply("item", getitem, key)
    return made._holon_maybe_none(without_none(keys[key]), is_there=not may_be_none(kind, key))


class GetOfKeys(NotAValue):
    """``get`` of a TypedDict."""

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __call__(self, key: Any, default: Any = None, /) -> Any:
        keys = keys_of(self._owner)
        assert keys is not None, "on this way it is a dict"
        return value_of_key(self._owner, key, keys) if key in keys else default
