"""``try`` and ``except`` around what is computed: the way parts where a value has an error that a clause may catch.

On the one way the function goes on with the values that there are, on the other the error is raised within it. So
Python itself finds the clause. The code is read first, since a clause must not catch what following itself raises.
"""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from types import CodeType, FrameType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import ObjectColumn
from holon.dataflow.arithmetic import computed, is_none, is_there
from holon.dataflow.following.column_functions import ColumnFunction, as_list, packed
from holon.dataflow.following.nested_code import exception_entries
from holon.formats.batch import Column

CAUGHT = (ValueError, KeyError, IndexError, ZeroDivisionError)
"""Classes that a clause may name: following raises none of them."""
_ONLY_VALUES = (int, float)
"""Functions that raise only ``ValueError`` of these classes."""
_NEVER = (
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.and_, operator.or_),
    *(operator.add, operator.sub, operator.neg, operator.abs, operator.xor, operator.contains, len),
    *(is_none, is_there),
)
"""Functions that raise none of these classes, whatever they are given."""
_CLEANUP = ("COPY", "POP_EXCEPT", "RERAISE")


class Unread(Exception):
    """The code has a ``try`` that is not followed; the message says which."""


Resolve = Callable[[str], Any]
"""From a global name to its value."""


def read_clauses(code: CodeType, resolve: Resolve) -> None:
    """Note where the code catches errors. Raises ``Unread`` where it catches others, or does something else."""
    steps, at = list[dis.Instruction](), dict[int, int]()
    for step in dis.get_instructions(code):
        at[step.offset] = len(steps)  # of a prefix, the instruction behind it
        if step.opname != "EXTENDED_ARG":
            steps.append(step)
    entries = exception_entries(code)
    for entry in entries:
        number = at[entry.target]
        if [one.opname for one in steps[number : number + 3]] == list(_CLEANUP):
            continue
        if steps[number].opname != "PUSH_EXC_INFO":
            raise Unread("it uses a comprehension")
        _read_clauses_from(number + 1, steps, at, resolve)
    catching = {entry.target for entry in entries if steps[at[entry.target]].opname == "PUSH_EXC_INFO"}
    reraises = {entry.target: steps[at[entry.target] + 2].offset for entry in entries if entry.target not in catching}
    _REGIONS[code] = [(entry.start, entry.end, reraises.get(entry.target)) for entry in entries]


def _read_clauses_from(number: int, steps: Sequence[dis.Instruction], at: Mapping[int, int], resolve: Resolve) -> None:
    while steps[number].opname != "RERAISE":
        named = number
        while steps[number].opname in ("LOAD_GLOBAL", "BUILD_TUPLE"):
            number += 1
        if steps[number].opname in ("BEFORE_WITH", "WITH_EXCEPT_START"):
            raise Unread("it uses with")
        if steps[number].opname != "CHECK_EXC_MATCH":
            raise Unread("it uses finally, or an except that names no class")
        for step in steps[named:number]:
            _check_class(step, resolve)
        if steps[number + 2].opname != "POP_TOP":
            raise Unread("it uses the exception that it catches")
        number = at[steps[number + 1].argval]


def _check_class(step: dis.Instruction, resolve: Resolve) -> None:
    if step.opname == "LOAD_GLOBAL" and not any(resolve(step.argval) is one for one in CAUGHT):
        known = ", ".join(one.__name__ for one in CAUGHT)
        raise Unread(f"it catches {step.argval}; {known} may be caught")


_REGIONS: dict[CodeType, list[tuple[int, int, int | None]]] = {}
"""Of code with clauses where it begins and ends that errors go to one, or to an instruction that raises them again."""


def same_clauses(code: CodeType, made: CodeType) -> None:
    """``made`` has the clauses of another code, at the same places."""
    if code in _REGIONS:
        _REGIONS[made] = _REGIONS[code]


def may_be_caught(frame: FrameType | None) -> bool:
    """Whether an error that is raised here may be caught by a function that is followed."""
    while frame is not None:
        regions = _REGIONS.get(frame.f_code)
        if regions is not None and _is_caught(regions, frame.f_lasti):
            return True
        frame = frame.f_back
    return False


def _is_caught(regions: Sequence[tuple[int, int, int | None]], at: int) -> bool:
    for start, end, again in regions:
        if start <= at < end:
            return again is None or _is_caught(regions, again)
    return False


def raises_none(function: Callable[..., Any]) -> bool:
    """Whether no argument makes it raise an error that a clause may name."""
    return any(function is one for one in _NEVER) or (isinstance(function, ColumnFunction) and function.is_total)


def classes_of(function: Callable[..., Any]) -> Sequence[type[Exception]]:
    """The classes of errors that it may raise, of those that a clause may name."""
    return (ValueError,) if any(function is one for one in _ONLY_VALUES) else CAUGHT


class Outcomes(ObjectColumn):
    """Values, and the class of the error in place of each that there is none of. ``errors`` None: there are all."""

    __slots__ = ("errors", "values")

    def __init__(self, values: Column, errors: list[type[Exception] | None] | None) -> None:
        super().__init__()
        self.values, self.errors = values, errors

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        places = np.arange(len(self))[index]
        errors = None if self.errors is None else [self.errors[place] for place in places.tolist()]
        if errors is not None and not any(errors):
            errors = None
        if isinstance(self.values, list):
            return type(self)([self.values[place] for place in places.tolist()], errors)
        values = self.values[index] if isinstance(self.values, np.ndarray) else self.values.take(index)
        return type(self)(values, errors)

    def failed(self, of: type[Exception] | None) -> NDArray[np.bool_]:
        """The rows with an error of this class, or with any (None)."""
        if self.errors is None:
            return np.zeros(len(self), np.bool_)
        return np.array([one is not None and of in (None, one) for one in self.errors], np.bool_)

    def _made(self) -> list[Any]:
        return list(zip(as_list(self.values), self.errors or [None] * len(self), strict=True))

    def _row(self, row: int) -> Any:
        return self.tolist()[row]

    def __len__(self) -> int:
        return len(self.values)


def _class_of(error: Exception) -> type[Exception]:
    """The one that a clause may name."""
    return next(one for one in CAUGHT if isinstance(error, one))


class Attempt(ColumnFunction):
    """A function of values, and the class of its error where that may be caught: others it raises."""

    def __init__(self, function: Callable[..., Any], key: tuple[Any, ...]) -> None:
        self._function = function
        self.key = key

    def __call__(self, *values: Any) -> Any:
        try:
            return self._function(*values), None
        except CAUGHT as error:
            return None, _class_of(error)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Outcomes, row by row where there is an error."""
        try:
            return Outcomes(computed(self._function, given, fixed, rows), None)
        except CAUGHT:
            numbered = given[0].numbered_rows() if isinstance(given[0], Texts) and all(fixed[1:]) else None
            if numbered is None or len(numbered[1]) * 4 > rows:
                return self._of_rows(given, fixed, rows)
            numbers, firsts = numbered
            found = self._of_rows([given[0].take(firsts), *given[1:]], fixed, len(firsts))
            return found.take(numbers)

    def _of_rows(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Outcomes:
        columns = [repeat(one, rows) if same else as_list(one) for one, same in zip(given, fixed, strict=True)]
        values: list[Any] = []
        errors: list[type[Exception] | None] = [None] * rows
        for row in zip(*columns, strict=True):
            try:
                value = self._function(*row)
            except CAUGHT as error:
                value, errors[len(values)] = None, _class_of(error)
            values.append(value)
        return Outcomes(values, errors)


class Failed(ColumnFunction):
    """Whether an outcome is an error of a class, or any (None)."""

    def __init__(self, of: type[Exception] | None) -> None:
        self._of = of
        self.key = (of,)

    def __call__(self, *values: Any) -> Any:
        ((_, error),) = values
        return error is not None and self._of in (None, error)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Of a whole column."""
        return given[0].failed(self._of) if isinstance(given[0], Outcomes) else None


class Value(ColumnFunction):
    """The value of an outcome without an error."""

    key = ()

    def __call__(self, *values: Any) -> Any:
        ((value, _),) = values
        return value

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Of a whole column."""
        if not isinstance(given[0], Outcomes):
            return None
        found = given[0].values
        return packed(found) if isinstance(found, list) else found
