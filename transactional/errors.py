"""What a transaction may end with besides a result, and what functions may raise and catch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

USER_ERRORS = (Exception, SystemExit)
"""What a user's function may raise without taking the node along."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_PLAIN = (str, int, float, bool, bytes, type(None))


class Aborted(msgspec.Struct, array_like=True, frozen=True):
    """The reply of a transaction without effect: the type of the exception, and its plain arguments."""

    kind: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(repr, self.arguments))})"


class CallFailed(Exception):
    """A called function raised an exception that the program does not declare; ``aborted`` tells which."""

    def __init__(self, aborted: Aborted) -> None:
        super().__init__(str(aborted))
        self.aborted = aborted


class UnknownFunction(LookupError):
    """No such operator, or it has no such function; the message names the nearest."""


class BadArguments(TypeError):
    """The arguments do not fit the function."""


class BadAwait(TypeError):
    """A transactional function awaits something that is no call."""


class LimitExceeded(Exception):
    """The transaction calls too much or too deep."""


class TransactionEnds(BaseException):
    """Unwinds a function that cannot go on; nobody may catch it, and catching it changes nothing."""


class Abort(TransactionEnds):
    """``ctx.abort(reason)``."""


class NotShipped(TransactionEnds):
    """A rerun touches what its shipment lacks."""


class TimedOut(TransactionEnds):
    """A function runs too long."""


class RerunHangs(Exception):
    """A function runs too long when it is run again, and elsewhere it did not: the node cannot go on."""


def describe(error: BaseException) -> Aborted:
    """What all nodes agree to say about an exception: never addresses or tracebacks."""
    if isinstance(error, CallFailed):
        return error.aborted
    return Aborted(type(error).__name__, tuple(map(_plain, error.args)))


def _plain(argument: Any) -> Any:
    if not isinstance(argument, _PLAIN) or (type(argument) is int and not -(2**63) <= argument < 2**63):
        return type(argument).__name__
    return _ADDRESS.sub("0x?", str(argument)) if isinstance(argument, str) else argument


def restore(aborted: Aborted, declared: Mapping[str, type[Exception]]) -> Exception:
    """The exception that a caller sees: of its own type if the program declares it."""
    kind = declared.get(aborted.kind)
    if kind is None:
        return CallFailed(aborted)
    try:
        return kind(*aborted.arguments)
    except TypeError:
        return CallFailed(aborted)


def by_name(kinds: Iterable[type[Exception]]) -> dict[str, type[Exception]]:
    """Declared exceptions by the name under which they travel; refuses two of one name."""
    found: dict[str, type[Exception]] = {}
    for kind in kinds:
        if found.setdefault(kind.__name__, kind) is not kind:
            raise ValueError(f"two exceptions called {kind.__name__!r} are declared; rename one")
    return found
