"""Constants that a function names: look-ups in dicts and sets as expressions, and what regular expressions find.

``TABLE[key]``, ``TABLE.get(key)`` and ``key in TABLE`` are followed.

A dict or set is read when rows are evaluated, and never before: what others have changed in it shows as in a call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import repeat
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import LazyColumn
from holon.dataflow.arithmetic import is_none
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.expressions import Apply
from holon.dataflow.following.column_functions import ColumnFunction, Same, as_list, packed_numbers, spread
from holon.dataflow.following.matches import METHODS as MATCH_METHODS
from holon.dataflow.following.matches import Find
from holon.dataflow.following.path import Path
from holon.dataflow.following.placeholders import NotAValue, Placeholder, expression_of
from holon.formats.batch import Column

Table = Mapping[Any, Any]
AnySet = Set[Any]


class LookUp(ColumnFunction):
    """A method of a dict: its first argument is a key."""

    def __init__(self, table: Table, method: str) -> None:
        self._table = table
        self._method = method
        self.key = (Same(table), method)

    def __call__(self, *values: Any) -> Any:
        return getattr(self._table, self._method)(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Of different texts each is looked up once."""
        keys, *others = given
        if not all(fixed[1:]):
            return None
        if fixed[0]:
            return spread([self(*given)], np.zeros(rows, np.intp))
        numbered = _numbered(keys)
        if numbered is None:
            return packed_numbers(self._values(as_list(keys), others))
        numbers, distinct = numbered
        try:
            return spread(self._values(distinct, others), numbers)
        except LookupError:  # of which row first, their order does not show
            return packed_numbers(self._values(as_list(keys), others))

    def _values(self, keys: list[Any], others: Sequence[Any]) -> list[Any]:
        return list(map(getattr(self._table, self._method), keys, *map(repeat, others)))


def _numbered(keys: Any) -> tuple[NDArray[Any], list[Any]] | None:
    """A number from 0 for each row, and the different keys; None where it is quicker to look each up."""
    if isinstance(keys, np.ndarray):
        return _numbered_ints(keys) if keys.dtype.kind == "i" else None
    if not isinstance(keys, Texts | LazyColumn):
        return None
    found = keys.numbered_rows()
    return None if found is None else (found[0], as_list(keys.take(found[1])))


def _numbered_ints(keys: NDArray[np.int64]) -> tuple[NDArray[Any], list[Any]] | None:
    least = int(keys.min())
    span = int(keys.max()) - least + 1
    if span > len(keys):
        return None
    there = np.zeros(span, np.bool_)
    there[keys - least] = True
    return (np.cumsum(there) - 1)[keys - least], (np.flatnonzero(there) + least).tolist()


class Key(ColumnFunction):
    """A tuple of parts."""

    def __call__(self, *values: Any) -> Any:
        return values

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """They are looked up one by one."""
        return None


class _Asked(ColumnFunction):
    """A question about values. Of different values of a column that is numbered each is asked for once."""

    is_total = True

    def __init__(self, of: Any) -> None:
        self._of = of
        self.key = (Same(of),)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Bools."""
        (values,) = given
        if fixed[0]:
            return np.full(rows, self(values))
        numbered = _numbered(values)
        numbers, distinct = (slice(None), as_list(values)) if numbered is None else numbered
        return np.fromiter(map(self, distinct), np.bool_, len(distinct))[numbers]


class IsIn(_Asked):
    """Whether values are members of a set."""

    def __call__(self, *values: Any) -> Any:
        return values[0] in self._of


class SetStandIn(NotAValue):
    """In place of a set of constants: it may be asked for a member. Its members may be gone over in no fixed order."""

    __slots__ = ("_members",)

    def __init__(self, members: AnySet) -> None:
        self._members = members

    def __contains__(self, value: Any) -> bool:
        path, is_in = Path.current(), IsIn(self._members)
        if type(value) is tuple and any(isinstance(part, Placeholder) for part in value):
            return path.decide(path.apply("in", is_in, path.apply("key", Key(), *map(expression_of, value))))
        if isinstance(value, Placeholder):
            return bool(value._holon_apply("in", is_in))
        return path.decide(path.apply("in", is_in, expression_of(value)))

    def __iter__(self) -> Iterator[Any]:
        if type(self._members) is not frozenset:
            self._refused()
        return iter(self._members)

    def _refused(self, *_: Any) -> NoReturn:
        raise Untraceable("it uses a set for more than asking for a member")

    def __getattr__(self, name: str) -> NoReturn:
        raise Untraceable(f"it uses {name!r} of a set")

    __class__ = property(_refused)  # type: ignore[assignment]
    __bool__ = __len__ = __str__ = __repr__ = __format__ = _refused  # type: ignore[assignment]
    __hash__ = object.__hash__  # type: ignore[assignment]  # codes that hold it are compared
    __eq__ = __ne__ = __and__ = __rand__ = __or__ = __ror__ = __sub__ = __rsub__ = __xor__ = _refused  # type: ignore[assignment]


class IsSame(_Asked):
    """Whether values are True, False, or a member of an enum: of equal values all are, or none is."""

    def __call__(self, *values: Any) -> Any:
        return values[0] is self._of


class IdentityStandIn(NotAValue):
    """In place of what stands behind ``is``, which the code asks for as a member here."""

    __slots__ = ("_one",)

    def __init__(self, one: Any) -> None:
        self._one = one

    def __contains__(self, value: Any) -> bool:
        if isinstance(value, Placeholder):
            return bool(value._holon_apply("is", IsSame(self._one)))
        return value is self._one

    __hash__ = object.__hash__  # codes that hold it are compared


class MembersStandIn(NotAValue):
    """In place of an enum whose member stands behind ``is``."""

    def __init__(self, enum: Any) -> None:
        self._enum = enum

    def __getattr__(self, name: str) -> IdentityStandIn:
        return IdentityStandIn(getattr(self._enum, name))


class TableStandIn(NotAValue):
    """In place of a dict of constants."""

    __slots__ = ("_table",)

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getitem__(self, key: Any) -> Any:
        return self._found("__getitem__", self._table.values(), key)

    def get(self, key: Any, default: Any = None, /) -> Any:
        """As of a dict."""
        return self._found("get", (*self._table.values(), default), key, default)

    def __contains__(self, key: Any) -> bool:
        return bool(self._apply("__contains__", key))

    def _found(self, method: str, values: Iterable[Any], *given: Any) -> Any:
        """A value, which may be None; where the function asks for that, on a way of its own."""
        made = self._apply(method, *given)
        path = made._holon_path
        if path.asks_none and path.has_no_value(Apply("is None", is_none, (made._holon_expression,))):
            return None
        if all(type(one) is str or (isinstance(one, Placeholder) and one._holon_type is str) for one in values):
            made._holon_type = str
        return made

    def _apply(self, method: str, key: Any, *others: Any) -> Placeholder:
        path, look_up = Path.current(), LookUp(self._table, method)
        if type(key) is tuple and any(isinstance(part, Placeholder) for part in key):
            (kind, *_) = (type(part) for part in key if isinstance(part, Placeholder))
            key = kind(path.apply("key", Key(), *map(expression_of, key)), path)
        if isinstance(key, Placeholder):
            return key._holon_apply(method, look_up, *others)
        return Placeholder(path.apply(method, look_up, *map(expression_of, (key, *others))), path)

    def _refused(self, *_: Any) -> NoReturn:
        raise Untraceable("it uses a dict for more than looking up a key")

    def __getattr__(self, name: str) -> NoReturn:
        raise Untraceable(f"it uses {name!r} of a dict")

    __class__ = property(_refused)  # type: ignore[assignment]
    __bool__ = __len__ = __iter__ = __str__ = __repr__ = __format__ = __hash__ = _refused  # type: ignore[assignment]
    __eq__ = __ne__ = __or__ = __ror__ = _refused  # type: ignore[assignment]


class PatternStandIn(NotAValue):
    """In place of a regular expression."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        if name not in MATCH_METHODS:
            raise Untraceable(f"it uses {name!r} of a regular expression")
        return partial(self._found, name)

    def _found(self, name: str, text: Any) -> Any:
        if not isinstance(text, Placeholder):
            raise Untraceable(f"it uses {name!r} of what is no field")
        path, find = text._holon_path, Find(self._pattern, name)
        is_sure = text._holon_type is str and path.is_checked and type(self._pattern.pattern) is str
        if is_sure:  # it raises nothing, so it may be unused
            made = Placeholder(path.interned(f".{name}", find, text._holon_expression), path)
        else:
            made = text._holon_apply(f".{name}", find)
        return made._holon_maybe_none(re.Match)
