"""Outcomes of a transaction besides a result, and exceptions that functions may raise and catch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from transactional.state.values import BadValue, decode, travelling

USER_ERRORS = (Exception, SystemExit)
"""Exceptions that a user's function usually raises."""
RAISED = BaseException
"""Exceptions that it may raise where a node runs it, which only its own signal handlers interrupt: all are caught."""
MOST_ARGUMENTS = 32
MOST_CHARACTERS = 2_000
"""Of an exception's name and of each of its arguments, as replies show them; the rest is cut off."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


class Aborted(msgspec.Struct, array_like=True, frozen=True):
    """The reply of a transaction without effect: the type of the exception, and its plain arguments.

    A dict as the last argument holds ``fields``: attributes of a declared exception that its arguments do not make.
    """

    kind: str
    arguments: tuple[Any, ...] = ()

    @property
    def fields(self) -> dict[str, Any]:
        """Attributes of the exception, beside its arguments."""
        return self.arguments[-1] if self.arguments and isinstance(self.arguments[-1], dict) else {}

    @property
    def plain_arguments(self) -> tuple[Any, ...]:
        """Without ``fields``."""
        return self.arguments[:-1] if self.arguments and isinstance(self.arguments[-1], dict) else self.arguments

    def as_error(self, declared: Iterable[type[Exception]]) -> Exception:
        """The exception again, of its own type with its fields where that is one of these, else ``CallFailed``."""
        return restore(self, by_name(declared))

    def __str__(self) -> str:
        named = (f"{name}={value!r}" for name, value in self.fields.items())
        return f"{self.kind}({', '.join([*map(repr, self.plain_arguments), *named])})"


class CallFailed(Exception):
    """A called function raised an exception that the program does not declare; ``aborted`` names it."""

    def __init__(self, aborted: Aborted) -> None:
        super().__init__(str(aborted))
        self.aborted = aborted


class ProgramMissing(Exception):
    """A node has to run an epoch with a version of the program that it does not have."""


class UnknownFunction(LookupError):
    """No such operator, or it has no such function; the message names the nearest."""


class BadArguments(TypeError):
    """The arguments do not fit the function."""


class BadAwait(TypeError):
    """A transactional function awaits something that is no call."""


class CallNotAwaited(RuntimeError):
    """A function ended with a call that it has begun and not awaited, so the call was never made."""


class LimitExceeded(Exception):
    """The transaction calls too much or too deep."""


class TransactionEnds(BaseException):
    """Unwinds a function that cannot go on; programs must not catch it, and catching it changes nothing."""


class Abort(TransactionEnds):
    """``ctx.abort(reason)``."""


class NotShipped(TransactionEnds):
    """A rerun touches what its read-set snapshot lacks."""


class TimedOut(TransactionEnds):
    """A function runs too long."""


class RerunHangs(Exception):
    """A function runs too long when it is run again, and elsewhere it did not: the node cannot go on."""


def describe(error: BaseException, declared: Mapping[str, type[Exception]] | None = None) -> Aborted:
    """An exception's description, equal on all nodes: no addresses or tracebacks; of a declared one all fields."""
    if isinstance(error, CallFailed) and type(error.aborted) is Aborted:
        kind, arguments = error.aborted.kind, error.aborted.arguments
        fields = error.aborted.fields
        return Aborted(_text(kind), (*map(_plain, arguments[:MOST_ARGUMENTS]), *([fields] if fields else [])))
    kind, arguments = type(error).__name__, _ARGUMENTS.__get__(error)
    plain = tuple(map(_plain, arguments[:MOST_ARGUMENTS]))
    if declared is not None and declared.get(kind) is type(error):
        fields = _fields(error, arguments)
        if fields:
            return Aborted(_text(kind), (*plain, fields))
    return Aborted(_text(kind), plain)


_ARGUMENTS: Any = vars(BaseException)["args"]
"""Not what a class of the user's own may have made of it."""
_ATTRIBUTES: Any = vars(BaseException)["__dict__"]


def _fields(error: BaseException, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """The attributes of a declared exception, where its type does not make the same of the arguments."""
    own = {name: value for name, value in _ATTRIBUTES.__get__(error).items() if name[:2] != "__"}
    try:
        again = type(error)(*arguments)
        is_made = _ARGUMENTS.__get__(again) == arguments and _ATTRIBUTES.__get__(again) == own
    except USER_ERRORS:  # it wants other arguments, or knows no comparison
        is_made = False
    return {} if is_made else {name: _kept(value) for name, value in sorted(own.items())[:MOST_ARGUMENTS]}


def _kept(value: Any) -> Any:
    """A field: itself, also a list or dict that is not large, or what it is called."""
    if not isinstance(value, list | tuple | dict | msgspec.Struct):
        return _plain(value)
    try:
        return _deep(decode(travelling(value, MOST_CHARACTERS)))
    except BadValue:
        return _text(type(value).__name__)


def _deep(value: Any) -> Any:
    if isinstance(value, list):
        return [_deep(each) for each in value]
    return {_text(key): _deep(each) for key, each in value.items()} if isinstance(value, dict) else _plain(value)


def _plain(argument: Any) -> Any:
    """Itself, of the plain type that can travel, or what it is called."""
    if argument is None or isinstance(argument, bool):
        return argument
    if isinstance(argument, str):
        return _text(argument)
    if isinstance(argument, bytes):
        return bytes.__getitem__(argument, slice(MOST_CHARACTERS))
    if isinstance(argument, int) and -(2**63) <= (number := int.__index__(argument)) < 2**63:
        return number
    if isinstance(argument, float):
        number = float.__float__(argument)
        return number if number == number else "nan"  # or no two barriers that hold it would be equal
    return _text(type(argument).__name__)


def _text(text: str) -> str:
    """Without addresses, of a length and of characters that can travel."""
    whole = str.__str__(text)
    if len(whole) > MOST_CHARACTERS:
        whole = whole[:MOST_CHARACTERS] + "..."
    if not whole.isascii():
        whole = whole.encode(errors="replace").decode()
    return _ADDRESS.sub("0x?", whole)


def restore(aborted: Aborted, declared: Mapping[str, type[Exception]]) -> Exception:
    """The exception that a caller sees: of its own type, with its fields, if the program declares it."""
    kind = declared.get(aborted.kind)
    if kind is None:
        return CallFailed(aborted)
    try:
        if not (fields := aborted.fields):
            return kind(*aborted.arguments)
        made = kind.__new__(kind, *aborted.plain_arguments)
        _ARGUMENTS.__set__(made, aborted.plain_arguments)
        _ATTRIBUTES.__get__(made).update(fields)
        return made
    except USER_ERRORS:  # what its class makes of these arguments, some of which may be cut
        return CallFailed(aborted)


def by_name(kinds: Iterable[type[Exception]]) -> dict[str, type[Exception]]:
    """Declared exceptions by the name under which they travel; refuses two of one name."""
    found: dict[str, type[Exception]] = {}
    for kind in kinds:
        if found.setdefault(kind.__name__, kind) is not kind:
            raise ValueError(f"two exceptions called {kind.__name__!r} are declared; rename one")
    return found
