"""Transactions one after the other, in one plain loop: the oracle of the protocol, and a way to test functions.

Shares context and encodings with the protocol, and nothing of how it runs functions: here a call is a Python await.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NoReturn

from transactional.context import Call, CallChain, Context, Path
from transactional.errors import (
    RAISED,
    Abort,
    Aborted,
    BadAwait,
    TransactionEnds,
    describe,
    restore,
)
from transactional.external import (
    Answered,
    ContinuedTransaction,
    ExternalRequest,
    find_answer,
    is_external_request,
    perform,
)
from transactional.operators import Operator, Program, StateKey, Target, bind
from transactional.state.values import BadValue, decode, travelling
from transactional.state.versioned_values import value_now


class Serial:
    """A program and its state in memory.

    >>> Serial(program).call("account", "alice", "deposit", [5])
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.state: dict[StateKey, bytes] = {}
        self._next_tid = 0

    def call(self, operator: str | Operator, key: str, function: Any, arguments: Any = None, *, now_ms: int = 0) -> Any:
        """One transaction; gives its result, or ``Aborted``."""
        self._next_tid += 1
        outcome = self.run(self.program.target(operator, key, function, arguments), self._next_tid, now_ms)
        return outcome if isinstance(outcome, Aborted) else decode(outcome)

    def run(
        self,
        target: Target,
        tid: int,
        time_ms: int,
        continued: ContinuedTransaction | None = None,
        *,
        calls_external: bool = True,
    ) -> bytes | Aborted:
        """One transaction with this TID and time; gives its encoded result or how it failed, and keeps its writes.

        ``calls_external``: external functions are called at once; else it ends there, and goes on with ``continued``.
        """
        if continued is not None:
            tid, time_ms = continued.tid, continued.time_ms
        transaction = _Transaction(self.program, tid, time_ms, self.state)
        transaction.continued, transaction.calls_external = continued, calls_external
        outcome = transaction.run(target)
        if not isinstance(outcome, Aborted):
            for key, value in transaction.writes.items():
                if value is None:
                    self.state.pop(key, None)
                else:
                    self.state[key] = value
        return outcome

    def get(self, operator: str, key: str) -> Any:
        """The state of an entity, None if it has none."""
        data = self.state.get((operator, key))
        kind = self.program.operators[operator]
        return None if data is None else value_now(data, self.program.version, kind.state, kind.upgrade)


class _Transaction:
    """Behind the contexts of one transaction."""

    def __init__(self, program: Program, tid: int, time_ms: int, state: dict[StateKey, bytes]) -> None:
        self.program = program
        self.seed = tid
        self.time_ms = time_ms
        self.state = state
        self.continued: ContinuedTransaction | None = None
        self.calls_external = True
        self.writes: dict[StateKey, bytes | None] = {}
        self.queued: deque[Call] = deque()
        self.ended: Aborted | None = None
        self.calls = self.bytes = 0

    def run(self, target: Target) -> bytes | Aborted:
        result = self._call_chain(Call((), (), target))
        while self.queued and not isinstance(result, Aborted):
            failed = self._call_chain(self.queued.popleft())
            result = failed if isinstance(failed, Aborted) else result
        return result

    def _call_chain(self, call: Call) -> bytes | Aborted:
        root = self._nested(call)
        outcome: bytes | Aborted
        try:
            root.send(None)
            while True:
                root.throw(BadAwait("a transactional function may await calls of ctx and nothing else"))
        except StopIteration as stop:
            outcome = stop.value
        except KeyboardInterrupt:
            raise
        except RAISED as error:
            outcome = describe(error, self.program.errors)
        return outcome if self.ended is None else self.ended

    async def _nested(self, call: Call) -> bytes:
        target = call.target
        function = self.program.function(target.operator, target.function)
        ctx = Context(self, self.program.operators[target.operator], target.key, call.call_chain, call.path)
        result = await bind(function, ctx, target.arguments)
        if ctx.issued:
            raise ctx.not_awaited()
        try:
            return travelling(result, self.program.limits.max_value_bytes)
        except BadValue as error:
            raise BadValue(f"a result {error}") from None

    async def nested(self, call: Call) -> Any:
        self._count(call)
        try:
            result = await self._nested(call)
        except (TransactionEnds, KeyboardInterrupt):
            raise
        except RAISED as error:
            self._check()
            raise restore(describe(error, self.program.errors), self.program.errors) from None
        self._check()
        self._add(len(result))
        return decode(result)

    def queue(self, call: Call) -> None:
        self._count(call)
        self.queued.append(call)

    def read(self, call_chain: CallChain, key: StateKey) -> bytes | None:
        self._check()
        return self.writes[key] if key in self.writes else self.state.get(key)

    def write(self, call_chain: CallChain, key: StateKey, value: bytes | None) -> None:
        self._check()
        self.writes[key] = value
        self._add(0 if value is None else len(value))

    def scan(self, call_chain: CallChain, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        self._check()
        now: dict[StateKey, bytes | None] = {**self.state, **self.writes}
        names = sorted(key for kind, key in now if kind == operator and key.startswith(prefix))
        return [(key, value) for key in names if (value := now[operator, key]) is not None]

    def abort(self, call_chain: CallChain, reason: tuple[Any, ...]) -> NoReturn:
        self._end(describe(Abort(*reason)))

    def exceed(self, call_chain: CallChain, reason: str) -> NoReturn:
        self._end(Aborted("LimitExceeded", (reason,)))

    def external(self, call_chain: CallChain, path: Path, function: str, arguments: bytes, timeout_ms: int) -> bytes:
        self._check()
        step = 0 if self.continued is None else len(self.continued.answers)
        request = ExternalRequest(step, call_chain, path, function, arguments, timeout_ms, self.seed, self.time_ms)
        try:
            found = find_answer(request, self.continued, self.program.limits.max_externals)
        except Answered as answered:
            raise restore(answered.aborted, self.program.errors) from None
        if isinstance(found, bytes):
            return found
        if not (self.calls_external and is_external_request(found)):
            self._end(found)
        key, program = f"serial:{self.seed}:{request.place}", self.program
        outcome = perform(program.externals.get(function), function, key, arguments, program.errors)
        answers = [] if self.continued is None else self.continued.answers
        self.continued = ContinuedTransaction(self.seed, self.time_ms, [*answers, request.answer(outcome)])
        return self.external(call_chain, path, function, arguments, timeout_ms)

    def _count(self, call: Call) -> None:
        self._check()
        self.calls += 1
        if self.calls > self.program.limits.max_calls:
            self._end(Aborted("LimitExceeded", (f"more than {self.program.limits.max_calls} calls",)))
        self._add(len(call.target.arguments))

    def _add(self, size: int) -> None:
        """Bytes of a call, a result or a write."""
        self.bytes += size
        if self.bytes > (allowed := self.program.limits.max_bytes):
            self._end(Aborted("LimitExceeded", (f"more than {allowed} bytes in calls, results and writes",)))

    def _end(self, aborted: Aborted) -> NoReturn:
        self.ended = self.ended or aborted
        raise Abort

    def _check(self) -> None:
        if self.ended is not None:
            raise Abort
