"""``ctx``: what a transactional function sees of its entity, of others and of the world."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol, TypeAlias

import msgspec

from transactional.chance import Chance
from transactional.operators import Function, Operator, Program, StateKey, Target
from transactional.values import PACK_ERRORS, BadValue, decode, encode, is_text, pack, unpack

Path: TypeAlias = tuple[int, ...]
"""Where in a strand a call is: for each caller, outermost first, the number of the call among its calls."""
Strand: TypeAlias = tuple[Path, ...]
"""Which queued call of which queued call this is; the root's strand is empty. Order: ``(len, itself)``."""


class Call(msgspec.Struct, frozen=True, gc=False):
    """A call on its way: its place in the transaction, and its target."""

    strand: Strand
    path: Path
    target: Target


class Place(Protocol):
    """Where a transaction runs: behind ``ctx``."""

    program: Program
    seed: int
    """The TID of its first run: a transaction that goes on after a call to the outside has another one."""
    time_ms: int

    def read(self, strand: Strand, key: StateKey) -> bytes | None:
        """The transaction's own last write, or the state it runs against."""
        ...

    def write(self, strand: Strand, key: StateKey, value: bytes | None) -> None:
        """Buffer a write; None deletes."""
        ...

    def scan(self, strand: Strand, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """Keys with this prefix, in order."""
        ...

    def nested(self, call: Call) -> Awaitable[Any]:
        """Run now, give the result."""
        ...

    def queue(self, call: Call) -> None:
        """Run when the strands before it have ended."""
        ...

    def abort(self, strand: Strand, reason: tuple[Any, ...]) -> NoReturn:
        """End the transaction."""
        ...

    def exceed(self, strand: Strand, reason: str) -> NoReturn:
        """End the transaction at a limit."""
        ...

    def external(self, strand: Strand, path: Path, function: str, arguments: bytes, timeout_ms: int) -> bytes:
        """The logged result; raises what the call failed with, or ends the transaction until it is made."""
        ...


class Context:
    """First argument of every transactional function. Belongs to one call."""

    __slots__ = ("_calls", "_chance", "_entity", "_left", "_operator", "_path", "_place", "_strand", "key")

    def __init__(self, place: Place, operator: Operator, key: str, strand: Strand, path: Path) -> None:
        self.key = key
        self._place = place
        self._operator = operator
        self._entity = operator.name, key
        self._strand = strand
        self._path = path
        self._calls = 0
        self._left = place.program.limits.max_steps
        self._chance: Chance | None = None

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
    def random(self) -> Chance:
        """Random numbers that a rerun draws again, decided by transaction and call."""
        if self._chance is None:
            self._chance = Chance(encode((self._place.seed, self._strand, self._path)))
        return self._chance

    def uuid(self) -> str:
        """A random UUID (version 4) that a rerun draws again."""
        return self.random.uuid()

    def get(self, default: Any = None) -> Any:
        """The entity's state: a fresh value, of the operator's ``state`` type; ``default`` if there is none."""
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        data = self._place.read(self._strand, self._entity)
        if data is None:
            return default
        kind = self._operator.state
        return unpack(data) if kind is None else decode(data, kind)

    def exists(self) -> bool:
        """Whether the entity has a state."""
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        return self._place.read(self._strand, self._entity) is not None

    def put(self, value: Any) -> None:
        """Replace the entity's state; raises ``BadValue``."""
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        limit = self._place.program.limits.max_value_bytes
        try:
            data = pack(value)
        except PACK_ERRORS:
            data = b""
        if not 0 < len(data) <= limit:
            try:
                data = encode(value, limit)
            except BadValue as error:
                raise BadValue(f"the state of {self._operator.name} {self.key!r} {error}") from None
        self._place.write(self._strand, self._entity, data)

    def delete(self) -> None:
        """Remove the entity's state."""
        self._left -= 1
        if self._left < 0:
            self._exhausted()
        self._place.write(self._strand, self._entity, None)

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
            (key, decode(data, operator.state)) for key, data in self._place.scan(self._strand, operator.name, prefix)
        ]

    async def call(self, operator: str | Operator, key: str, function: str | Function, arguments: Any = None) -> Any:
        """Call another entity within the transaction and wait for its result.

        ``arguments``: a list gives positional, a dict named ones. What the callee raises is raised here: under its own
        type if the program declares it, else as ``CallFailed``.
        """
        target = self._place.program.target(operator, key, function, arguments)
        return await self._place.nested(Call(self._strand, self._next_path(), target))

    def call_async(self, operator: str | Operator, key: str, function: str | Function, arguments: Any = None) -> None:
        """Call another entity within the transaction once this strand has ended; the result goes nowhere."""
        target = self._place.program.target(operator, key, function, arguments)
        strand = (*self._strand, self._next_path())
        if len(strand) > self._place.program.limits.max_depth:
            self._place.exceed(self._strand, f"calls queued by queued calls, {len(strand)} deep")
        self._place.queue(Call(strand, (), target))

    async def external(
        self, function: str | Callable[..., Any], arguments: Any = None, *, timeout_s: float = 30.0
    ) -> Any:
        """Call a function of the outside world, which the program declares in ``externals``, and get its result.

        It is called as ``function(key, ...)`` with an idempotency key. The transaction ends here, and once the result
        is logged runs anew from its beginning with it, on the state of that time. A result that is logged is never
        asked for again; a crash before that may repeat the call, with the same key. What it raises is raised here,
        and ``ExternalTimeout`` (``CallFailed``) where it did not return in time.
        """
        program = self._place.program
        name = program.external(function)
        try:
            data = encode(arguments, program.limits.max_value_bytes)
        except BadValue as error:
            raise BadValue(f"an argument of {name} {error}") from None
        return decode(self._place.external(self._strand, self._next_path(), name, data, round(timeout_s * 1000)))

    def abort(self, *reason: Any) -> NoReturn:
        """End the transaction without effect; ``reason`` is the reply."""
        self._place.abort(self._strand, reason)

    def _exhausted(self) -> NoReturn:
        self._place.exceed(self._strand, f"more than {self._place.program.limits.max_steps} reads and writes in a call")

    def _next_path(self) -> Path:
        path = (*self._path, self._calls)
        self._calls += 1
        if len(path) > self._place.program.limits.max_depth:
            self._place.exceed(self._strand, f"calls within calls, {len(path)} deep")
        return path


def seen_through(ctx: Context, place: Callable[[Place], Place]) -> Context:
    """The same context at its beginning, on another place that is made of its own."""
    return Context(place(ctx._place), ctx._operator, ctx.key, ctx._strand, ctx._path)


def call_of(ctx: Context) -> tuple[int, Strand, Path]:
    """Which call of which transaction a context belongs to."""
    return ctx._place.seed, ctx._strand, ctx._path
