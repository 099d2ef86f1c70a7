"""Makes the external calls that transactions request, each in a thread, and logs their outcomes.

The owner of a state partition calls for the transactions whose roots are there. Before it does, it reads the request
partition to its end: a call whose answer is logged there is not made again. Two owners, or a crash before the answer is
logged, may repeat a call; therefore it has an idempotency key.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TypeAlias

from nodes.log.contract import Log, OffsetOutOfRange
from transactional.epochs.messages import ReplyState, Request
from transactional.errors import Aborted
from transactional.external import ExternalRequest, external_request_of, perform
from transactional.operators import Program
from transactional.requests.requests import continuation, logged_step
from transactional.state.partition import StatePartition

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 64
"""Calls that have time left; others wait."""
MAX_HANGING = 256
"""Calls that did not return in time: with so many, no further one is made."""
RECORD_BYTES = 900_000
"""A continuation is no longer than that: what came back is left out if it would be."""
_Name: TypeAlias = tuple[int, str, int]  # sequencer, request, step
Begin: TypeAlias = Callable[[str, Callable[[], None]], None]
"""Begins a call, which has this name, and returns at once."""


def in_thread(name: str, call: Callable[[], None]) -> None:
    """A thread of the call's own, which ends with the process."""
    threading.Thread(target=call, name=name, daemon=True).start()


@dataclass(slots=True)
class _OpenCall:
    """``until_ms`` None: it is answered."""

    call: Request
    request: ExternalRequest
    until_ms: int | None


class ExternalCalls:
    """Calls of one node. Belongs to its loop; only ``perform`` runs elsewhere, where ``begin`` lets it run."""

    def __init__(
        self,
        log: Log,
        program: Program,
        topic: str,
        clock_ms: Callable[[], int],
        answer_key: bytes = b"",
        begin: Begin = in_thread,
    ) -> None:
        self._log = log
        self._program = program
        self._topic = topic
        self._clock_ms = clock_ms
        self._answer_key = answer_key
        self._begin_call = begin
        self._calls: dict[_Name, _OpenCall] = {}
        self._returned: SimpleQueue[tuple[_Name, bytes | Aborted]] = SimpleQueue()
        self._hanging = 0
        self.made = 0
        self.answered = 0
        self.failed = 0
        self.timed_out = 0

    def use(self, program: Program) -> None:
        """Another version makes the calls from now on; those that run go on."""
        self._program = program

    @property
    def running(self) -> int:
        """Calls that have time left."""
        return sum(each.until_ms is not None for each in self._calls.values())

    def turn(self, partitions: Mapping[int, StatePartition]) -> bool:
        """Begin requested calls and log returned ones; False if there was nothing to do."""
        waiting = [
            each for number in sorted(partitions) for each in partitions[number].replies.external_requests.values()
        ]
        if not waiting and not self._calls:
            return False
        moved = self._take_returned()
        moved |= self._end_late()
        self._forget(waiting)
        return self._begin(waiting) or moved

    def _begin(self, waiting: Iterable[ReplyState]) -> bool:
        fresh = {name: state for state in waiting if (name := _name(state)) not in self._calls}
        room = MAX_AT_ONCE - self.running
        if not fresh or room <= 0:
            return False
        logged = self._logged(fresh.values())
        began = False
        for name, state in fresh.items():
            assert isinstance(state.call, Request) and state.failure is not None
            calling = _OpenCall(state.call, external_request_of(state.failure), None)
            if name in logged:
                self._calls[name] = calling
            elif room > 0:
                room -= 1
                self._calls[name] = calling
                self._start(name, calling)
                began = True
        return began

    def _start(self, name: _Name, calling: _OpenCall) -> None:
        request = calling.request
        calling.until_ms = self._clock_ms() + request.timeout_ms
        if self._hanging >= MAX_HANGING:
            self._answer(name, Aborted("ExternalTimeout", (request.function, f"{self._hanging} calls hang here")))
            return
        self.made += 1
        key = f"{self._program.name}:{calling.call.id}:{request.place}"
        function = self._program.externals.get(request.function)
        back = self._returned

        def call() -> None:
            back.put((name, perform(function, request.function, key, request.arguments, self._program.errors)))

        self._begin_call(f"external {key}", call)

    def _take_returned(self) -> bool:
        moved = False
        while not self._returned.empty():
            name, outcome = self._returned.get()
            calling = self._calls.get(name)
            if calling is None or calling.until_ms is None:
                self._hanging -= 1  # too late
            else:
                self._answer(name, outcome)
                moved = True
        return moved

    def _end_late(self) -> bool:
        now_ms, moved = self._clock_ms(), False
        for name, calling in self._calls.items():
            if calling.until_ms is not None and now_ms >= calling.until_ms:
                request = calling.request
                logger.warning(
                    "request %s: the external function %s did not return within %d ms",
                    calling.call.id, request.function, request.timeout_ms,
                )  # fmt: skip
                self._hanging += 1
                self.timed_out += 1
                self._answer(name, Aborted("ExternalTimeout", (request.function, request.timeout_ms)))
                moved = True
        return moved

    def _answer(self, name: _Name, outcome: bytes | Aborted) -> None:
        calling = self._calls[name]
        calling.until_ms = None
        if isinstance(outcome, Aborted):
            self.failed += 1
        else:
            self.answered += 1
        record = continuation(calling.call, calling.request, outcome, self._answer_key)
        if len(record) > RECORD_BYTES:
            text = f"the request and the external call's result have {len(record)} bytes, {RECORD_BYTES} are allowed"
            outcome = Aborted("LimitExceeded", (text,))
            record = continuation(calling.call, calling.request, outcome, self._answer_key)
        self._log.send(self._topic, name[0], [record])

    def _forget(self, waiting: Iterable[ReplyState]) -> None:
        """Drops calls that no transaction here waits for; a running one is logged first, whichever waits for it."""
        wanted = {_name(state) for state in waiting}
        for name in [n for n, each in self._calls.items() if each.until_ms is None and n not in wanted]:
            del self._calls[name]

    def _logged(self, states: Iterable[ReplyState]) -> set[_Name]:
        """Which steps the log has an answer to."""
        begin: dict[int, int] = {}
        for state in states:
            assert isinstance(state.call, Request)
            begin[state.sequencer] = min(state.call.offset, begin.get(state.sequencer, state.call.offset))
        found: set[_Name] = set()
        for sequencer, start in sorted(begin.items()):
            offset = max(start, self._log.start_offset(self._topic, sequencer))
            end = self._log.end_offset(self._topic, sequencer)
            while offset < end:
                try:
                    chunk = self._log.read(self._topic, sequencer, offset)
                except OffsetOutOfRange:  # trimmed meanwhile: no transaction waits for what is gone
                    start = self._log.start_offset(self._topic, sequencer)
                    if start <= offset:
                        raise
                    offset = start
                    continue
                steps = (logged_step(value, self._answer_key) for value in chunk.values)
                found.update((sequencer, *step) for step in steps if step is not None)
                offset = max(chunk.next_offset, offset + 1)
        return found


def _name(state: ReplyState) -> _Name:
    assert state.failure is not None
    return state.sequencer, state.id, external_request_of(state.failure).step
