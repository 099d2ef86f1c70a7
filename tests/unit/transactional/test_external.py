"""The outcome of an external call, whatever the function does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from transactional.errors import Aborted
from transactional.external import perform
from transactional.state.values import decode, encode


def raising(error: BaseException) -> Callable[..., Any]:
    def function(key: str) -> None:
        raise error

    return function


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_it_raises_is_its_answer(error: BaseException) -> None:
    outcome = perform(raising(error), "pay", "key", encode(None))
    assert isinstance(outcome, Aborted)
    assert outcome.kind == type(error).__name__


@pytest.mark.parametrize(
    ("arguments", "given"), [(None, ()), ([1, 2], (1, 2)), ({"a": 1}, ("a",)), ("x", ("x",))], ids=repr
)
def test_arguments_follow_the_idempotency_key(arguments: Any, given: tuple[Any, ...]) -> None:
    def function(*found: Any, **named: Any) -> list[Any]:
        return [*found, *named]

    outcome = perform(function, "pay", "key", encode(arguments))
    assert isinstance(outcome, bytes)
    assert decode(outcome) == ["key", *given]


def test_what_cannot_travel_and_who_is_unknown_are_named() -> None:
    for outcome, kind in (
        (perform(lambda key: object(), "pay", "key", encode(None)), "BadValue"),
        (perform(None, "pay", "key", encode(None)), "UnknownFunction"),
    ):
        assert isinstance(outcome, Aborted)
        assert outcome.kind == kind
        assert "pay" in str(outcome)
