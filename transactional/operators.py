"""Operators: partitioned keyed state with the functions that work on it; a program is a set of operators.

Source: Styx, section 3.1. An entity is a key of an operator.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, TypeVar

import msgspec

from holon.outputs.partitioner import murmur2, partitions_of
from transactional.errors import BadArguments, UnknownFunction, by_name
from transactional.state.values import PACK_ERRORS, BadValue, ValueMisfit, decode, is_plain, pack, travelling
from transactional.state.versioned_values import FIRST_VERSION, MOST_VERSION, Upgrade, version_head
from transactional.streams import CURSORS, Binding, feed, follow, skip, where

Function: TypeAlias = Callable[..., Awaitable[Any]]
_SHORT_KEY = 100
StateKey: TypeAlias = tuple[str, str]
"""(operator, key)."""

F = TypeVar("F", bound=Function)


@lru_cache(maxsize=1 << 16)
def key_hash(text: str) -> int:
    """Not negative, as Kafka's default partitioner has it."""
    return murmur2(text.encode()) & 0x7FFFFFFF


def hashes_mod(keys: Sequence[str], colocate: str | None, count: int) -> list[int]:
    """``key_hash`` of the first part of each key, modulo ``count``; many together cost little each."""
    parts = keys if colocate is None else [key.split(colocate, 1)[0] for key in keys]
    return partitions_of([part.encode() for part in parts], count)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one transaction, counted in operations, so that all nodes agree.

    ``max_calls`` of its whole call graph; ``max_depth`` of calls within calls, and of queued calls that queue calls.
    ``max_value_bytes`` of one argument list, result or state value; ``max_bytes`` of all arguments and results of its
    calls, and of all that it writes. ``max_steps``: reads, writes and scans of one call. ``max_externals``: the
    external calls of one transaction, each of which makes it run anew.
    """

    max_calls: int = 10_000
    max_depth: int = 100
    max_value_bytes: int = 1 << 20
    max_bytes: int = 1 << 26
    max_steps: int = 100_000
    max_externals: int = 100


class Operator:
    """Entities of one kind. ``register`` makes an ``async`` function one of theirs.

    Args: ``partitions`` of the state; ``colocate`` is the separator behind the first part of composite keys: keys with
    the same first part live in one partition, and ``ctx.scan`` finds them. ``state`` is the type that ``ctx.get`` gives
    (a ``msgspec.Struct``, dataclass or annotation); None gives plain values. ``upgrade(value, version)`` makes of a
    plain value that another ``version`` of the program has written the value of this one. It runs at each read until
    the value is written again, on any node: it depends on its arguments alone.
    """

    def __init__(
        self,
        name: str,
        *,
        partitions: int,
        colocate: str | None = None,
        state: Any = None,
        upgrade: Upgrade | None = None,
    ) -> None:
        if upgrade is not None and iscoroutinefunction(upgrade):
            raise TypeError(f"the upgrade of operator {name!r} is async: it is a plain function of value and version")
        if partitions < 1:
            raise ValueError(f"operator {name!r} needs at least one partition, not {partitions}")
        self.name = name
        self.partitions = partitions
        self.colocate = colocate
        self.state = state
        self.upgrade = upgrade
        self.entity: Any = None  # the class that it was made from, whose fields are the state
        self.functions: dict[str, Function] = {}
        self.bindings: list[Binding] = []

    def register(self, function: F) -> F:
        """Decorator: ``async def f(ctx, ...)`` becomes callable under its own name."""
        name = function.__name__
        if not iscoroutinefunction(function):
            raise TypeError(f"{self.name}.{name} must be an async function")
        if name in self.functions:
            raise ValueError(f"operator {self.name!r} already has a function {name!r}")
        self.functions[name] = function
        return function

    def bind(
        self,
        topic: str,
        function: str | Function,
        *,
        key: Callable[[Any], str],
        arguments: Callable[[Any], Any] = lambda record: [record],
        batch: int = 100,
    ) -> None:
        """Hand each record of a topic (JSON) once, in its partition's order, to a function of entity ``key(record)``.

        The function gets ``arguments(record)``. Up to ``batch`` records are one transaction. A record that aborts is
        left out and counted.
        """
        name = function if isinstance(function, str) else function.__name__
        if name not in self.functions:
            raise UnknownFunction(f"operator {self.name!r} has no {name!r} to bind{_nearest(name, self.functions)}")
        if batch < 1:
            raise ValueError(f"a batch of {topic!r} has at least one record, not {batch}")
        self.bindings.append(Binding(topic, self.name, name, key, arguments, batch))

    def partition_of(self, key: str) -> int:
        """The key's partition: as Kafka's default partitioner, over the first part of a composite key."""
        part = key if self.colocate is None else key.split(self.colocate, 1)[0]
        return key_hash(part) % self.partitions

    def partitions_of(self, keys: Sequence[str]) -> list[int]:
        """As ``partition_of`` each."""
        return hashes_mod(keys, self.colocate, self.partitions)

    def pinned(self, prefix: str) -> bool:
        """Whether all keys with this prefix live in one partition."""
        return self.colocate is not None and self.colocate in prefix

    def __repr__(self) -> str:
        return f"Operator({self.name!r}, partitions={self.partitions})"


class Target(msgspec.Struct, frozen=True, gc=False):
    """A checked call: to whom, and its encoded arguments."""

    operator: str
    key: str
    function: str
    arguments: bytes


class Program:
    """The operators of one job. ``errors``: exceptions that callers of other entities catch under their own type.

    ``externals``: plain external functions that ``ctx.external`` may call, known by their names. ``version`` is kept
    with each value that the program writes: raise it when values change their form (``Operator(upgrade=)``).
    """

    def __init__(
        self,
        name: str,
        operators: Iterable[Operator],
        *,
        errors: Iterable[type[Exception]] = (),
        limits: Limits | None = None,
        externals: Iterable[Callable[..., Any]] = (),
        version: int = FIRST_VERSION,
    ) -> None:
        if not 1 <= version <= MOST_VERSION:
            raise ValueError(f"program {name!r}: a version is 1 to {MOST_VERSION}, not {version}")
        self.name = name
        self.version = version
        self.version_head = version_head(version)
        self.operators: dict[str, Operator] = {}
        for operator in operators:
            if self.operators.setdefault(operator.name, operator) is not operator:
                raise ValueError(f"program {name!r} has two operators called {operator.name!r}")
        if not self.operators:
            raise ValueError(f"program {name!r} has no operator")
        self.errors = by_name(errors)
        self.externals = _externals_by_name(externals)
        self.limits = Limits() if limits is None else limits
        self._names: dict[tuple[str | Operator, str | Function], tuple[str, str]] = {}
        self.partitions = max(operator.partitions for operator in self.operators.values())
        self.bindings = [each for _, operator in sorted(self.operators.items()) for each in operator.bindings]
        if self.bindings:
            cursors = self.operators.setdefault(CURSORS, Operator(CURSORS, partitions=self.partitions))
            cursors.functions.update(where=where, feed=feed, skip=skip, follow=follow)

    def target(self, operator: str | Operator, key: str, function: str | Function, arguments: Any = None) -> Target:
        """Check a call and encode its arguments; raises ``UnknownFunction``, ``BadArguments`` or ``BadValue``."""
        names = self._names.get((operator, function))
        name, called = self._named(operator, function) if names is None else names
        if not isinstance(key, str):
            raise BadArguments(f"the key of a {name} is a str, not {type(key).__name__}")
        if len(key) > _SHORT_KEY or not key.isascii():
            self._check_key(name, key)
        try:
            data = pack(arguments)
        except PACK_ERRORS:
            data = b""  # the check below reports why
        if not 0 < len(data) <= self.limits.max_value_bytes or not is_plain(arguments):
            data = checked_arguments(f"{name}.{called}", arguments, self.limits.max_value_bytes)
        return Target(name, key, called, data)

    def _check_key(self, name: str, key: str) -> None:
        try:
            size = len(key.encode())
        except UnicodeEncodeError as error:
            raise BadArguments(f"the key of a {name} is no Unicode text: {error}") from None
        if size > self.limits.max_value_bytes:
            raise BadValue(f"the key of a {name} has {size} bytes, and {self.limits.max_value_bytes} are allowed")

    def _named(self, operator: str | Operator, function: str | Function) -> tuple[str, str]:
        """The names of both, checked; kept for what belongs to this program."""
        name = operator.name if isinstance(operator, Operator) else operator
        called = function if isinstance(function, str) else function.__name__
        found = self.function(name, called)
        if (operator == name or operator is self.operators[name]) and (function == called or function is found):
            self._names[operator, function] = name, called
        return name, called

    def function(self, operator: str, function: str) -> Function:
        """Raises ``UnknownFunction`` with the nearest name."""
        found = self.operators.get(operator)
        if found is None:
            raise UnknownFunction(f"no operator {operator!r}{_nearest(operator, self.operators)}")
        if function not in found.functions:
            raise UnknownFunction(f"operator {operator!r} has no {function!r}{_nearest(function, found.functions)}")
        return found.functions[function]

    def wrapped(self, wrap: Callable[[str, str, Function], Function]) -> Program:
        """The same program with other functions: ``wrap`` is given operator, name and function."""
        made = copy(self)
        made._names, made.operators = {}, {}
        for name, operator in self.operators.items():
            made.operators[name] = each = copy(operator)
            each.functions = {called: wrap(name, called, function) for called, function in operator.functions.items()}
        return made

    def external(self, function: str | Callable[..., Any]) -> str:
        """The name of a declared one; raises ``UnknownFunction``."""
        name = function if isinstance(function, str) else function.__name__
        found = self.externals.get(name)
        if found is None or not (isinstance(function, str) or function is found):
            raise UnknownFunction(f"no external function {name!r}{_nearest(name, self.externals)}")
        return name

    def place(self, operator: str, key: str) -> int:
        """State partition of an entity."""
        return self.operators[operator].partition_of(key)


def checked_arguments(of: str, arguments: Any, limit_bytes: int | None) -> bytes:
    """As they travel; raises ``BadArguments`` with the place of what cannot, ``BadValue`` if they are too large."""
    try:
        return travelling(arguments, limit_bytes)
    except ValueMisfit as error:
        raise BadArguments(f"{of}: {error}") from None
    except BadValue as error:
        raise BadValue(f"an argument of {of} {error}") from None


def bind(function: Function, ctx: Any, arguments: bytes) -> Any:
    """The coroutine of a call: a list gives positional arguments, a dict named ones, None none, else the only one.

    Raises ``BadArguments``.
    """
    given = decode(arguments)
    try:
        match given:
            case None:
                return function(ctx)
            case list():
                return function(ctx, *given)
            case dict():
                return function(ctx, **given)
            case _:
                return function(ctx, given)
    except TypeError as error:  # raised before the body runs: it is a coroutine function
        raise BadArguments(str(error)) from None


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=3)
    return f"; nearest: {', '.join(near)}" if near else ""


def _externals_by_name(functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Declared ones; refuses two of one name, and what is no plain function."""
    found: dict[str, Callable[..., Any]] = {}
    for function in functions:
        if iscoroutinefunction(function):
            raise TypeError(f"external function {function.__name__} is async: it runs in a thread, so it is plain")
        if found.setdefault(function.__name__, function) is not function:
            raise ValueError(f"two external functions called {function.__name__!r} are declared; rename one")
    return found
