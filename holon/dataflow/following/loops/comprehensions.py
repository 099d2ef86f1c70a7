"""Lists that comprehensions make while a function is followed: each has the values of all ways through a turn.

From outside nobody sees whether a turn has appended a value. So the code of a comprehension gets a list of ours to
fill, in place of a new one. The code is otherwise as it was. Python 3.12 has no such code of their own: there they are
not followed.
"""

from __future__ import annotations

import dis
from types import CodeType
from typing import Any, NoReturn

from holon.dataflow.expressions import Apply
from holon.dataflow.following.loops.loop import Loop

LIST = "<listcomp>"
MOST_CONSTANTS = 100
"""Constants of code that is rewritten. One byte counts them, and each may come once more."""


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
    return place_of_list(code) is not None


def place_of_list(code: CodeType) -> int | None:
    """Where a comprehension makes its list, which is the only one there; None of other code."""
    if code.co_name != LIST:
        return None
    found = [step for step in dis.get_instructions(code) if step.opname == "BUILD_LIST"]
    one = found[0] if len(found) == 1 and not found[0].arg else None
    return one.offset if one is not None and len(code.co_consts) <= MOST_CONSTANTS else None


def list_of(code: CodeType) -> MadeList | None:
    """The list that a comprehension's code fills."""
    last = code.co_consts[-1] if code.co_name == LIST and code.co_consts else None
    return last if type(last) is MadeList else None
