"""Stand-ins for what functions name, while they are followed: builtins, and ``datetime``."""

from __future__ import annotations

import builtins
import dataclasses
import datetime as datetime_module
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from enum import EnumMeta
from functools import partial
from types import MappingProxyType, NoneType
from typing import Any, NoReturn

from holon.columnar.event_types import field_names, is_made_of_fields
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.following.formats import is_marked
from holon.dataflow.following.loops.counting import looped_stand_in_of
from holon.dataflow.following.loops.stand_ins import JoinStandIn, making_stand_in_of, stand_in_of
from holon.dataflow.following.matches import METHODS as MATCH_METHODS
from holon.dataflow.following.parts import kind_of_value
from holon.dataflow.following.placeholders import Placeholder, expression_of, holds
from holon.dataflow.following.rewritten_code import Identity, Separator
from holon.dataflow.following.stand_ins import (
    LOOPED,
    MAKING,
    OF_MATH,
    REDUCING,
    STAND_INS,
    TIME_NAMES,
    NotAValue,
    StandInType,
    with_stand_ins,
)
from holon.dataflow.following.tables import IdentityStandIn, MembersStandIn, PatternStandIn, SetStandIn, TableStandIn
from holon.dataflow.following.time_columns.attributes import FROM_ISO
from holon.dataflow.following.time_columns.forms import Strptime
from holon.dataflow.following.time_columns.made import FromTimestamp


def applied_to(
    name: str, function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any], type: Any = None
) -> Any:
    """A pure function of values: at once, or as an expression where one of them is a placeholder."""
    found = next((one for one in given if isinstance(one, Placeholder)), None)
    if found is None and not any(map(holds, (*given, *named.values()))):
        return function(*given, **named)
    if named or found is None:
        raise Untraceable(f"it uses {name} with names of arguments, or of what holds expressions")
    made = found._holon_path.apply(name, function, *map(expression_of, given))
    return builtins.type(found)(made, found._holon_path, type)


def replaced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as it is called while it is followed."""
    return with_stand_ins(function, BUILTINS, _stand_in_of)


def _stand_in_of(value: Any) -> Any:
    """In place of what a name stands for; the value itself where there is none."""
    for one, stand_in in _NAMED:
        if value is one:
            return stand_in
    if type(value) is re.Pattern:
        return PatternStandIn(value)
    if any(value is one for one in OF_MATH):
        return _of_math(value)
    if type(value) is Identity:
        return MembersStandIn(value.value) if isinstance(value.value, EnumMeta) else IdentityStandIn(value.value)
    if type(value) is Separator:
        return JoinStandIn(str(value))
    if type(value) in (frozenset, set):
        return SetStandIn(value)
    return TableStandIn(value) if isinstance(value, dict | MappingProxyType) else value  # others were refused before


_GIVES = {"bool": bool, "len": int, "str": str}
"""The types of results, where those are sure."""


def _stand_in(name: str) -> Any:
    function = getattr(builtins, name)
    if function is type:
        return _type_of

    def called(*given: Any, **named: Any) -> Any:
        if given and not named and isinstance(given[0], Placeholder):
            return given[0]._holon_apply(name, function, *given[1:], type=_GIVES.get(name))
        return function(*given, **named)

    return StandInType.of(function, called) if isinstance(function, type) else called


def _type_of(value: Any) -> Any:
    """``type`` of a field; of other values it could be a type that has a stand-in."""
    if value is not None and not isinstance(value, Placeholder):
        raise Untraceable("it uses `type` of what is no field")
    return NoneType if value is None else value.__class__


def _of_attribute(function: Callable[..., Any]) -> Callable[..., Any]:
    """``getattr`` or ``hasattr`` of a field. Of another object it could run a method or property of somebody's."""

    def called(owner: Any, name: Any, *default: Any) -> Any:
        if not (owner is None or isinstance(owner, Placeholder)) or type(name) is not str or name.startswith("_"):
            raise Untraceable(f"it uses `{function.__name__}` of what is no field")
        return function(owner, name, *default)

    return called


_APART = ("getattr", "hasattr", *REDUCING, *LOOPED, *MAKING)
BUILTINS = {name: _stand_in(name) for name in STAND_INS if name not in _APART}
BUILTINS |= {name: stand_in_of(name, BUILTINS.get(name)) for name in (*REDUCING, "len")}
BUILTINS |= {name: looped_stand_in_of(name) for name in LOOPED}
BUILTINS |= {name: making_stand_in_of(name) for name in MAKING}
BUILTINS |= {name: _of_attribute(getattr(builtins, name)) for name in ("getattr", "hasattr")}


def _of_math(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of which a placeholder may be any argument that is not named."""

    def called(*given: Any, **named: Any) -> Any:
        return applied_to(function.__name__, function, given, named)

    return called


class _TimeType(StandInType):
    """In place of ``datetime``: what is pure, and takes a placeholder."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Untraceable(f"it uses datetime.{name}")


def _from_iso(text: Any) -> Any:
    if isinstance(text, Placeholder):
        return text._holon_apply("fromisoformat", FROM_ISO, type=datetime)
    return datetime.fromisoformat(text)


def _from_timestamp(timestamp: Any, tz: Any = None) -> Any:
    if not isinstance(timestamp, Placeholder):
        raise Untraceable("it uses datetime.fromtimestamp of what is no field")  # by the zone of this process
    if not (tz is None or type(tz) is timezone):
        raise Untraceable(f"it uses datetime.fromtimestamp with a {type(tz).__name__}")
    return timestamp._holon_apply("fromtimestamp", FromTimestamp(tz), type=datetime)


def _parsed(text: Any, form: Any, /) -> Any:
    if isinstance(text, Placeholder) and type(form) is str and not is_marked(form):
        return text._holon_apply("strptime", Strptime(form), type=datetime)
    raise Untraceable("it uses datetime.strptime of what is no field, or with a form that is no constant")


_OF_DATETIME = {"fromisoformat": _from_iso, "fromtimestamp": _from_timestamp, "strptime": _parsed}
_DATETIME = _TimeType("datetime", (), {name: staticmethod(function) for name, function in _OF_DATETIME.items()})
_DATETIME.real, _DATETIME.called = datetime, datetime


class _Module(NotAValue):
    """In place of the module ``datetime``."""

    datetime = _DATETIME

    def __getattr__(self, name: str) -> Any:
        if name not in TIME_NAMES:
            raise Untraceable(f"it uses datetime.{name}")
        return getattr(datetime_module, name)


_MODULE = _Module()


class _Math(NotAValue):
    """In place of the module ``math``."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(math, name)
        if type(found) is float:
            return found
        if not any(found is one for one in OF_MATH):
            raise Untraceable(f"it uses math.{name}")
        return _of_math(found)


_MATH = _Math()


class _Re(NotAValue):
    """In place of the module ``re``: the functions that find a match."""

    def __getattr__(self, name: str) -> Any:
        if name not in MATCH_METHODS:
            raise Untraceable(f"it uses re.{name}")
        return partial(self._found, name)

    def _found(self, name: str, pattern: Any, text: Any) -> Any:
        if type(pattern) is not str or is_marked(pattern):
            raise Untraceable(f"it uses re.{name} with an expression that is no constant text")
        return getattr(PatternStandIn(re.compile(pattern)), name)(text)


_RE = _Re()


def _with_fields(value: Any, /, **changes: Any) -> Any:
    """``dataclasses.replace``, of what is made of its fields."""
    of: Any = kind_of_value(value) if isinstance(value, Placeholder) else type(value)
    if not is_made_of_fields(of) or issubclass(of, tuple):
        raise Untraceable("it uses dataclasses.replace of what is no dataclass that is made of its fields")
    kept = [name for name in field_names(of) if name not in changes]
    return of(**{name: getattr(value, name) for name in kept}, **changes)


class _Dataclasses(NotAValue):
    """In place of the module ``dataclasses``."""

    def __getattr__(self, name: str) -> Any:
        if name != "replace":
            raise Untraceable(f"it uses dataclasses.{name}")
        return _with_fields


_DATACLASSES = _Dataclasses()


class _DecimalType(StandInType):
    """In place of ``Decimal``: its calls, and nothing else."""

    def __getattr__(self, name: str) -> NoReturn:
        raise Untraceable(f"it uses Decimal.{name}")


def _decimal(*given: Any, **named: Any) -> Any:
    return applied_to("Decimal", Decimal, given, named, Decimal)


_DECIMAL = _DecimalType("Decimal", (), {})
_DECIMAL.real, _DECIMAL.called = Decimal, _decimal
_NAMED = (
    (datetime, _DATETIME),
    (Decimal, _DECIMAL),
    (datetime_module, _MODULE),
    (math, _MATH),
    (re, _RE),
    (dataclasses, _DATACLASSES),
    (dataclasses.replace, _with_fields),
)
"""In place of what has a name of its own."""
