"""Lists that comprehensions make while a function is followed: each has the values of all ways through a turn.

From outside nobody sees whether a turn has appended a value. So the code of a comprehension gets a list of ours to
fill, in place of a new one. The code is otherwise as it was. Python 3.12 has no such code of their own: there they are
not followed.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from itertools import pairwise
from types import CodeType
from typing import Any, NoReturn

from holon.dataflow.expressions import Apply
from holon.dataflow.following.attempts import same_clauses
from holon.dataflow.following.loops.loop import Loop

LIST = "<listcomp>"
_WORD = 2
"""Bytes of an instruction."""
_MOST_CONSTANTS = 255
_WRITTEN: dict[CodeType, CodeType] = {}
"""Of code with lists of ours the code as it was written."""


class Misused(Exception):
    """A list of ours is used for something else; the message says how."""


class MadeList(list[Any]):
    """The values that a comprehension has appended in a turn; later the ``loop`` that they became.

    ``scope``: that of the way on which it was made. ``length``: the expression of its length.
    """

    loop: Loop | None = None
    length: Apply | None = None
    scope: Any = None

    def taken(self) -> list[Any]:
        """The values of this turn, which are given away."""
        found = list(list.__iter__(self))
        list.clear(self)
        return found

    def close(self, loop: Loop, length: Apply) -> None:
        """From here on it stands for the loop. C code that reads it finds something that is no value."""
        self.loop, self.length = loop, length
        list.append(self, Misused)

    def _refused(self, *_: Any, **__: Any) -> NoReturn:
        raise Misused("it uses a list that a comprehension has made for more than len, sum, any, all, min or max")

    __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = _refused  # type: ignore[assignment]
    __ge__ = __add__ = __radd__ = __iadd__ = __mul__ = __rmul__ = __imul__ = __reversed__ = _refused  # type: ignore[assignment]
    __repr__ = __str__ = __format__ = __setitem__ = __delitem__ = append = extend = insert = pop = _refused  # type: ignore[assignment]
    __hash__ = object.__hash__  # type: ignore[assignment]  # codes that hold it are compared
    remove = sort = reverse = index = count = copy = clear = _refused  # type: ignore[assignment]


def is_list_comprehension(code: CodeType) -> bool:
    """Whether it is the code of one that can be followed."""
    return code.co_name == LIST and _place(code) is not None


def _place(code: CodeType) -> int | None:
    """Where its list is made, which is the only one there."""
    found = [step for step in dis.get_instructions(code) if step.opname == "BUILD_LIST"]
    one = found[0] if len(found) == 1 and not found[0].arg else None
    return one.offset if one is not None and len(code.co_consts) < _MOST_CONSTANTS else None


class Separator(str):
    """A constant text of which the code calls ``join``."""

    __slots__ = ()


def with_stand_ins_inside(code: CodeType, replace: Callable[[Any], Any]) -> CodeType:
    """The code in which comprehensions fill lists of ours, and some constants are stand-ins by ``replace``: sets, and
    ``Separator``s. Itself where it has none of these.

    A set is a constant of code in ``field in {"a", "b"}`` alone, and where a loop or another set takes its members.
    """
    code = _with_separators(code, replace)
    constants = tuple(_inside(one, replace) for one in code.co_consts)
    place = _place(code) if code.co_name == LIST else None
    if place is not None:
        instructions = bytearray(code.co_code)
        instructions[place : place + _WORD] = bytes([dis.opmap["LOAD_CONST"], len(constants)])
        made = code.replace(co_consts=(*constants, MadeList()), co_code=bytes(instructions))
    elif any(one is not other for one, other in zip(constants, code.co_consts, strict=True)):
        made = code.replace(co_consts=constants)
    else:
        return code
    _WRITTEN[made] = code
    same_clauses(code, made)
    return made


def _with_separators(code: CodeType, replace: Callable[[Any], Any]) -> CodeType:
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    found = [step for step, behind in pairwise(steps) if _is_separator(step, behind)]
    if not found or len(code.co_consts) + len(found) > _MOST_CONSTANTS:
        return code
    instructions, constants = bytearray(code.co_code), list(code.co_consts)
    for step in found:
        instructions[step.offset + 1] = len(constants)
        constants.append(replace(Separator(step.argval)))
    made = code.replace(co_consts=tuple(constants), co_code=bytes(instructions))
    _WRITTEN[made] = code
    same_clauses(code, made)
    return made


def _is_separator(step: dis.Instruction, behind: dis.Instruction) -> bool:
    is_method = behind.opname == "LOAD_METHOD" or (behind.opname == "LOAD_ATTR" and bool((behind.arg or 0) & 1))
    return step.opname == "LOAD_CONST" and type(step.argval) is str and is_method and behind.argval == "join"


def _inside(constant: Any, replace: Callable[[Any], Any]) -> Any:
    if isinstance(constant, CodeType):
        return with_stand_ins_inside(constant, replace)
    return replace(constant) if type(constant) is frozenset else constant


def list_of(code: CodeType) -> MadeList | None:
    """The list that a comprehension's code fills."""
    last = code.co_consts[-1] if code.co_name == LIST and code.co_consts else None
    return last if type(last) is MadeList else None


def code_as_written(code: CodeType) -> CodeType:
    """The code without lists of ours."""
    while code in _WRITTEN:
        code = _WRITTEN[code]
    return code
