"""What a transaction may end with besides a result, and what functions may raise and catch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

USER_ERRORS = (Exception, SystemExit)
"""What a user's function usually raises."""
RAISED = BaseException
"""What it may raise where a node runs it, which only signal handlers of its own interrupt: nothing may end the node."""
MOST_ARGUMENTS = 32
MOST_CHARACTERS = 2_000
"""Of an exception's name and of each of its arguments, as replies show them; the rest is cut off."""

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")


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
    if isinstance(error, CallFailed) and type(error.aborted) is Aborted:
        kind, arguments = error.aborted.kind, error.aborted.arguments
    else:
        kind, arguments = type(error).__name__, _ARGUMENTS.__get__(error)
    return Aborted(_text(kind), tuple(map(_plain, arguments[:MOST_ARGUMENTS])))


_ARGUMENTS: Any = vars(BaseException)["args"]
"""Not what a class of the user's own may have made of it."""


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
        return number if number == number else "nan"  # or no two marks that say it would be equal
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
    """The exception that a caller sees: of its own type if the program declares it."""
    kind = declared.get(aborted.kind)
    if kind is None:
        return CallFailed(aborted)
    try:
        return kind(*aborted.arguments)
    except USER_ERRORS:  # what its class makes of these arguments, some of which may be cut
        return CallFailed(aborted)


def by_name(kinds: Iterable[type[Exception]]) -> dict[str, type[Exception]]:
    """Declared exceptions by the name under which they travel; refuses two of one name."""
    found: dict[str, type[Exception]] = {}
    for kind in kinds:
        if found.setdefault(kind.__name__, kind) is not kind:
            raise ValueError(f"two exceptions called {kind.__name__!r} are declared; rename one")
    return found
