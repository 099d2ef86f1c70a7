"""Code with loops, read: no turn of a loop may know another, since each way through the body is one turn."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from holon.dataflow.following.nested_code import exception_entries

_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS", "JUMP_FORWARD", "JUMP_BACKWARD",
         "JUMP_BACKWARD_NO_INTERRUPT")  # fmt: skip
"""Instructions behind which the next one does not run."""
_STORES = ("STORE_DEREF", "STORE_FAST")
_OF_NAMES = ("_AND_CLEAR", "_CHECK", "_CLOSURE", "_DEREF", "_FAST")
"""Ends of instructions that read a name of the function."""
_MAKE = ("BUILD_LIST", "BUILD_SET", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE")
CHANGING = ("clear", "pop", "popitem", "setdefault", "update")
"""Methods that change a dict."""


class HandsOn(Exception):
    """A turn may know another; the message says how."""


def check_loops(code: CodeType) -> None:
    """Raise ``HandsOn`` where a turn of a loop may find what one before it has left, or the code behind the loop may.

    A name that a turn stores and a later one reads, or the code behind the loop, is handed on (``handed_on``); it may
    be no name of functions within. Nor is there a list or dict that turns could change.
    """
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("EXTENDED_ARG", "CACHE")]
    if any(step.opname.startswith("STORE_FAST_") for step in steps):
        raise HandsOn("its instructions are of another release of Python")
    loops = [number for number, step in enumerate(steps) if step.opname == "FOR_ITER"]
    if not loops or any(step.opname in ("LIST_APPEND", "MAP_ADD", "SET_ADD") for step in steps):
        return  # a comprehension is not followed anyway
    _check_objects(steps)
    after = _successors(code, steps)
    read = _read_from(steps, after)
    bodies = {loop: _body(loop, after) for loop in loops}
    for loop, body in bodies.items():
        stored = {steps[at].argval for at in body if steps[at].opname in _STORES}
        apart = body.union(*(other for other in bodies.values() if loop not in other))  # functions made there end
        apart |= _only_behind(loop, body, after)  # no turn comes after them
        held = {step.argval for at, step in enumerate(steps) if step.opname == "LOAD_CLOSURE" and at not in apart}
        cells = {*code.co_cellvars, *code.co_freevars}
        if handed_on := sorted(stored & (held | (read[loop] & cells))):
            raise hands_on(handed_on[0])


def hands_on(name: str) -> HandsOn:
    """Why a function is not followed."""
    return HandsOn(f"a loop hands {name!r} on, from item to item or to the code behind it")


class Body(NamedTuple):
    """A loop as its code has it.

    ``handed_on``: the names that turns hand on. ``inside``: all places of code from which another turn may come; of a
    loop that no turn leaves it is empty.
    """

    handed_on: tuple[str, ...]
    inside: frozenset[int]


@lru_cache(1024)
def read_body(code: CodeType, offset: int) -> Body:
    """The loop whose next turn begins at this offset of the code."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("EXTENDED_ARG", "CACHE")]
    (loop,) = (number for number, step in enumerate(steps) if step.offset == offset)
    after = _successors(code, steps)
    body = _body(loop, after)
    stored = {steps[at].argval for at in body if steps[at].opname in _STORES}
    is_left = bool(_ways_out(loop, body, after))
    within = {loop, *body}
    ends = [*(step.offset for step in steps[1:]), len(code.co_code)]
    inside = {place for at in within for place in range(steps[at].offset, ends[at])} if is_left else ()
    return Body(tuple(sorted(stored & _read_from(steps, after)[loop])), frozenset(inside))


def _check_objects(steps: Sequence[dis.Instruction]) -> None:
    makes_dicts = any(step.opname.endswith(("BUILD_MAP", "CONST_KEY_MAP")) for step in steps)
    for step in steps:
        if step.opname in _MAKE:
            raise HandsOn("it makes a list or set beside a loop")
        is_changed = step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in CHANGING
        if makes_dicts and (is_changed or step.argrepr == "|="):
            raise HandsOn("it may change a dict beside a loop")


def _successors(code: CodeType, steps: Sequence[dis.Instruction]) -> list[list[int]]:
    """The instructions that may run next, also those of clauses that an error goes to."""
    at: dict[int, int] = {}
    for number, step in enumerate(steps):
        at[step.offset] = number
    offsets = sorted(at)
    place = {step.offset: number for number, step in enumerate(steps)}

    def number_of(offset: int) -> int:  # of a prefix, the instruction behind it
        return place[next(one for one in offsets if one >= offset)]

    after: list[list[int]] = []
    for number, step in enumerate(steps):
        found = [] if step.opname in _ENDS else [number + 1]
        if "JUMP" in step.opname or step.opname in ("FOR_ITER", "SEND"):
            found.append(number_of(step.argval))
        after.append([one for one in found if one < len(steps)])
    for entry in exception_entries(code):
        for number, step in enumerate(steps):
            if entry.start <= step.offset < entry.end:
                after[number].append(number_of(entry.target))
    return after


def _read_from(steps: Sequence[dis.Instruction], after: Sequence[Sequence[int]]) -> list[frozenset[str]]:
    """Before each instruction the names that may be read before they are stored anew."""
    found = [frozenset[str]()] * len(steps)
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(steps))):
            step = steps[number]
            behind = frozenset().union(*(found[one] for one in after[number]))
            if step.opname in _STORES:
                behind -= {step.argval}
            elif step.opname.startswith(("LOAD_", "DELETE_")) and step.opname.endswith(_OF_NAMES):
                behind |= {step.argval}
            if behind != found[number]:
                found[number], changed = behind, True
    return found


def _body(loop: int, after: Sequence[Sequence[int]]) -> set[int]:
    """The instructions of a turn behind which another may come: those that lead back to the loop's begin.

    The one before the begin makes the iterator. Those that leave the loop are none of them.
    """
    before: list[list[int]] = [[] for _ in after]
    for number, found in enumerate(after):
        for one in found:
            before[one].append(number)
    waiting = [one for one in before[loop] if one != loop - 1]
    seen = {loop, *waiting}
    while waiting:
        one = waiting.pop()
        waiting += [each for each in before[one] if each not in seen]
        seen.update(before[one])
    return seen - {loop}


def _ways_out(loop: int, body: set[int], after: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
    """The steps from one instruction to another by which a turn leaves its loop."""
    found = {(at, one) for at in body for one in after[at] if one != loop and one not in body}
    return found if after[loop][0] in body or after[loop][0] == loop else {(loop, after[loop][0])}


def _only_behind(loop: int, body: set[int], after: Sequence[Sequence[int]]) -> set[int]:
    """The instructions that run only once a turn has left the loop."""
    ways_out = _ways_out(loop, body, after)
    waiting, seen = [0], {0}
    while waiting:
        one = waiting.pop()
        found = [each for each in after[one] if each not in seen and (one, each) not in ways_out]
        waiting += found
        seen.update(found)
    return set(range(len(after))) - seen
