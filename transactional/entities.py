"""Entities as classes: annotated fields are the state, async methods are functions, other entities seem local.

    class Item(Entity, partitions=4):
        price: int = 0

        async def get_price(self) -> int:
            return self.price

    class Cart(Entity, partitions=4):
        total: int = 0

        async def add(self, item: Item, quantity: int) -> int:
            self.total += quantity * await item.get_price()
            return self.total

    program = Program("shop", [Item.operator, Cart.operator])

A method that raises keeps what it changed before its last call, and nothing after. References are arguments, results
and fields; not parts of lists. Source: Styx, section 3.1 and Figure 3 (Stateflow's way to write the same).
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from inspect import iscoroutinefunction, signature
from typing import Any, ClassVar, NamedTuple, TypeVar, get_type_hints

import msgspec

from transactional.context import Context
from transactional.errors import USER_ERRORS, BadArguments, CallNotAwaited
from transactional.operators import Operator
from transactional.state.values import BadValue, decode, encode, is_plain, travelling_as
from transactional.state.versioned_values import Upgrade

E = TypeVar("E")


class _Wanted(NamedTuple):
    """A call that a method makes, before its caller is known."""

    operator: str
    key: str
    function: str
    arguments: dict[str, Any]


_ISSUED: ContextVar[dict[_Calling, None] | None] = ContextVar("issued", default=None)
"""Calls that the method which runs has begun and not awaited."""


class _Calling:
    """Awaited inside a method: gives the result of the call."""

    __slots__ = ("_issued", "_wanted")

    def __init__(self, wanted: _Wanted) -> None:
        self._wanted = wanted
        self._issued = _ISSUED.get()
        if self._issued is not None:
            self._issued[self] = None

    @property
    def what(self) -> str:
        return f"{self._wanted.operator}.{self._wanted.function} of {self._wanted.key!r}"

    def __await__(self) -> Generator[_Wanted, Any, Any]:
        if self._issued is not None and self not in self._issued:
            raise RuntimeError(f"a call of {self.what} is awaited twice: keep its result")
        if self._issued is not None:
            del self._issued[self]
        return (yield self._wanted)


class Reference:
    """Another entity, by key; its methods are calls to await."""

    __slots__ = ("_entity", "key")

    def __init__(self, entity: type[Entity], key: str) -> None:
        self._entity = entity
        self.key = key

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        operator = self._entity.operator
        if name not in operator.functions:
            raise AttributeError(f"{operator.name} {self.key!r} is elsewhere: it has no method {name!r} to call")
        parameters = signature(getattr(self._entity, name))

        def call(*args: Any, **kwargs: Any) -> _Calling:
            given = parameters.bind(None, *args, **kwargs).arguments
            arguments = {k: _key_of(v) for k, v in list(given.items())[1:]}
            return _Calling(_Wanted(operator.name, self.key, name, arguments))

        return call


class _EntityType(type):
    """Calling an entity class refers to one of its entities; only the runtime makes instances."""

    def __call__(cls: type[E], key: str) -> E:
        return Reference(cls, key)  # type: ignore[arg-type, return-value]  # callers of its methods use it like one


class Entity(metaclass=_EntityType):
    """Base of entity classes. Keywords: ``partitions``, ``colocate``, ``upgrade`` and ``name`` (the class's, in lower
    case)."""

    operator: ClassVar[Operator]
    key: str
    ctx: Context

    def __init__(self, key: str) -> None:
        raise AssertionError("calling the class gives a reference")

    def __init_subclass__(
        cls,
        *,
        partitions: int,
        colocate: str | None = None,
        name: str | None = None,
        upgrade: Upgrade | None = None,
    ) -> None:
        called = name or cls.__name__.lower()
        cls.operator = Operator(called, partitions=partitions, colocate=colocate, upgrade=upgrade)
        cls.operator.entity = cls
        for method_name, method in vars(cls).items():
            if iscoroutinefunction(method) and not method_name.startswith("_"):
                cls.operator.functions[method_name] = _function(cls, method)


def state_fields(entity: type[Entity]) -> dict[str, Any]:
    """The annotated fields of an entity with their types: its state."""
    return {k: v for k, v in get_type_hints(entity).items() if k not in ("operator", "key", "ctx")}


def _function(cls: type[Entity], method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The method as a function of ``ctx``. Its state is stored before calls and at the end, and read again after."""
    parameters = signature(method)

    async def function(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = parameters.bind(None, *args, **kwargs)
        except TypeError as error:
            raise BadArguments(str(error)) from None
        hints = get_type_hints(method)
        self = object.__new__(cls)
        self.key, self.ctx = ctx.key, ctx
        given = {name: _argument(hints.get(name, Any), value) for name, value in list(bound.arguments.items())[1:]}
        return _key_of(await _Running(self, method(self, **given)))

    return function


class _Running:
    """A method at work: takes the calls it wants to ``ctx``, and its fields to the state."""

    def __init__(self, entity: Entity, coroutine: Any) -> None:
        self._entity = entity
        self._coroutine = coroutine
        self._fields = state_fields(type(entity))
        self._loaded = b""
        self._issued: dict[_Calling, None] = {}

    def __await__(self) -> Generator[Any, Any, Any]:
        self._load()
        value, error = None, None
        while True:
            before = _ISSUED.set(self._issued)
            try:
                wanted = self._coroutine.send(value) if error is None else self._coroutine.throw(error)
            except StopIteration as stop:
                self._check_awaited()
                self._store()
                return stop.value
            finally:
                _ISSUED.reset(before)
            value, error = None, None
            if isinstance(wanted, _Wanted):
                self._store()  # the callee may call back
                try:
                    value = yield from self._entity.ctx.call(*wanted).__await__()
                except USER_ERRORS as raised:
                    error = raised
                self._load()
            else:
                value = yield wanted

    def _check_awaited(self) -> None:
        if self._issued:
            first = next(iter(self._issued)).what
            of = f"{type(self._entity).operator.name} {self._entity.key!r}"
            raise CallNotAwaited(
                f"a method of {of} has ended and not awaited its call of {first}, so it was never made: await it"
            )

    def _load(self) -> None:
        state = self._entity.ctx.get({})
        for name, kind in self._fields.items():
            if name in state:
                setattr(self._entity, name, msgspec.convert(state[name], kind))
            elif hasattr(type(self._entity), name):
                setattr(self._entity, name, copy.deepcopy(getattr(type(self._entity), name)))
        self._loaded = encode(self._state())

    def _store(self) -> None:
        state = self._state()
        if encode(state) != self._loaded:
            self._entity.ctx.put(state)

    def _state(self) -> dict[str, Any]:
        """As plain values, where the types of the fields make the same of these."""
        own = vars(self._entity)
        return {name: self._plain(name, _key_of(own[name])) for name in self._fields if name in own}

    def _plain(self, name: str, value: Any) -> Any:
        try:
            if encode(value) and is_plain(value):
                return value
            return decode(travelling_as(self._fields[name], value))
        except BadValue as error:
            of = f"{type(self._entity).operator.name} {self._entity.key!r}"
            raise BadValue(f"the field {name} of {of} {error}") from None


def _key_of(value: Any) -> Any:
    """A reference travels as its key."""
    return value.key if isinstance(value, (Reference, Entity)) else value


def _argument(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, Entity) and isinstance(value, str):
        return Reference(kind, value)
    return value
