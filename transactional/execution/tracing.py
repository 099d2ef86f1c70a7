"""The acts of a program's functions, call by call, by which two runs over the same log are compared."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from itertools import count
from typing import Any, NoReturn

import msgspec

from transactional.context import Call, CallChain, CallSite, Context, Path, call_of, seen_through
from transactional.errors import USER_ERRORS, TransactionEnds, describe
from transactional.operators import Function, Program, StateKey
from transactional.state.values import BadValue, digest, encode
from transactional.state.versioned_values import plain_value

_SHOWN = 160


class Traced(msgspec.Struct):
    """One call of a function and what it did, in order. ``root``: of a request itself."""

    tid: int
    root: bool
    operator: str
    key: str
    function: str
    acts: list[str] = []
    steps: list[int] = []
    """When each of its acts was, among all acts of the run."""
    written: list[StateKey] = []


def traced(program: Program, calls: list[Traced], numbers: Iterator[int] | None = None) -> Program:
    """The program with functions that add themselves to ``calls`` when they begin. ``numbers``: of the run's acts."""
    numbers = count() if numbers is None else numbers

    def wrap(operator: str, name: str, function: Function) -> Function:
        def call(ctx: Context, *args: Any, **kwargs: Any) -> Awaitable[Any]:
            tid, call_chain, path = call_of(ctx)
            made = Traced(tid, not call_chain and not path, operator, ctx.key, name)
            writes_down = _Pen(made, numbers)
            writes_down(f"begins with {_cut(_given(args, kwargs))}")
            frame = function(seen_through(ctx, lambda place: _Watched(place, writes_down)), *args, **kwargs)
            calls.append(made)
            return _followed(frame, writes_down)

        return call

    return program.wrapped(wrap)


class _Pen:
    """Adds acts to a call."""

    def __init__(self, made: Traced, numbers: Iterator[int]) -> None:
        self.made, self._numbers = made, numbers

    def __call__(self, act: str) -> None:
        self.made.acts.append(act)
        self.made.steps.append(next(self._numbers))


async def _followed(frame: Awaitable[Any], pen: _Pen) -> Any:
    try:
        result = await frame
    except (TransactionEnds, *USER_ERRORS) as error:
        pen(f"ends with {_cut(str(describe(error)))}")
        raise
    try:
        pen(f"returns {shown(encode(result))}")
    except BadValue as error:
        pen(f"returns what is no value: {error}")
    return result


class _Watched:
    """A place that records its calls."""

    def __init__(self, place: CallSite, pen: _Pen) -> None:
        self._place, self._pen = place, pen
        self.program = place.program
        self.seed = place.seed
        self.time_ms = place.time_ms

    def read(self, call_chain: CallChain, key: StateKey) -> bytes | None:
        data = self._place.read(call_chain, key)
        self._pen(f"reads {shown(data)}")
        return data

    def write(self, call_chain: CallChain, key: StateKey, value: bytes | None) -> None:
        self._pen(f"writes {shown(value)}")
        self._pen.made.written.append(key)
        self._place.write(call_chain, key, value)

    def scan(self, call_chain: CallChain, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        found = self._place.scan(call_chain, operator, prefix)
        self._pen(f"scans {prefix!r}: {shown(encode(found))}")
        return found

    def nested(self, call: Call) -> Awaitable[Any]:
        self._pen(f"calls {_target(call)}")
        return self._place.nested(call)

    def queue(self, call: Call) -> None:
        self._pen(f"queues {_target(call)}")
        self._place.queue(call)

    def abort(self, call_chain: CallChain, reason: tuple[Any, ...]) -> NoReturn:
        self._place.abort(call_chain, reason)

    def exceed(self, call_chain: CallChain, reason: str) -> NoReturn:
        self._pen(f"exceeds {reason}")
        self._place.exceed(call_chain, reason)

    def external(self, call_chain: CallChain, path: Path, function: str, arguments: bytes, timeout_ms: int) -> bytes:
        self._pen(f"calls the external {function} {shown(arguments)}")
        return self._place.external(call_chain, path, function, arguments, timeout_ms)


def shown(data: bytes | None) -> str:
    """A value for people; what is long is cut and distinguished by its digest."""
    return "nothing" if data is None else _cut(repr(plain_value(data)))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... (digest {digest(text.encode()).hex()})"


def _given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    return ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]) or "no arguments"


def _target(call: Call) -> str:
    target = call.target
    return f"{target.operator} {target.key!r} {target.function} with {shown(target.arguments)}"
