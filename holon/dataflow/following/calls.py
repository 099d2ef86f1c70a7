"""Stand-ins for what functions name, while they are followed: builtins, and ``datetime``."""

from __future__ import annotations

import builtins
import datetime as datetime_module
from collections.abc import Callable
from datetime import datetime, timezone
from types import MappingProxyType, NoneType
from typing import Any, NoReturn

from holon.dataflow.code_scan import Untraceable
from holon.dataflow.following.formats import is_marked
from holon.dataflow.following.placeholders import NotAValue, Placeholder
from holon.dataflow.following.stand_ins import STAND_INS, TIME_NAMES, StandInType, with_stand_ins
from holon.dataflow.following.tables import TableStandIn
from holon.dataflow.following.time_columns.forms import Strptime
from holon.dataflow.following.time_columns.made import FromTimestamp
from holon.dataflow.following.times import FROM_ISO


def replaced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as it is called while it is followed."""
    return with_stand_ins(function, BUILTINS, _stand_in_of)


def _stand_in_of(value: Any) -> Any:
    """In place of what a name stands for; the value itself where there is none."""
    if value is datetime:
        return _DATETIME
    if value is datetime_module:
        return _MODULE
    return TableStandIn(value) if isinstance(value, dict | MappingProxyType) else value  # others were refused before


def _stand_in(name: str) -> Any:
    function = getattr(builtins, name)
    if function is type:
        return _type_of

    def called(*given: Any, **named: Any) -> Any:
        if given and not named and isinstance(given[0], Placeholder):
            return given[0]._holon_apply(name, function, *given[1:], type=str if function is str else None)
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


BUILTINS = {name: _stand_in(name) for name in STAND_INS if name not in ("getattr", "hasattr")}
BUILTINS |= {name: _of_attribute(getattr(builtins, name)) for name in ("getattr", "hasattr")}


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
