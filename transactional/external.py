"""External calls: how a transaction requests one, and how its result is logged and found again.

A transaction that requests one ends there, without effect. Its *external request* is decided like an exception, and the
owner of its root's partition makes the call and logs a *continuation*. That is the same request with the answers so
far, under the TID and the time of the first run. The first continuation of a step on the log counts. Then the
transaction runs anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from transactional.context import CallChain, Path
from transactional.errors import RAISED, Aborted, describe
from transactional.state.values import BadValue, decode, digest, encode, travelling

EXTERNAL_REQUEST: Final = "ctx.external"
"""Kind of the outcome of a transaction that requests an external call: no name of an exception."""
ANSWER_BYTES: Final = 1 << 18
"""Of one result from outside."""
ANSWERS_BYTES: Final = 1 << 19
"""Of all those of a transaction."""
External: TypeAlias = Callable[..., Any]
"""Called with the idempotency key and the arguments."""


class ExternalAnswer(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of an external call; ``arguments_digest`` names its arguments."""

    call_chain: CallChain
    path: Path
    function: str
    arguments_digest: bytes
    result: bytes | None
    failure: Aborted | None


class ContinuedTransaction(msgspec.Struct, array_like=True, frozen=True):
    """The start of a transaction with external calls when it runs anew; TID and time are those of its first run."""

    tid: int
    time_ms: int
    answers: list[ExternalAnswer]


class ExternalRequest(msgspec.Struct, array_like=True, frozen=True):
    """A call that an owner has to make; ``step`` answers are there already."""

    step: int
    call_chain: CallChain
    path: Path
    function: str
    arguments: bytes
    timeout_ms: int
    tid: int
    time_ms: int

    @property
    def place(self) -> str:
        """Where in the transaction."""
        return "/".join(".".join(map(str, path)) for path in (*self.call_chain, self.path))

    def answer(self, outcome: bytes | Aborted) -> ExternalAnswer:
        """With what came of it."""
        result, failure = (None, outcome) if isinstance(outcome, Aborted) else (outcome, None)
        return ExternalAnswer(self.call_chain, self.path, self.function, digest(self.arguments), result, failure)


def find_answer(request: ExternalRequest, continued: ContinuedTransaction | None, max_answers: int) -> bytes | Aborted:
    """The finding of ``ctx.external``: a result, or the outcome of the transaction.

    ``Answered`` holds what the call itself failed with; else the call has to be made, has changed, or is one too many.
    """
    answers = [] if continued is None else continued.answers
    for answer in answers:
        if (answer.call_chain, answer.path) != (request.call_chain, request.path):
            continue
        if (answer.function, answer.arguments_digest) != (request.function, digest(request.arguments)):
            what = f"{request.function} is asked where {answer.function} was called"
            if answer.function == request.function:
                what = f"{request.function} is asked with other arguments than it was called with"
            return Aborted("ExternalChanged", (f"{what}, at {request.place}",))
        if answer.failure is not None:
            raise Answered(answer.failure)
        assert answer.result is not None, f"an answer to {request.function} is empty"
        return answer.result
    if len(answers) >= max_answers:
        return Aborted("LimitExceeded", (f"more than {max_answers} external calls",))
    if sum(len(answer.result or b"") for answer in answers) > ANSWERS_BYTES:
        return Aborted("LimitExceeded", (f"more than {ANSWERS_BYTES} bytes of external results",))
    return Aborted(EXTERNAL_REQUEST, (encode(request),))


class Answered(Exception):
    """The external call was made, and this is how it failed."""

    def __init__(self, aborted: Aborted) -> None:
        super().__init__(str(aborted))
        self.aborted = aborted


def is_external_request(outcome: Any) -> bool:
    """Whether a transaction ended so."""
    return isinstance(outcome, Aborted) and outcome.kind == EXTERNAL_REQUEST


def external_request_of(outcome: Aborted) -> ExternalRequest:
    """The external calls."""
    return decode(outcome.arguments[0], ExternalRequest)


def perform(
    function: External | None,
    name: str,
    key: str,
    arguments: bytes,
    declared: Mapping[str, type[Exception]] | None = None,
) -> bytes | Aborted:
    """Make the call; whatever it does, there is an outcome. Of exceptions that are ``declared`` all fields travel."""
    if function is None:
        return Aborted("UnknownFunction", (f"the program has no external function {name!r}",))
    given = decode(arguments)
    try:
        match given:
            case None:
                result = function(key)
            case list():
                result = function(key, *given)
            case dict():
                result = function(key, **given)
            case _:
                result = function(key, given)
    except RAISED as error:  # it runs in a thread of its own, where nothing else is raised
        return describe(error, declared)
    try:
        return travelling(result, ANSWER_BYTES)
    except BadValue as error:
        return describe(BadValue(f"the result of {name} {error}"))
