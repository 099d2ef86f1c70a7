"""Functions outside of a simulated transactional fleet, which its transactions call, in virtual time.

A call takes a while, fails, returns behind its timeout, or never. It goes on although its node is dead, and then nobody
hears of it. It never gives the same answer twice: so an answer shows which call counts.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

from nodes.log.contract import Log
from nodes.sim.case import SEVENTEENTH_SEED
from nodes.transactions import external_calls
from nodes.transactions.driver import TransactionDriver
from transactional.operators import Program

ODDS = 0.0, 0.0, 0.1, 0.4
"""Of a request, that it calls outside."""
DELAYS_MS = 0, 20, 200, 1_200
NEVER = 0.03
TIMEOUT_S = 1.0


class OutsideWorld:
    """Of one fleet, from a stream of its own. ``answers``: by idempotency key, what was answered.

    ``odds``: of a request, that it calls. ``again``: calls that were made once more, ``late``: that took too long.
    """

    failed = late = 0

    def __init__(self, seed: int, now_ms: Callable[[], int]) -> None:
        draw = self._draw = Random(seed ^ 0xE87E4A)
        self.odds = draw.choice(ODDS) if seed >= SEVENTEENTH_SEED else 0.0
        self.answers: dict[str, list[int]] = {}
        self._most_ms = draw.choice(DELAYS_MS)
        self._now_ms = now_ms
        self._number = 0
        self._due: list[tuple[int, Callable[[], None]]] = []

    def charge(self, key: str, amount: int) -> list[Any]:
        """The external function: idempotency key and number of the call."""
        self._number += amount
        self.answers.setdefault(key, []).append(self._number)
        if self._draw.random() < 0.1:
            self.failed += 1
            raise KeyError(key)
        return [key, self._number]

    @property
    def made(self) -> int:
        return sum(map(len, self.answers.values()))

    @property
    def again(self) -> int:
        return self.made - len(self.answers)

    def begin(self, name: str, call: Callable[[], None]) -> None:
        """As ``external_calls.Begin``."""
        if self._draw.random() < NEVER:
            self.late += 1
            return
        self._due.append((self._now_ms() + self._draw.randrange(self._most_ms + 1), call))

    def go_on(self) -> None:
        """Calls that are due return."""
        due = [call for at_ms, call in self._due if at_ms <= self._now_ms()]
        self._due = [each for each in self._due if each[0] > self._now_ms()]
        for call in due:
            call()

    def calls_of(self, log: Log, program: Any, topic: str, answer_key: bytes, module: ModuleType | None) -> NodeCalls:
        """Of one node; ``module``: of the earlier release, which begins calls in threads alone."""
        if module is None:
            made: Any = external_calls.ExternalCalls(log, program, topic, self._now_ms, answer_key, self.begin)
        else:
            vars(module)["threading"] = SimpleNamespace(Thread=self._thread)
            made = module.ExternalCalls(log, program, topic, self._now_ms, answer_key)
        return NodeCalls(made)

    def _thread(self, *, target: Callable[[], None], name: str, daemon: bool) -> Any:
        assert daemon
        return SimpleNamespace(start=lambda: self.begin(name, target))


class _Calls(Protocol):
    def turn(self, partitions: Any) -> bool: ...

    def use(self, program: Program) -> None: ...


class NodeCalls:
    """As a process lets its node's calls go on, by the version of the next epoch."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls
        self._program = 0

    def turn(self, driver: TransactionDriver) -> None:
        ledger = driver.node.ledger
        versions = getattr(ledger, "versions", None)  # earlier releases have one program
        if versions is not None and (number := versions.number(ledger.done + 1)) != self._program:
            self._program = number
            self._calls.use(versions.program(ledger.done + 1))
        self._calls.turn(driver.node.owned_partitions())
