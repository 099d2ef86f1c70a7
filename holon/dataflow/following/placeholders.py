"""Placeholders in place of values that are not known yet: what is done with them becomes expressions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import currentframe
from types import NoneType
from typing import Any, NoReturn

import msgspec

from holon.columnar.event_types import field_names, is_made_of_fields, is_plain_dict, is_plain_tuple
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.dict_rows import New, TupleRow, are_names, dict_row, is_dict_row
from holon.dataflow.errors import LacksAttribute, NoSuchField
from holon.dataflow.expressions import Constant, Expression, Field, Leaf
from holon.dataflow.following.column_functions import PartOfEach
from holon.dataflow.following.declared import (
    ItemType,
    Key,
    Kinds,
    Member,
    field_types,
    is_plain_enum,
    item_of,
    kinds_of_field,
    may_be_none,
    type_of_part,
    without_none,
)
from holon.dataflow.following.formats import is_marked
from holon.dataflow.following.loops.comprehensions import MadeList
from holon.dataflow.following.loops.reducing import loop_of_list, made_anew
from holon.dataflow.following.loops.turns import Over, Turns, Values, begins_loop
from holon.dataflow.following.loops.views import VIEWS, DictView
from holon.dataflow.following.parts import (
    PARTITION,
    SPLIT,
    GetOfKeys,
    MatchMethod,
    has_items,
    is_dict,
    is_sequence,
    keys_of,
    kind_of_value,
    parts_at_none,
    parts_of_text,
    type_given,
    type_of_item,
    unpacked,
    value_of_key,
    wanted_items,
)
from holon.dataflow.following.path import NEEDS_VALUE, Path
from holon.dataflow.following.separated import Item, Split
from holon.dataflow.following.stand_ins import NotAValue, StandInType
from holon.dataflow.following.time_columns.attributes import ATTRIBUTES, METHODS, Method, TimeMethod, attribute
from holon.dataflow.following.time_columns.operators import operation

_NEEDS_STRUCTS = "it asks for a type (isinstance, match, type): that of Structs is known, where a format has read them"
_TO_TEXT = (
    *("capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "lstrip", "removeprefix", "removesuffix"),
    *("replace", "rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill"),
)
_OF_TEXT = (
    *("count", "endswith", "find", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "islower", "isnumeric"),
    *("isspace", "isupper", "rfind", "startswith"),
)
"""Methods of texts that give texts, and those that give ints or bools."""


class Placeholder:
    """A value that is not known yet. Its own names are such that no field has one of them."""

    __slots__ = ("_holon_expression", "_holon_kinds", "_holon_path", "_holon_type")

    def __init__(self, expression: Expression, path: Path, type: Any = None, kinds: Kinds = ()) -> None:
        self._holon_expression = expression
        self._holon_path = path
        self._holon_type = type
        self._holon_kinds = kinds
        """The types that it is one of, where these are known."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        """The type of the value, which ``isinstance`` and ``match`` read. The way parts where it may be several."""
        if not (self._holon_kinds and isinstance(self._holon_expression, Field)):
            raise Untraceable(_NEEDS_STRUCTS)
        return self._holon_path.kind_of(self._holon_expression, self._holon_kinds)

    def __getattr__(self, name: str) -> Any:
        if len(self._holon_kinds) > 1 or is_plain_dict(self._holon_type):
            return self._holon_of_kind(kind_of_value(self), name)
        fields = field_types(self._holon_type)
        if name in fields and isinstance(self._holon_expression, Field):
            return self._holon_field(self._holon_expression.path, self._holon_type, name)
        if self._holon_type is str and name in (*_TO_TEXT, *_OF_TEXT, *SPLIT, *PARTITION):
            return TextMethod(self, name)
        if is_dict(self._holon_type) and name in ("get", *VIEWS):
            return DictGet(self) if name == "get" else DictView(self, self._holon_type, name, VALUES)
        if self._holon_type is re.Match and name in ("group", "groups"):
            return MatchMethod(self, name)
        if any(self._holon_type is one for one in ATTRIBUTES):
            if name in ATTRIBUTES[self._holon_type]:
                return self._holon_apply(f".{name}", attribute(name))
            if name in METHODS[self._holon_type]:
                return TimeMethod(self, name, METHODS[self._holon_type][name])
        if name in ("name", "value") and is_plain_enum(self._holon_type):
            kind = type_of_part(self._holon_type, name)
            made = self._holon_apply(f".{name}", PartOfEach(name))
            return made._holon_maybe_none(kind, is_there=kind is not None)
        if fields and not hasattr(self._holon_type, name):
            raise NoSuchField(f"{self._holon_type.__name__} has no field {name!r}; it has {', '.join(fields)}")
        of = "" if self._holon_type is None else f" of {_named(self._holon_type)}"
        raise Untraceable(f"it uses the attribute {name!r}{of}")

    def _holon_of_kind(self, kind: type, name: str) -> Any:
        """A field of the one type that the value has on this way."""
        if is_plain_dict(kind):
            if name != "get":
                raise Untraceable(f"it uses {name!r} of a {kind.__name__}, which is a dict")
            return GetOfKeys(self)
        assert isinstance(self._holon_expression, Field)
        if name in field_types(kind):
            several = len(self._holon_kinds) > 1 + (NoneType in self._holon_kinds)
            path = (*self._holon_expression.path, Member.of(kind)) if several else self._holon_expression.path
            return self._holon_field(path, kind, name)
        if not hasattr(kind, name):  # as of a row with that value
            raise LacksAttribute(f"{kind.__name__!r} object has no attribute {name!r}")
        raise Untraceable(f"it uses the attribute {name!r} of a {kind.__name__}")

    def _holon_field(self, path: tuple[str, ...], struct: Any, name: str) -> Any:
        found, declared = Field((*path, Key(name) if is_plain_dict(struct) else name)), field_types(struct)[name]
        kinds = kinds_of_field(struct, name) if self._holon_path.is_checked else ()
        if not self._holon_path.asks_none or not may_be_none(struct, name):
            return Placeholder(found, self._holon_path, declared, kinds)
        if self._holon_path.is_none(found):
            return None
        some = tuple(kind for kind in kinds if kind is not NoneType)
        return Placeholder(found, self._holon_path, without_none(declared), some)

    def __bool__(self) -> bool:
        return self._holon_path.decide(self._holon_expression)

    def __contains__(self, item: Any) -> bool:
        if (keys := keys_of(self)) is not None:
            return item in keys
        return bool(self._holon_apply("contains", operator.contains, item))

    def _holon_apply(self, name: str, function: Callable[..., Any], *others: Any, type: Any = None) -> Placeholder:
        made = self._holon_path.apply(name, function, self._holon_expression, *map(expression_of, others))
        return Placeholder(made, self._holon_path, type)

    def _holon_swapped(self, name: str, function: Callable[..., Any], left: Any, type: Any = None) -> Placeholder:
        made = self._holon_path.apply(name, function, expression_of(left), self._holon_expression)
        return Placeholder(made, self._holon_path, type)

    def _holon_maybe_none(self, type: Any, is_there: bool = False) -> Any:
        """Itself, of this type; None where it is that on this way. ``is_there``: it never is."""
        if not is_there and parts_at_none(self._holon_expression, self._holon_path):
            return None
        self._holon_type = type
        return self

    def __getitem__(self, item: Any) -> Any:
        of = self._holon_type
        if (keys := keys_of(self)) is not None:
            return value_of_key(self, item, keys)
        if is_plain_tuple(of) and type(item) is int and -len(field_types(of)) <= item < len(field_types(of)):
            return getattr(self, tuple(field_types(of))[item])
        if not has_items(of) or (type(item) is slice and any(map(holds, (item.start, item.stop, item.step)))):
            raise Untraceable(NEEDS_VALUE)
        if of is re.Match:
            return MatchMethod(self, "item")(item)
        kind = of if type(item) is slice else type_of_item(of)
        if type(item) is int and not is_dict(of):
            made = self._holon_apply("item", Item(operator.index(item)))
        else:
            made = self._holon_apply("item", operator.getitem, item)
        return made._holon_maybe_none(kind, is_there=kind is not None)

    def __iter__(self) -> Iterator[Placeholder]:
        if begins_loop(currentframe()):
            return Turns(self._holon_over())
        number, kind = wanted_items(currentframe()), type_of_item(self._holon_type)
        if is_plain_tuple(self._holon_type) and number == len(field_types(self._holon_type)):
            return iter([getattr(self, name) for name in field_types(self._holon_type)])
        if number is None or not is_sequence(self._holon_type) or (kind is None and self._holon_path.asks_none):
            raise Untraceable(NEEDS_VALUE)
        parts = unpacked(self._holon_expression, number, self._holon_path)
        return iter([Placeholder(one, self._holon_path, kind) for one in parts])

    def _holon_over(self) -> Over:
        """Its items, for a loop."""
        item = item_of(self._holon_type) if self._holon_path.is_checked else None
        if item is None or (item.may_be_none and not self._holon_path.asks_none):
            raise Untraceable(f"it has a loop over {_named(self._holon_type)}")
        return Over(self._holon_path, self._holon_expression, partial(self._holon_item, item), VALUES)

    def _holon_item(self, item: ItemType, field: Field) -> Any:
        if item.may_be_none and self._holon_path.is_none(field):
            return None
        return Placeholder(field, self._holon_path, item.type)

    def __neg__(self) -> Placeholder:
        return self._holon_apply("-", operator.neg)

    def __pos__(self) -> Placeholder:
        return self._holon_apply("+", operator.pos)

    def __invert__(self) -> Placeholder:
        return self._holon_apply("~", operator.invert)

    def __abs__(self) -> Placeholder:
        return self._holon_apply("abs", operator.abs)

    def __divmod__(self, other: Any) -> tuple[Placeholder, Placeholder]:
        return self._holon_divmod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[Placeholder, Placeholder]:
        return self._holon_divmod(other, self)

    def _holon_divmod(self, left: Any, right: Any) -> tuple[Placeholder, Placeholder]:
        quotient, rest = self._holon_path.apply_divmod(expression_of(left), expression_of(right))
        return Placeholder(quotient, self._holon_path), Placeholder(rest, self._holon_path)

    def __format__(self, spec: str) -> str:
        return self._holon_path.format(self._holon_expression, spec)

    def _holon_refused(self, *_: Any) -> NoReturn:
        raise Untraceable(NEEDS_VALUE)

    __hash__ = _holon_refused  # type: ignore[assignment]
    __setitem__ = __delitem__ = __str__ = __repr__ = __int__ = __float__ = __index__ = __len__ = _holon_refused  # type: ignore[assignment]
    __call__ = __round__ = __reversed__ = __enter__ = __complex__ = __bytes__ = _holon_refused


def _named(of: Any) -> str:
    return "a value of no known type" if of is None else f"a {getattr(of, '__name__', of)}"


def _known_type(value: Any) -> Any:
    """The type of a value of a dict, where it is sure."""
    if isinstance(value, Placeholder) and not (value._holon_path.is_checked or value._holon_path.is_inferred):
        return None
    found = _type_of(value)
    return {GivenDict: dict, MadeList: list}.get(found, found)


def _type_of(value: Any) -> Any:
    return value._holon_type if isinstance(value, Placeholder) else type(value)


def _binary(
    name: str, function: Callable[..., Any], is_comparison: bool = False
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forwards(self: Placeholder, other: Any) -> Placeholder:
        typed = operation(name, self._holon_type, _type_of(other))
        if typed is None:
            gives = type_given(name, is_comparison, self._holon_type, _type_of(other))
            return self._holon_apply(name, function, other, type=gives)
        return self._holon_apply(name, typed.function, other, type=typed.gives)

    def backwards(self: Placeholder, other: Any) -> Placeholder:
        typed = operation(name, _type_of(other), self._holon_type)
        if typed is None:
            gives = type_given(name, is_comparison, _type_of(other), self._holon_type)
            return self._holon_swapped(name, function, other, type=gives)
        return self._holon_swapped(name, typed.function, other, type=typed.gives)

    return forwards, backwards


_TWO_SIDED = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow"}
for _name, _word in (_TWO_SIDED | {"&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift"}).items():
    _forwards, _backwards = _binary(_name, getattr(operator, f"__{_word}__"))
    setattr(Placeholder, f"__{_word}__", _forwards)
    setattr(Placeholder, f"__r{_word}__", _backwards)
for _name, _word in (("==", "eq"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")):
    setattr(Placeholder, f"__{_word}__", _binary(_name, getattr(operator, _word), is_comparison=True)[0])


class TextMethod(NotAValue):
    """A method of a text."""

    def __init__(self, owner: Placeholder, name: str) -> None:
        self._owner = owner
        self._name = name

    def __call__(self, *given: Any, **named: Any) -> Any:
        name, owner = self._name, self._owner
        if any(map(holds, named.values())):
            raise Untraceable(f"it uses {name!r} of a str with an argument by its name that is no constant")
        if name in PARTITION:
            both = (owner._holon_expression, *map(expression_of, given))
            return tuple(
                Placeholder(one, owner._holon_path, str) for one in parts_of_text(name, both, owner._holon_path)
            )
        if name in SPLIT and not named and name != "splitlines":
            return owner._holon_apply(f".{name}", Split(name), *given, type=list[str])
        function = Method(name, tuple(named)) if named else getattr(str, name)
        kind = str if name in _TO_TEXT else list[str] if name in SPLIT else None
        return owner._holon_apply(f".{name}", function, *given, *named.values(), type=kind)


class DictGet(NotAValue):
    """``get`` of a dict that a field holds."""

    def __init__(self, owner: Placeholder) -> None:
        self._owner = owner

    def __call__(self, key: Any, default: Any = None, /) -> Any:
        kind = type_of_item(self._owner._holon_type)
        is_there = kind is not None and _type_of(default) is kind
        made = self._owner._holon_apply("get", Method("get"), key, default)
        return made._holon_maybe_none(kind if is_there else None, is_there)


def holds(value: Any) -> bool:
    """Whether a placeholder is in there."""
    if isinstance(value, Placeholder | NotAValue | StandInType | MadeList):
        return True
    if isinstance(value, str) and is_marked(value):
        return True
    if isinstance(value, msgspec.Struct):
        return any(holds(getattr(value, name)) for name in type(value).__struct_fields__)
    if is_made_of_fields(type(value)):
        return any(holds(getattr(value, name)) for name in field_names(type(value)))
    if isinstance(value, Mapping):
        return any(map(holds, value.values())) or any(map(holds, value))
    return isinstance(value, list | tuple | set | frozenset) and any(map(holds, value))


def expression_of(value: Any) -> Expression:
    """The expression of a placeholder, or a constant. Raises ``Untraceable`` for what holds placeholders."""
    if isinstance(value, Placeholder):
        return value._holon_expression
    if holds(value):
        raise Untraceable(f"it uses a {type(value).__name__} of expressions in an operator")
    return Constant(value)


class GivenDict(dict[str, Any]):
    """A dict of placeholders, which a followed function gets as its row. It may be read, and not changed."""

    def _refused(self, *_: Any, **__: Any) -> NoReturn:
        raise Untraceable("it changes a row that it is given")

    __setitem__ = __delitem__ = __ior__ = _refused  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refused  # type: ignore[assignment]


def row_of(path: Path, row_type: Any, kinds: Kinds = ()) -> Any:
    """A placeholder of a row of this type, or a dict or tuple of such."""
    if isinstance(row_type, TupleRow):
        path.is_inferred = True
        parts = (path.interned(f"[{place}]", Item(place), Field(())) for place in range(len(row_type.types)))
        return tuple(Placeholder(one, path, of) for one, of in zip(parts, row_type.types, strict=True))
    if is_dict_row(row_type):
        path.is_inferred = True
        types = field_types(row_type).items()
        return GivenDict({name: Placeholder(Field((name,)), path, None if of is Any else of) for name, of in types})
    return Placeholder(Field(()), path, row_type, kinds)


def leaf_of(result: Any, path: Path) -> Leaf:
    """A result, or a part of one, as a leaf."""
    if isinstance(result, Placeholder):
        return Leaf(result._holon_expression, type=_known_type(result))
    if type(result) is str and is_marked(result):
        return Leaf(path.formatted(result))
    if type(result) is MadeList:
        return Leaf(made_anew("list", list, loop_of_list(result, path), path))
    if isinstance(result, msgspec.Struct) and type(result).__struct_fields__:  # without fields it is a constant
        fields = {name: leaf_of(getattr(result, name), path) for name in type(result).__struct_fields__}
        return Leaf(fields, type(result))
    if is_made_of_fields(type(result)):
        return Leaf({name: leaf_of(getattr(result, name), path) for name in field_names(type(result))}, type(result))
    if type(result) is tuple and result:  # columns of no parts have no length
        return Leaf(tuple(leaf_of(one, path) for one in result), types=tuple(map(_known_type, result)))
    if isinstance(result, dict) and are_names(result):
        fields = {name: leaf_of(one, path) for name, one in result.items()}
        return Leaf(fields, dict_row({name: _known_type(one) for name, one in result.items()}))
    if holds(result):
        keys = " whose keys are no names" if isinstance(result, dict) else ""
        raise Untraceable(f"it gives a {type(result).__name__} of expressions{keys}")
    if type(result) in (dict, list, set, tuple):  # a later function may change it, or it is ()
        return Leaf(path.interned("new", New(result)))
    return Leaf(Constant(result))


VALUES = Values(leaf_of, holds, Placeholder)
