"""The operations that a function's code may have if calls with placeholders are to show all that it does."""

from __future__ import annotations

import builtins
import dataclasses
import dis
import enum
import gc
from abc import ABCMeta
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from types import CellType, CodeType, FunctionType, MappingProxyType, NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin, is_typeddict

import msgspec

from holon.columnar.event_types import fields, has_fields, is_generated, is_plain_tuple
from holon.dataflow.following.attempts import CAUGHT, Unread, read_clauses
from holon.dataflow.following.loops.comprehensions import is_list_comprehension
from holon.dataflow.following.loops.reading import CHANGING, HandsOn, check_loops
from holon.dataflow.following.nested_code import codes_of
from holon.dataflow.following.rewritten_code import identities
from holon.dataflow.following.stand_ins import STAND_INS, is_named
from wcrdt.lattice import Lattice

_PURE_BUILTINS = frozenset(["abs", "dict", "divmod", "isinstance", "max", "min", *STAND_INS])
"""They use the operators or the class of what they are given, or have a stand-in that does."""
_PLAIN = (type(None), bool, int, float, str, bytes, Decimal, date, timedelta, timezone)
_REFUSED = {
    "IS_OP": "`is`",
    "IMPORT_NAME": "import",
    "STORE_GLOBAL": "assigning a global name",
    "STORE_DEREF": "assigning a name of the function around it",
    "STORE_ATTR": "assigning an attribute",
    "DELETE_ATTR": "deleting an attribute",
    "LIST_APPEND": "a comprehension of a list",
    "MAP_ADD": "a comprehension of a dict",
    "SET_ADD": "a comprehension of a set",
    "YIELD_VALUE": "yield",
    "RAISE_VARARGS": "raise",
    "LOAD_CLASSDEREF": "a class",
    "LOAD_BUILD_CLASS": "a class",
    "MATCH_MAPPING": "match",
    "MATCH_SEQUENCE": "match",
}


GENERATOR_EXPRESSION = "<genexpr>"


class Untraceable(Exception):
    """A function cannot be followed with placeholders; the message names what it does, and ``place`` where."""

    place = ""

    def __str__(self) -> str:
        return f"{super().__str__()} ({self.place})" if self.place else super().__str__()

    def placed(self, code: CodeType, line: int | None) -> Self:
        """Itself, at a line of some code unless it has a place."""
        if not self.place and line is not None:
            self.place = f"{code.co_filename.rpartition('/')[2]}:{line}"
        return self


def scan(function: Any, known: Sequence[Any] = (), *, may_change: bool = True) -> bool:
    """Raise ``Untraceable`` if following the function could show something else than calling it with values.

    True where it asks whether something is None: then a field that may be None has to be None on a way of its own.
    ``known``: objects that it may name, beside constants. ``may_change``: dicts and lists that it has made.
    """
    if not isinstance(function, FunctionType):
        raise Untraceable(f"a {type(function).__name__} is no function written in Python")
    found = _Found(known)
    asks = _scan(function, found)
    found.check_members()
    found.check_changes(may_change)
    return asks


class _Found:
    """All that functions, and those that they call, name: their codes, classes with members, and attributes."""

    def __init__(self, known: Sequence[Any]) -> None:
        self.known = known
        self.seen: set[CodeType] = set()
        self.classes: dict[type, None] = {}
        self.attributes: set[str] = set()
        self.has_loops = False
        self.changes: list[Untraceable] = []
        """Where an item is assigned or deleted, or a method is used that does so."""

    def check_members(self) -> None:
        """Raise ``Untraceable`` where code of a class may run: of a method, a property or an operator of its own."""
        for kind in self.classes:
            for name, member in _members(kind):
                is_special = name.startswith("__") and name.endswith("__")
                if isinstance(member, _CODE) and (is_special or name in self.attributes):
                    raise Untraceable(f"it may run {name} of {kind.__name__}")

    def check_changes(self, may_change: bool) -> None:
        """Raise ``Untraceable`` where what one turn of a loop has changed may be seen by another."""
        if self.changes and (self.has_loops or not may_change):
            raise self.changes[0]


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Those that are written in a class, and in those that it inherits from."""
    for each in kind.__mro__:
        if each.__module__ not in _LIBRARIES:
            for name, member in vars(each).items():
                is_library = getattr(member, "__module__", None) in _LIBRARIES
                if not is_library and not is_generated(member) and (name != "__new__" or not is_plain_tuple(each)):
                    yield name, member


_LIBRARIES = ("builtins", "collections", "enum", "msgspec", "msgspec._core", "typing")
_CODE = (FunctionType, property, cached_property, staticmethod, classmethod)


def _scan(function: FunctionType, found: _Found) -> bool:
    if function.__code__ in found.seen:
        return False
    found.seen.add(function.__code__)
    asks = False
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if not all(map(is_constant, defaults)):
        raise Untraceable("an argument of it has a default that may change")
    found.classes.update(dict.fromkeys(_enums_in(defaults)))
    held = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for code in codes_of(function.__code__):
        is_expression = code.co_name == GENERATOR_EXPRESSION and code is not function.__code__
        if code.co_exceptiontable and not is_expression:
            _check_clauses(function, code)
        if code.co_flags & (0x80 | 0x200) or (code.co_flags & 0x20 and not is_expression):
            raise Untraceable("it is a generator, or async")
        try:
            check_loops(code)
        except HandsOn as error:
            raise Untraceable(str(error)).placed(code, code.co_firstlineno) from None
        asks |= _scan_code(function, code, held, found)
    return asks


def _check_clauses(function: FunctionType, code: CodeType) -> None:
    try:
        read_clauses(code, lambda name: global_of(function, name))
    except Unread as error:
        raise Untraceable(str(error)) from None


def _scan_code(function: FunctionType, code: CodeType, held: Mapping[str, CellType], found: _Found) -> bool:
    """As ``scan``, of the function's code or of one that is written within it."""
    asks = False
    before: list[dis.Instruction] = []
    known = identities(code, function.__globals__.get)
    line: int | None = code.co_firstlineno
    for step in dis.get_instructions(code):
        placed = None if step.positions is None else step.positions.lineno
        line = line if placed is None else placed
        try:
            is_known = step.opname == "IS_OP" and step.offset in known
            asks |= not is_known and _scan_step(function, code, step, before, held, found)
        except Untraceable as error:
            raise error.placed(code, line) from None
        before.append(step)
    return asks


def _scan_step(
    function: FunctionType,
    code: CodeType,
    step: dis.Instruction,
    before: Sequence[dis.Instruction],
    held: Mapping[str, CellType],
    found: _Found,
) -> bool:
    asks = False
    # Behind a jump the value on top may be another one.
    on_top = None if step.is_jump_target or not before else before[-1]
    if step.opname.endswith(("_NONE", "_NOT_NONE")):
        asks |= [one.opname for one in before[-2:]] != ["MATCH_CLASS", "COPY"]
    elif step.opname == "IS_OP" and on_top is not None and on_top.opname == "LOAD_CONST" and on_top.argval is None:
        asks = True
    elif step.opname in _REFUSED and not (
        (step.opname == "IS_OP" and _is_kind(_named(function, held, on_top)))
        or (step.opname == "STORE_DEREF" and step.argval in code.co_cellvars)
        or step.opname == "YIELD_VALUE"  # of a generator expression
        or (step.opname == "LIST_APPEND" and is_list_comprehension(code))
    ):
        raise Untraceable(f"it uses {_REFUSED[step.opname]}")
    if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
        asks |= _check_name(step.argval, global_of(function, step.argval), found)
    elif step.opname in ("LOAD_DEREF", "LOAD_CLOSURE") and step.argval in held:
        asks |= _check_name(step.argval, _held_in(held[step.argval], step.argval), found)
    elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        found.attributes.add(step.argval)
    found.has_loops |= step.opname == "FOR_ITER"
    if step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR") or _changes(step):
        line = None if step.positions is None else step.positions.lineno
        why = Untraceable("it may change a dict or list beside a loop, or one of its caller")
        found.changes.append(why.placed(code, line))
    return asks


def _changes(step: dis.Instruction) -> bool:
    return step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in CHANGING


def _named(function: FunctionType, held: Mapping[str, CellType], step: dis.Instruction | None) -> Any:
    """The value that an instruction loads by its name; None for others."""
    if step is None:
        return None
    if step.opname == "LOAD_GLOBAL":
        return global_of(function, step.argval)
    return _held_in(held[step.argval], step.argval) if step.opname == "LOAD_DEREF" and step.argval in held else None


def _held_in(cell: CellType, name: str) -> Any:
    try:
        return cell.cell_contents
    except ValueError as error:
        raise Untraceable(f"it uses {name!r}, which has no value yet") from error


def global_of(function: FunctionType, name: str) -> Any:
    """The value of a global name in a function."""
    if name in function.__globals__:
        return function.__globals__[name]
    found = getattr(builtins, name, None)
    if found is None:
        raise Untraceable(f"the name {name!r} is not defined")
    return found


def _check_name(name: str, value: Any, found: _Found) -> bool:
    if any(value is one for one in found.known) or is_named(value):
        return False
    if isinstance(value, FunctionType):
        return _scan(value, found)
    found.classes.update(dict.fromkeys(_enums_in(value)))
    structs = _structs_in(value)
    found.classes.update(dict.fromkeys(structs))
    if structs:
        if any(hasattr(one, "__post_init__") for one in structs):
            raise Untraceable(f"{name} checks itself (__post_init__)")
        if any(map(_has_factories, structs)):
            raise Untraceable(f"{name} has a field whose default another function makes")
        if any(type(one).__instancecheck__ not in _KNOWN_CHECKS for one in structs):
            raise Untraceable(f"{name} has an `isinstance` of its own")
    elif not (value is NoneType or _is_pure(name, value) or is_constant(value) or is_table(value)):
        raise Untraceable(f"it uses {name!r}, a {type(value).__name__}")
    return False


_KNOWN_CHECKS = (type.__instancecheck__, ABCMeta.__instancecheck__)


def _structs_in(value: Any) -> tuple[type, ...]:
    """A Struct or the like, or those of what ``isinstance`` takes: a tuple or a union of them, which may have None."""
    is_union = get_origin(value) in (Union, UnionType)
    parts = value if type(value) is tuple else get_args(value) if is_union else (value,)
    found = tuple(one for one in parts if one is not NoneType)
    return found if all(map(_has_class, found)) else ()


def _has_class(of: Any) -> bool:
    """Whether objects of a type with fields know it: those of a TypedDict are dicts."""
    return (has_fields(of) and not is_typeddict(of)) or (isinstance(of, type) and dataclasses.is_dataclass(of))


def _has_factories(of: Any) -> bool:
    """Whether making an object may call a function of a user, which would be called once for all rows."""
    return any(field.default_factory not in (msgspec.NODEFAULT, dict, list, set) for field in fields(of))


def _is_kind(value: Any) -> bool:
    """Whether it is a class that types of rows are compared with. No value of a row is a class."""
    return value is NoneType or _has_class(value)


def _is_pure(name: str, value: Any) -> bool:
    """A lattice's class, or one of Python's functions that use the operators of what they are given."""
    if any(value is one for one in CAUGHT):
        return True
    if name in _PURE_BUILTINS and value is getattr(builtins, name):
        return True
    is_known = value is timedelta or value is timezone or is_typeddict(value)
    return is_known or (isinstance(value, type) and issubclass(value, Lattice))


def _enums_in(value: Any) -> Iterator[type]:
    if isinstance(value, enum.Enum | enum.EnumMeta):
        yield value if isinstance(value, enum.EnumMeta) else type(value)
    elif type(value) in (tuple, frozenset, set):
        for one in value:
            yield from _enums_in(one)
    elif isinstance(value, dict | MappingProxyType):
        yield from _enums_in((*value, *value.values()))


def runs_no_code(value: Any) -> bool:
    """Whether a constant has no methods or properties that somebody wrote."""
    members = (member for kind in _enums_in(value) for _, member in _members(kind))
    return not any(isinstance(member, _CODE) for member in members)


def is_table(value: Any) -> bool:
    """Whether it is a dict in which plain keys are looked up, for values that never change, and no code runs.

    Or a set of such keys.
    """
    if type(value) in (frozenset, set):
        return all(map(_is_key, value))
    if type(value) is MappingProxyType:
        (value,) = gc.get_referents(value)
    return type(value) is dict and all(map(_is_key, value)) and all(map(is_constant, value.values()))


def _is_key(value: Any) -> bool:
    if isinstance(value, type):
        return type(value).__hash__ is type.__hash__ and type(value).__eq__ is type.__eq__
    return is_constant(value) and not any(_has_operators(kind) for kind in _enums_in(value))


def _has_operators(kind: type) -> bool:
    return any(isinstance(member, _CODE) for name, member in _members(kind) if name in ("__eq__", "__hash__"))


def is_constant(value: Any) -> bool:
    """Whether it is plain and never changes."""
    if isinstance(value, tuple | frozenset):
        return type(value) in (tuple, frozenset) and all(map(is_constant, value))
    if type(value) is datetime:
        return value.tzinfo is None or type(value.tzinfo) is timezone
    return type(value) in _PLAIN or isinstance(value, enum.Enum | enum.EnumMeta)
