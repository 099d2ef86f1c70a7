"""``ctx``: what a transactional function sees of its entity, of others and of the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol, TypeAlias

import msgspec

from transactional.errors import CallNotAwaited
from transactional.execution.deterministic_random import DeterministicRandom
from transactional.operators import Function, Operator, Program, StateKey, Target, checked_arguments
from transactional.state.values import (
    PACK_ERRORS,
    BadValue,
    decode,
    encode,
    fits_type,
    is_plain,
    is_text,
    pack,
    travelling,
    travelling_as,
    unpack,
)
from transactional.state.versioned_values import MARK, value_now

Path: TypeAlias = tuple[int, ...]
"""Where in a call chain a call is: for each caller, outermost first, the number of the call among its calls."""
CallChain: TypeAlias = tuple[Path, ...]
"""Which queued call of which queued call this is; the root's call chain is empty. Order: ``(len, itself)``."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call on its way: its place in the transaction, and its target."""

    call_chain: CallChain
    path: Path
    target: Target


class CallSite(Protocol):
    """Where a transaction runs: behind ``ctx``."""

    program: Program
    seed: int
    """The TID of its first run: a transaction that goes on after an external call has another one."""
    time_ms: int

    def read(self, call_chain: CallChain, key: StateKey) -> bytes | None:
        """The transaction's own last write, or the state it runs against."""
        ...

    def write(self, call_chain: CallChain, key: StateKey, value: bytes | None) -> None:
        """Buffer a write; None deletes."""
        ...

    def scan(self, call_chain: CallChain, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """Keys with this prefix, in order."""
        ...

    def nested(self, call: Call) -> Awaitable[Any]:
        """Run now, give the result."""
        ...

    def queue(self, call: Call) -> None:
        """Run when the call chains before it have ended."""
        ...

    def abort(self, call_chain: CallChain, reason: tuple[Any, ...]) -> NoReturn:
        """End the transaction."""
        ...

    def exceed(self, call_chain: CallChain, reason: str) -> NoReturn:
        """End the transaction at a limit."""
        ...

    def external(self, call_chain: CallChain, path: Path, function: str, arguments: bytes, timeout_ms: int) -> bytes:
        """The logged result; raises what the call failed with, or ends the transaction until it is made."""
        ...


class Issued:
    """``await`` it: makes a call of ``ctx``, and gives its result. A function that ends before has forgotten it."""

    __slots__ = ("_ctx", "_make", "what")

    def __init__(self, ctx: Context, what: str, make: Callable[[], Generator[Any, Any, Any]]) -> None:
        self._ctx = ctx
        self._make = make
        self.what = what
        ctx._issue(self)

    def __await__(self) -> Generator[Any, Any, Any]:
        self._ctx._await(self)
        return self._make()


class Context:
    """First argument of every transactional function. Belongs to one call."""

    __slots__ = (
        "_call_chain",
        "_calls",
        "_entity",
        "_home",
        "_left",
        "_operator",
        "_path",
        "_place",
        "_random",
        "issued",
        "key",
    )  # fmt: skip

    def __init__(self, place: CallSite, operator: Operator, key: str, call_chain: CallChain, path: Path) -> None:
        self.key = key
        self._place = place
        self._operator = operator
        self._entity = operator.name, key
        self._call_chain = call_chain
        self._path = path
        self._calls = 0
        self._left = place.program.limits.max_steps
        self._random: DeterministicRandom | None = None
        self._home: Context | None = None
        self.issued: dict[Issued, None] | None = None
        """Calls that the function has begun and not awaited."""

    @property
    def tid(self) -> int:
        """Number of the transaction."""
        return self._place.seed

    @property
    def now_ms(self) -> int:
        """When the transaction was sequenced: the same in every function and every rerun of it."""
        return self._place.time_ms

    @property
    def now(self) -> datetime:
        """``now_ms`` as UTC."""
        return datetime.fromtimestamp(self._place.time_ms / 1000, UTC)

    @property
    def random(self) -> DeterministicRandom:
        """Random numbers that a rerun draws again, decided by transaction and call."""
        if self._random is None:
            self._random = DeterministicRandom(encode((self._place.seed, self._call_chain, self._path)))
        return self._random

    def uuid(self) -> str:
        """A random UUID (version 4) that a rerun draws again."""
        return self.random.uuid()

    def get(self, default: Any = None) -> Any:
        """The entity's state: a fresh value, of the operator's ``state`` type; ``default`` if there is none."""
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        data = self._place.read(self._call_chain, self._entity)
        if data is None:
            return default
        operator = self._operator
        if data[0] == MARK or operator.upgrade is not None:
            return self._value_now(self.key, data)
        return unpack(data) if operator.state is None else decode(data, operator.state)

    def exists(self) -> bool:
        """Whether the entity has a state."""
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        return self._place.read(self._call_chain, self._entity) is not None

    def put(self, value: Any) -> None:
        """Replace the entity's state; raises ``BadValue``."""
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        limit, kind = self._place.program.limits.max_value_bytes, self._operator.state
        try:
            data = pack(value)
        except PACK_ERRORS:
            data = b""
        if not 0 < len(data) <= limit or not (is_plain(value) if kind is None else fits_type(value, data, kind)):
            try:
                data = travelling(value, limit) if kind is None else travelling_as(kind, value, limit)
            except BadValue as error:
                raise BadValue(f"the state of {self._operator.name} {self.key!r} {error}") from None
        head = self._place.program.version_head
        self._place.write(self._call_chain, self._entity, head + data if head else data)

    def delete(self) -> None:
        """Remove the entity's state."""
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        self._place.write(self._call_chain, self._entity, None)

    def scan(self, prefix: str) -> list[tuple[str, Any]]:
        """Co-located entities of this operator by prefix, in order of their keys; no other transaction adds to them.

        ``prefix`` holds this entity's own first key part and the separator behind it, else ``ValueError``.
        """
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        operator = self._operator
        home = "" if operator.colocate is None else self.key.split(operator.colocate, 1)[0] + operator.colocate
        if not operator.pinned(prefix) or not prefix.startswith(home) or not (prefix.isascii() or is_text(prefix)):
            raise ValueError(
                f"{operator.name} {self.key!r} cannot scan {prefix!r}: a scan stays within co-located keys "
                f"(Operator(colocate=...)), so its prefix begins with {home!r}"
            )
        return [
            (key, self._value_now(key, data)) for key, data in self._place.scan(self._call_chain, operator.name, prefix)
        ]

    def _value_now(self, key: str, data: bytes) -> Any:
        """Of an entity of this operator, whichever version of the program has written it."""
        operator, program = self._operator, self._place.program
        if data[0] != MARK and operator.upgrade is None:
            return decode(data, operator.state)
        try:
            return value_now(data, program.version, operator.state, operator.upgrade, program.limits.max_value_bytes)
        except BadValue as error:
            raise BadValue(f"the state of {operator.name} {key!r}: {error}") from None

    def call(
        self, operator: str | Operator, key: str, function: str | Function, arguments: Any = None
    ) -> Awaitable[Any]:
        """Call another entity within the transaction: ``await`` it for its result.

        ``arguments``: a list gives positional, a dict named ones. An exception of the callee is raised here: under its
        own type if the program declares it, else as ``CallFailed``. Without ``await`` the function ends with
        ``CallNotAwaited``.
        """
        return Issued(self, _called(operator, key, function), lambda: self._call(operator, key, function, arguments))

    def _call(
        self, operator: str | Operator, key: str, function: str | Function, arguments: Any
    ) -> Generator[Any, Any, Any]:
        target = self._place.program.target(operator, key, function, arguments)
        return (yield from self._place.nested(Call(self._call_chain, self._next_path(), target)).__await__())

    def call_async(self, operator: str | Operator, key: str, function: str | Function, arguments: Any = None) -> None:
        """Call another entity within the transaction once this call chain has ended; the result goes nowhere."""
        target = self._place.program.target(operator, key, function, arguments)
        call_chain = (*self._call_chain, self._next_path())
        if len(call_chain) > self._place.program.limits.max_depth:
            self._place.exceed(self._call_chain, f"calls queued by queued calls, {len(call_chain)} deep")
        self._place.queue(Call(call_chain, (), target))

    def external(
        self, function: str | Callable[..., Any], arguments: Any = None, *, timeout_s: float = 30.0
    ) -> Awaitable[Any]:
        """Call an external function, which the program declares in ``externals``; ``await`` its result.

        It is called as ``function(key, ...)`` with an idempotency key. The transaction ends here, and once the result
        is logged runs anew from its beginning with it, on the state of that time. A result that is logged is never
        requested again; a crash before that may repeat the call, with the same key. Its exception is raised here,
        and ``ExternalTimeout`` (``CallFailed``) where it did not return in time.
        """
        name = function if isinstance(function, str) else function.__name__
        return Issued(self, f"the external {name}", lambda: self._external(function, arguments, timeout_s))

    def _external(
        self, function: str | Callable[..., Any], arguments: Any, timeout_s: float
    ) -> Generator[Any, Any, Any]:
        program = self._place.program
        name = program.external(function)
        data = checked_arguments(name, arguments, program.limits.max_value_bytes)
        return decode(self._place.external(self._call_chain, self._next_path(), name, data, round(timeout_s * 1000)))
        yield  # it waits for nothing: the transaction ends instead

    def abort(self, *reason: Any) -> NoReturn:
        """End the transaction without effect; ``reason`` is the reply."""
        self._place.abort(self._call_chain, reason)

    def not_awaited(self) -> CallNotAwaited:
        """The outcome of a function that has left calls ``issued``."""
        assert self.issued, "every call was awaited"
        first = next(iter(self.issued)).what
        more = "" if len(self.issued) == 1 else f", and {len(self.issued) - 1} more,"
        return CallNotAwaited(
            f"a function of {self._operator.name} {self.key!r} has ended and not awaited its call of {first}{more} "
            f"so it was never made: await it, or use call_async where no result is needed"
        )

    def _issue(self, call: Issued) -> None:
        if self._home is not None:
            self._home._issue(call)
        elif self.issued is None:
            self.issued = {call: None}
        else:
            self.issued[call] = None

    def _await(self, call: Issued) -> None:
        issued = (self._home or self).issued
        if issued is None or call not in issued:
            raise RuntimeError(f"a call of {call.what} is awaited twice: keep its result")
        del issued[call]

    def _exhausted(self) -> NoReturn:
        self._place.exceed(
            self._call_chain, f"more than {self._place.program.limits.max_steps} reads and writes in a call"
        )

    def _next_path(self) -> Path:
        path = (*self._path, self._calls)
        self._calls += 1
        if len(path) > self._place.program.limits.max_depth:
            self._place.exceed(self._call_chain, f"calls within calls, {len(path)} deep")
        return path


def seen_through(ctx: Context, place: Callable[[CallSite], CallSite]) -> Context:
    """The same context at its beginning, on another place that is made of its own."""
    made = Context(place(ctx._place), ctx._operator, ctx.key, ctx._call_chain, ctx._path)
    made._home = ctx
    return made


def _called(operator: str | Operator, key: str, function: str | Function) -> str:
    name = operator.name if isinstance(operator, Operator) else operator
    return f"{name}.{function if isinstance(function, str) else function.__name__} of {key!r}"


def call_of(ctx: Context) -> tuple[int, CallChain, Path]:
    """Which call of which transaction a context belongs to."""
    return ctx._place.seed, ctx._call_chain, ctx._path
