"""Code whose formatted texts go into results as they are: of all others a mark in place of a value would show.

A comparison of such a text, its length or its methods would see the mark. So the code is read. Each text that a format
makes has to be returned, or to become a field of a Struct, an item of a tuple or a part of another such text.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

import msgspec

from holon.dataflow.following.nested_code import codes_of

Resolve = Callable[[FunctionType, str], Any]
"""The value of a global name in a function."""

_OTHER, _NULL, _TEXT, _FORMATS = "other", "null", "text", "formats"
_FORMAT_METHODS = ("format", "format_map")
"""Methods of texts that make a formatted text."""
_MOST_STATES = 2_000
_WITHOUT_EFFECT = ("RESUME", "NOP", "CACHE", "PRECALL", "COPY_FREE_VARS", "KW_NAMES", "MAKE_CELL")
_PUSH = ("LOAD_FAST", "LOAD_CONST", "LOAD_CLOSURE", "LOAD_FAST_CHECK")
_OF_TWO = ("BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "BINARY_SUBSCR")
_OF_ONE = ("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_NOT", "UNARY_INVERT")


class _Shows(Exception):
    """A mark might show, or that is not known."""


def keeps_texts_whole(function: FunctionType, resolve: Resolve) -> bool:
    """Whether no formatted text of the function, and of those that it calls, is used but in its result."""
    try:
        _Reading(resolve).returns_text(function)
    except _Shows:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _State:
    """Kinds of the values on the stack before an instruction."""

    at: int
    stack: tuple[Any, ...]


class _Reading:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: dict[CodeType, bool | None] = {}

    def returns_text(self, function: FunctionType) -> bool:
        """Whether the function's result holds a formatted text."""
        code = function.__code__
        if code not in self._known:
            self._known[code] = None
            self._known[code] = _Code(function, self._resolve, self).returns_text()
        found = self._known[code]
        if found is None:  # it calls itself
            raise _Shows
        return found


class _Code:
    """The code of one function."""

    def __init__(self, function: FunctionType, resolve: Resolve, reading: _Reading) -> None:
        code = function.__code__
        self._function = function
        self._resolve = resolve
        self._reading = reading
        self._steps = list(dis.get_instructions(code))
        self._at = {step.offset: number for number, step in enumerate(self._steps)}
        self._held = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        self._gives_text = False
        for inner in islice(codes_of(code), 1, None):
            self._refuse_texts(inner)

    def _refuse_texts(self, inner: CodeType) -> None:
        """A function that is written within this one is called where that is not known: it gives no texts."""
        for step in dis.get_instructions(inner):
            if step.opname.startswith("FORMAT") or step.argval in _FORMAT_METHODS:
                raise _Shows
            if step.opname == "LOAD_GLOBAL":
                self._used(self._resolve(self._function, step.argval))
            elif step.opname == "LOAD_DEREF" and step.argval in self._held:
                self._used(self._held[step.argval].cell_contents)

    def returns_text(self) -> bool:
        waiting, seen = [_State(0, ())], set[_State]()
        while waiting:
            state = waiting.pop()
            if state not in seen:
                seen.add(state)
                waiting += self._after(state)
            if len(seen) > _MOST_STATES:
                raise _Shows
        return self._gives_text

    def _after(self, state: _State) -> list[_State]:
        """The states behind one instruction."""
        step, stack = self._steps[state.at], list(state.stack)
        name = step.opname
        if name in ("RETURN_VALUE", "RETURN_CONST"):
            self._gives_text |= name == "RETURN_VALUE" and self._given(stack[-1]) == _TEXT
            return []
        if "JUMP" in name:
            return self._jumps(step, stack, state.at)
        self._run(step, stack)
        return [_State(state.at + 1, tuple(stack))]

    def _jumps(self, step: dis.Instruction, stack: list[Any], at: int) -> list[_State]:
        target = self._at[step.argval]
        if step.opname == "JUMP_FORWARD":
            return [_State(target, tuple(stack))]
        if step.opname.startswith("POP_JUMP_"):
            self._used(stack.pop())
            return [_State(target, tuple(stack)), _State(at + 1, tuple(stack))]
        if step.opname in ("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
            self._used(stack[-1])
            return [_State(target, tuple(stack)), _State(at + 1, tuple(stack[:-1]))]
        raise _Shows

    def _run(self, step: dis.Instruction, stack: list[Any]) -> None:
        name, number = step.opname, step.arg or 0
        if name in _WITHOUT_EFFECT:
            return
        if name in _PUSH:
            stack.append(_OTHER)
        elif name == "PUSH_NULL":
            stack.append(_NULL)
        elif name == "LOAD_GLOBAL":
            stack += [_NULL] * (number & 1)
            stack.append(_callable(self._resolve(self._function, step.argval)))
        elif name == "LOAD_DEREF":
            held = step.argval in self._held
            stack.append(_callable(self._held[step.argval].cell_contents) if held else _OTHER)
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            self._used(stack.pop())
            is_method, formats = "Method" in name.title() or "NULL|self" in step.argrepr, step.argval in _FORMAT_METHODS
            if formats and not is_method:  # it is called elsewhere
                raise _Shows
            stack += [_FORMATS if formats else _OTHER, *([_OTHER] if is_method else [])]
        elif name in _OF_TWO:
            self._used(stack.pop(), stack.pop())
            stack.append(_OTHER)
        elif name in _OF_ONE:
            self._used(stack.pop())
            stack.append(_OTHER)
        else:
            self._build(step, number, stack)

    def _build(self, step: dis.Instruction, number: int, stack: list[Any]) -> None:
        """Instructions that texts may go through."""
        match step.opname:
            case "FORMAT_VALUE" | "BUILD_STRING":
                given = number if step.opname == "BUILD_STRING" else 2 if number & 4 else 1
                for one in _taken(stack, given):
                    self._given(one)
                stack.append(_TEXT)
            case "BUILD_TUPLE" | "BUILD_LIST":
                items = [self._given(one) for one in _taken(stack, number)]
                stack.append(_TEXT if _TEXT in items else _OTHER)
            case "CALL":
                arguments = [self._given(one) for one in _taken(stack, number)]
                self._call(arguments, _taken(stack, 2), stack)
            case "LIST_TO_TUPLE":
                pass
            case "CALL_FUNCTION_EX" if not number & 1:
                self._call([stack.pop()], _taken(stack, 2), stack)
            case _:
                self._drop(step, number, stack)

    def _drop(self, step: dis.Instruction, number: int, stack: list[Any]) -> None:
        """Instructions that see values, or move them."""
        match step.opname:
            case "STORE_FAST" | "POP_TOP" | "LIST_EXTEND":  # a list is extended by the letters of a text
                self._used(stack.pop())
            case "MAKE_FUNCTION":
                self._used(*_taken(stack, 1 + number.bit_count()))
                stack.append(_OTHER)
            case "MATCH_CLASS":
                self._used(*_taken(stack, 3))
                stack.append(_OTHER)
            case "UNPACK_SEQUENCE":
                self._used(stack.pop())
                stack += [_OTHER] * number
            case "COPY":
                stack.append(stack[-number])
            case "SWAP":
                stack[-1], stack[-number] = stack[-number], stack[-1]
            case _:
                raise _Shows

    def _call(self, arguments: list[Any], callee_at: list[Any], stack: list[Any]) -> None:
        method, self_or_function = callee_at
        if method == _FORMATS:
            self._used(*arguments)
            stack.append(_TEXT)
            return
        callee = self_or_function if method == _NULL else method
        if isinstance(callee, FunctionType):
            if _TEXT in arguments:
                raise _Shows
            stack.append(_TEXT if self._reading.returns_text(callee) else _OTHER)
            return
        is_struct = isinstance(callee, type) and issubclass(callee, msgspec.Struct)
        if _TEXT in arguments and not is_struct:
            raise _Shows
        stack.append(_TEXT if _TEXT in arguments else _OTHER)

    def _used(self, *values: Any) -> None:
        """Values that an instruction sees."""
        if _TEXT in map(self._given, values):
            raise _Shows

    def _given(self, value: Any) -> Any:
        """A value that is handed on: a function that gives texts may be called where that is not known."""
        if isinstance(value, FunctionType) and self._reading.returns_text(value):
            raise _Shows
        return _TEXT if isinstance(value, str) and value == _TEXT else _OTHER


def _callable(value: Any) -> Any:
    """Functions and Structs as they are."""
    return value if isinstance(value, FunctionType | type) else _OTHER


def _taken(stack: list[Any], number: int) -> list[Any]:
    found = stack[len(stack) - number :]
    del stack[len(stack) - number :]
    return found
