"""Code whose formatted texts go into results as they are: of all others a mark in place of a value would show.

A comparison of such a text, its length or its methods would see the mark. So the code is read. Each text that a format
makes has to be returned, inserted or emitted. It may be a field of a Struct, an item of a tuple or dict, or a part of
another such text. A name may hold it until then.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

from holon.columnar.event_types import is_made_of_fields, is_struct
from holon.dataflow.following.nested_code import codes_of, exception_entries

Resolve = Callable[[FunctionType, str], Any]
"""The value of a global name in a function."""

_OTHER, _NULL, _TEXT, _FORMATS, _ARGUMENT, _SINK = "other", "null", "text", "formats", "argument", "sink"
"""Kinds of values. An argument is what the followed function is called with, and what belongs to that."""
_SINKS = ("emit", "insert")
"""Methods of an argument that take a text as it is: no placeholder has one of that name."""
_FORMAT_METHODS = ("format", "format_map")
"""Methods of texts that make a formatted text."""
_MOST_STATES = 2_000
_WITHOUT_EFFECT = ("RESUME", "NOP", "CACHE", "EXTENDED_ARG", "PRECALL", "COPY_FREE_VARS", "KW_NAMES", "MAKE_CELL")
_PUSH = ("LOAD_CONST", "LOAD_CLOSURE")
_OF_TWO = ("BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP")
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
    """Kinds of the values on the stack before an instruction; ``texts``: the names that hold a formatted text."""

    at: int
    stack: tuple[Any, ...]
    texts: frozenset[str] = frozenset()


class _Reading:
    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: dict[CodeType, bool | None] = {}

    def returns_text(self, function: FunctionType) -> bool:
        """Whether the function's result holds a formatted text."""
        code = function.__code__
        if code not in self._known:
            self._known[code] = None
            is_followed = len(self._known) == 1  # others may be called with anything
            self._known[code] = _Code(function, self._resolve, self, is_followed).returns_text()
        found = self._known[code]
        if found is None:  # it calls itself
            raise _Shows
        return found


class _Code:
    """The code of one function."""

    def __init__(self, function: FunctionType, resolve: Resolve, reading: _Reading, is_followed: bool) -> None:
        code = function.__code__
        self._function = function
        self._clauses = exception_entries(code)
        self._resolve = resolve
        self._reading = reading
        self._steps = list(dis.get_instructions(code))
        self._at = {step.offset: number for number, step in enumerate(self._steps)}
        self._held = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        self._gives_text = False
        stored = {step.argval for step in self._steps if step.opname in ("STORE_FAST", "DELETE_FAST")}
        self._arguments = set(code.co_varnames[: code.co_argcount]) - stored if is_followed else set()
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
                waiting += self._caught(state)
            if len(seen) > _MOST_STATES:
                raise _Shows
        return self._gives_text

    def _caught(self, state: _State) -> list[_State]:
        """The states in clauses that an error of the instruction goes to."""
        at, found = self._steps[state.at].offset, []
        for entry in self._clauses:
            if entry.start <= at < entry.end:
                stack = (*state.stack[: entry.depth], *([_OTHER] * (1 + entry.lasti)))
                found.append(_State(self._at[entry.target], stack, state.texts))
        return found

    def _after(self, state: _State) -> list[_State]:
        """The states behind one instruction."""
        step, stack = self._steps[state.at], list(state.stack)
        name = step.opname
        if name in ("RETURN_VALUE", "RETURN_CONST"):
            self._gives_text |= name == "RETURN_VALUE" and self._given(stack[-1]) == _TEXT
            return []
        if name == "RERAISE":
            return []
        if "JUMP" in name or name == "FOR_ITER":
            return [replace(state, at=at, stack=after) for at, after in self._jumps(step, stack, state.at)]
        texts = state.texts
        if name == "STORE_FAST":
            texts = texts | {step.argval} if self._given(stack.pop()) == _TEXT else texts - {step.argval}
        elif name in ("LOAD_FAST", "LOAD_FAST_CHECK"):
            is_text, is_argument = step.argval in texts, step.argval in self._arguments
            stack.append(_TEXT if is_text else _ARGUMENT if is_argument else _OTHER)
        else:
            self._run(step, stack)
        return [_State(state.at + 1, tuple(stack), texts)]

    def _jumps(self, step: dis.Instruction, stack: list[Any], at: int) -> list[tuple[int, tuple[Any, ...]]]:
        """Where it may go on, with the kinds on the stack."""
        target = self._at[step.argval]
        if step.opname in ("JUMP_FORWARD", "JUMP_BACKWARD"):
            return [(target, tuple(stack))]
        if step.opname == "FOR_ITER":
            end = target + (self._steps[target].opname == "END_FOR")  # of 3.12, which the interpreter leaps over
            return [(end, tuple(stack[:-1])), (at + 1, (*stack, _OTHER))]
        if step.opname.startswith("POP_JUMP_"):
            self._used(stack.pop())
            return [(target, tuple(stack)), (at + 1, tuple(stack))]
        if step.opname in ("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP"):
            self._used(stack[-1])
            return [(target, tuple(stack)), (at + 1, tuple(stack[:-1]))]
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
            self._attribute(step, stack)
        elif name == "BINARY_SUBSCR":
            of, item = _taken(stack, 2)
            self._used(of, item)
            stack.append(of if of == _ARGUMENT else _OTHER)
        elif name == "BINARY_OP" and step.argrepr in ("+", "+="):  # of a text and a text; a placeholder refuses it
            parts = [self._given(one) for one in _taken(stack, 2)]
            stack.append(_TEXT if _TEXT in parts else _OTHER)
        elif name in _OF_TWO:
            self._used(stack.pop(), stack.pop())
            stack.append(_OTHER)
        elif name in _OF_ONE:
            self._used(stack.pop())
            stack.append(_OTHER)
        else:
            self._build(step, number, stack)

    def _attribute(self, step: dis.Instruction, stack: list[Any]) -> None:
        of = stack.pop()
        self._used(of)
        is_method = "Method" in step.opname.title() or "NULL|self" in step.argrepr
        if step.argval in _FORMAT_METHODS:
            if not is_method:  # it is called elsewhere
                raise _Shows
            stack += [_FORMATS, _OTHER]
        elif is_method:
            stack += [_SINK if of == _ARGUMENT and step.argval in _SINKS else _OTHER, _OTHER]
        else:
            stack.append(of if of == _ARGUMENT else _OTHER)

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
            case "BUILD_CONST_KEY_MAP" | "BUILD_MAP":
                keys = _taken(stack, 1) if step.opname == "BUILD_CONST_KEY_MAP" else []
                items = _taken(stack, number if keys else 2 * number)
                keys, values = (keys, items) if keys else (items[::2], items[1::2])
                self._used(*keys)
                stack.append(_TEXT if _TEXT in list(map(self._given, values)) else _OTHER)
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
            case "POP_TOP" | "STORE_DEREF" | "LIST_EXTEND":  # a list is extended by the letters of a text
                self._used(stack.pop())
            case "MAKE_FUNCTION":
                self._used(*_taken(stack, 1 + number.bit_count()))
                stack.append(_OTHER)
            case "PUSH_EXC_INFO":
                stack.append(_OTHER)
            case "CHECK_EXC_MATCH" | "GET_ITER":
                self._used(stack.pop())
                stack.append(_OTHER)
            case "POP_EXCEPT":
                stack.pop()
            case "BUILD_SLICE":
                self._used(*_taken(stack, number))
                stack.append(_OTHER)
            case "BINARY_SLICE":
                self._used(*_taken(stack, 3))
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
        if method == _SINK:
            stack.append(_OTHER)
            return
        callee = self_or_function if method == _NULL else method
        if isinstance(callee, FunctionType):
            if _TEXT in arguments:
                raise _Shows
            stack.append(_TEXT if self._reading.returns_text(callee) else _OTHER)
            return
        if _TEXT in arguments and not (is_struct(callee) or is_made_of_fields(callee)):
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
