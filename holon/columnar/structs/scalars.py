"""Which slot the loop reads values of a plain type by, and the bounds that are checked behind it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import inspect

from holon.columnar.structs.kinds import BOOL, DECIMAL, FLOAT, INTEGER, TEXT, TIME

Check = Callable[[Any], Any]


class Scalar(NamedTuple):
    """``accepts`` returns which values of an array keep the bounds; ``choices`` are the objects by texts or ints."""

    slot: int
    accepts: Check | None = None
    choices: Mapping[Any, Any] | None = None


def scalar(info: inspect.Type) -> Scalar | None:
    """None if values of the type are for msgspec."""
    if isinstance(info, inspect.StrType):
        return Scalar(TEXT) if (info.min_length, info.max_length, info.pattern) == (None, None, None) else None
    if isinstance(info, inspect.IntType | inspect.FloatType):
        slot = INTEGER if isinstance(info, inspect.IntType) else FLOAT
        return Scalar(slot, _bounds(info.ge, info.gt, info.le, info.lt)) if info.multiple_of is None else None
    if isinstance(info, inspect.DateTimeType):
        return Scalar(TIME) if info.tz is None else None
    if isinstance(info, inspect.BoolType):
        return Scalar(BOOL)
    if isinstance(info, inspect.DecimalType):
        return Scalar(DECIMAL)
    choices = _choices(info)
    if choices is None:
        return None
    return Scalar(TEXT if type(next(iter(choices))) is str else INTEGER, None, choices)


def lengths(info: inspect.ListType) -> Check | None:
    """Which of an array of lengths a list may have."""
    return _bounds(ge=info.min_length, le=info.max_length)


def _choices(info: inspect.Type) -> Mapping[Any, Any] | None:
    """Members of an enum by their values, or the values of a Literal; None unless all are texts, or all ints."""
    found: dict[Any, Any] = {}
    if isinstance(info, inspect.LiteralType):
        found = {value: value for value in info.values}
    elif isinstance(info, inspect.EnumType) and info.cls._missing_.__func__ is enum.Enum._missing_.__func__:  # pyright: ignore[reportFunctionMemberAccess]
        found = {member._value_: member for member in info.cls}  # ``value`` may be a property of its own
    kinds = set(map(type, found))
    return found if kinds in ({str}, {int}) else None


def _bounds(ge: Any = None, gt: Any = None, le: Any = None, lt: Any = None) -> Check | None:
    """A check of an array: which of its values keep these bounds."""
    tests: list[Check] = []
    if ge is not None:
        tests.append(lambda values: values >= ge)
    if gt is not None:
        tests.append(lambda values: values > gt)
    if le is not None:
        tests.append(lambda values: values <= le)
    if lt is not None:
        tests.append(lambda values: values < lt)
    if not tests:
        return None

    def accepts(values: Any) -> Any:
        kept = tests[0](values)
        for test in tests[1:]:
            kept = kept & test(values)
        return kept

    return accepts
