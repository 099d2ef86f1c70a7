"""Code of a function that is followed, with stand-ins in place of some constants and names.

Some uses of a value do not show to a placeholder. Such are ``is``, a set that is asked for a member, a constant text
that joins, and a list that a comprehension fills. There the code gets stand-ins. Its instructions keep their places,
so all tables that belong to the code hold on.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Sequence
from enum import EnumMeta
from functools import lru_cache
from itertools import pairwise
from types import CodeType
from typing import Any, NamedTuple

from holon.dataflow.following.attempts import same_clauses
from holon.dataflow.following.loops.comprehensions import MOST_CONSTANTS, MadeList, place_of_list

_MOST_NAMES = 60
"""Names of code that is rewritten. One byte has a name's number and another bit, and each may come once more."""
_LOAD_CONST, _CONTAINS = dis.opmap["LOAD_CONST"], dis.opmap["CONTAINS_OP"]
_OF_IDENTITY = " is "
"""In front of the name of an enum whose member is compared by ``is``; no name has a blank."""
_WRITTEN: dict[CodeType, CodeType] = {}
"""Of code with stand-ins the code as it was written."""

ValueOf = Callable[[str], Any]
Replace = Callable[[Any], Any]


def _size(code: CodeType, name: str) -> int:
    steps = list(dis.get_instructions(code))
    return next(behind.offset - step.offset for step, behind in pairwise(steps) if step.opname == name)


_HAS_EQUAL_SIZES = _size((lambda a, b: a in b).__code__, "CONTAINS_OP") == _size(
    (lambda a, b: a is b).__code__, "IS_OP"
)
"""Whether ``is`` takes as many bytes as ``in``: since Python 3.13 it does not."""


class Separator(str):
    """A constant text of which the code calls ``join``."""

    __slots__ = ()


class Identity(NamedTuple):
    """True or False, or an enum of which a member follows, behind ``is``."""

    value: Any


def rewritten(code: CodeType, value_of: ValueOf, replace: Replace) -> CodeType:
    """The code with stand-ins inside, by ``replace`` of sets, ``Separator``s and ``Identity``; itself without such.

    ``value_of``: the value of a global name. A set is a constant of code in ``field in {"a", "b"}`` alone, and where a
    loop or another set takes its members.
    """
    constants = [_inside(one, value_of, replace) for one in code.co_consts]
    instructions, names = bytearray(code.co_code), list(code.co_names)
    steps = _steps(code)
    added: dict[Any, int] = {}

    def place_of(one: Any) -> int:
        if (type(one), one) not in added:
            added[type(one), one] = len(constants)
            constants.append(replace(one))
        return added[type(one), one]

    for step, behind in pairwise(steps):
        if _is_separator(step, behind) and len(code.co_consts) <= MOST_CONSTANTS:
            instructions[step.offset + 1] = place_of(Separator(step.argval))
    for identity in _identities(steps, value_of, code):
        instructions[identity.step.offset] = _CONTAINS
        if identity.name:
            name = _OF_IDENTITY + identity.name
            names += [] if name in names else [name]
            instructions[identity.first.offset + 1] = names.index(name) << 1 | (identity.first.arg or 0) & 1
        else:
            instructions[identity.first.offset + 1] = place_of(Identity(identity.first.argval))
    place = place_of_list(code)
    if place is not None:
        instructions[place : place + 2] = bytes([_LOAD_CONST, len(constants)])
        constants.append(MadeList())  # the last one, where it is looked for
    same = all(one is other for one, other in zip(constants, code.co_consts, strict=False))
    if same and len(constants) == len(code.co_consts) and len(names) == len(code.co_names):
        return code
    made = code.replace(co_consts=tuple(constants), co_names=tuple(names), co_code=bytes(instructions))
    _WRITTEN[made] = code
    same_clauses(code, made)
    return made


def code_as_written(code: CodeType) -> CodeType:
    """The code without stand-ins."""
    return _WRITTEN.get(code, code)


def names_of_identities(code: CodeType) -> Iterator[tuple[str, str]]:
    """Names of rewritten code that stand for an enum, and the name of that."""
    for name in code.co_names:
        if name.startswith(_OF_IDENTITY):
            yield name, name.removeprefix(_OF_IDENTITY)


def identities(code: CodeType, value_of: ValueOf) -> frozenset[int]:
    """The offsets of each ``is`` in some code that is rewritten."""
    return frozenset(one.step.offset for one in _identities(_steps(code), value_of, code))


class _Identity(NamedTuple):
    """An ``is``, the instruction whose value changes, and the name of the enum; "": it is a constant."""

    step: dis.Instruction
    first: dis.Instruction
    name: str


def _identities(steps: Sequence[dis.Instruction], value_of: ValueOf, code: CodeType) -> Iterator[_Identity]:
    if len(code.co_consts) > MOST_CONSTANTS or len(code.co_names) > _MOST_NAMES or not _HAS_EQUAL_SIZES:
        return
    for number, step in enumerate(steps):
        if step.opname != "IS_OP" or number < 2 or step.is_jump_target:
            continue
        before, last = steps[number - 2 : number]
        if last.opname == "LOAD_CONST" and type(last.argval) is bool:
            yield _Identity(step, last, "")
        is_member = before.opname == "LOAD_GLOBAL" and last.opname == "LOAD_ATTR" and not last.is_jump_target
        if is_member and _is_member(value_of(before.argval), str(last.argval)):
            yield _Identity(step, before, before.argval)


def _is_member(value: Any, name: str) -> bool:
    return isinstance(value, EnumMeta) and name in value.__members__


@lru_cache(256)
def _steps(code: CodeType) -> Sequence[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG")]


def _is_separator(step: dis.Instruction, behind: dis.Instruction) -> bool:
    is_method = behind.opname == "LOAD_METHOD" or (behind.opname == "LOAD_ATTR" and bool((behind.arg or 0) & 1))
    return step.opname == "LOAD_CONST" and type(step.argval) is str and is_method and behind.argval == "join"


def _inside(constant: Any, value_of: ValueOf, replace: Replace) -> Any:
    if isinstance(constant, CodeType):
        return rewritten(constant, value_of, replace)
    return replace(constant) if type(constant) is frozenset else constant
