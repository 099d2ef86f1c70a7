"""A world with external calls, which may be lost between requesting and logging, made twice, or fail."""

from __future__ import annotations

from typing import Any

from tests.sim.transactions_life import REQUESTS, Life
from tests.sim.transactions_strained import StrainedWorld
from transactional.epochs.messages import ReplyState, Request
from transactional.errors import Aborted
from transactional.external import ANSWER_BYTES, external_request_of, perform
from transactional.requests.requests import continuation, logged_step


class ExternalCallsWorld(StrainedWorld):
    """The owner of a partition calls for it. ``calls``: idempotency key -> how often it was called."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.calls: dict[str, int] = {}
        super().__init__(*given, **named)

    def act(self) -> None:
        """As before, and now and then an external call."""
        if self.draw.random() < 0.1:
            self._call_one(self.draw.choice(self.awake()))
        else:
            super().act()

    def _call_one(self, life: Life) -> bool:
        """One that this incarnation has not made, and that is not on the log."""
        for number in sorted(life.node.partitions):
            for name, state in life.node.partitions[number].replies.external_requests.items():
                assert state.failure is not None and isinstance(state.call, Request)
                wanted = state.id, external_request_of(state.failure).step
                if (life.called.get(name) == wanted) or wanted in self._logged(state):
                    continue
                life.called[name] = wanted
                self._call(life, state, state.call)
                return True
        return False

    def _call(self, life: Life, state: ReplyState, call: Request) -> None:
        assert state.failure is not None
        external = external_request_of(state.failure)
        key = f"{state.id}:{external.place}"
        self.calls[key] = times = self.calls.get(key, 0) + 1
        outcome = perform(self._answer, external.function, f"{key} for the {times}. time", external.arguments)
        if self.draw.random() < 0.1:
            outcome = Aborted("ExternalTimeout", (key,))
        life.outbox_of(REQUESTS, state.sequencer).append(continuation(call, external, outcome))

    def _answer(self, key: str, *arguments: object) -> object:
        """Never twice the same."""
        draw = self.draw.random()
        if draw < 0.1:
            raise KeyError(key)
        return object() if draw < 0.15 else bytes(ANSWER_BYTES) if draw < 0.17 else [key, *arguments]

    def _logged(self, state: ReplyState) -> set[tuple[str, int] | None]:
        return {logged_step(value) for value in self.request_values(state.sequencer)}

    def _write(self, life: Life) -> bool:
        before = [self.log.end_offset(REQUESTS, s) for s in range(self.sequencers)]
        written = super()._write(life)
        for s, offset in enumerate(before):
            if self.log.end_offset(REQUESTS, s) > offset:
                self.after[s, offset] = 0  # no client asked then
        return written

    def whole_turn(self, life: Life, *, reads_calls: bool = True) -> bool:
        moved = super().whole_turn(life, reads_calls=reads_calls)
        while self._call_one(life):
            moved = True
        return moved
