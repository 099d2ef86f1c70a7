"""One transaction at one place: its functions as far as they run here, its buffered writes, and what it has touched.

Two rules for this file: it knows no epochs, and what a function does depends on its arguments and on what it reads,
never on the place. In a state partition a place runs the functions of its own keys and sends the other calls. In a
rerun (``here`` None) everything is here, and call chains run strictly one after the other.

It is the hot path: what most transactions do not need (scans, failures, waiting calls) is made when it is needed.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NoReturn

from transactional.conflicts.accesses import Accesses
from transactional.context import Call, CallChain, Context, Path
from transactional.epochs.messages import Request, WireCall, WireResult
from transactional.errors import (
    RAISED,
    Abort,
    Aborted,
    BadAwait,
    TimedOut,
    TransactionEnds,
    describe,
    restore,
)
from transactional.execution.interrupting import RUNNING
from transactional.execution.site import PARKED, Called, Handing, Segment, Site
from transactional.external import Answered, ContinuedTransaction, ExternalRequest, find_answer
from transactional.operators import Program, Target, bind
from transactional.state.values import PACK_ERRORS, BadValue, decode, is_plain, pack, travelling, unpack

ROOT: Final[CallChain] = ()
_CANNOT_BEGIN = (LookupError, *PACK_ERRORS)


class Execution(Accesses):
    """``start`` it, or let it ``take`` what other partitions sent; what it sends is in the site."""

    __slots__ = (
        "_closed", "_ended", "_queue", "_waiting", "calls", "continued", "over", "program", "result", "seed",
        "time_ms", "timed_out",
    )  # fmt: skip

    def __init__(self, site: Site, tid: int, time_ms: int) -> None:
        super().__init__(site, tid)
        self.program = site.program
        self.seed = tid
        self.time_ms = time_ms
        self.continued: ContinuedTransaction | None = None
        self.calls = 0
        self.over = False
        self._closed = False
        self.timed_out: Aborted | None = None
        self.result: bytes | None = None
        self._queue: deque[Call] | None = None
        self._waiting: dict[tuple[CallChain, Path], Segment] | None = None
        self._ended: set[CallChain] | None = None

    # --- what comes from outside ------------------------------------------------------------------------------------

    def start(self, root: Request | Target) -> None:
        """The root call, and all that follows here."""
        if type(root) is Request and root.continued is not None:
            self._continue(root.continued)
        (self._begin if RUNNING.cpu is None else self._begin_measured)(ROOT, (), root, None)
        if self._queue is not None:
            self._run_queue(self._queue)

    def take(self, item: WireCall | WireResult) -> None:
        """A call for an entity here, or the result of one from here; runs all that follows here."""
        if self.over:
            return
        if isinstance(item, WireCall):
            if item.continued is not None:
                self._continue(item.continued)
            begin = self._begin if RUNNING.cpu is None else self._begin_measured
            begin(item.call_chain, item.path, item, item.caller)
        else:
            assert self._waiting is not None, f"transaction {self.tid} waits for no result"
            self._resume(self._waiting.pop((item.call_chain, item.path)), item)
        if self._queue is not None:
            self._run_queue(self._queue)

    def waits_for(self, result: WireResult) -> bool:
        """Whether a call from here has to be given this."""
        return self._waiting is not None and (result.call_chain, result.path) in self._waiting

    def move_to(self, site: Site) -> None:
        """Run there from now on."""
        self._site = site

    def _continue(self, continued: ContinuedTransaction) -> None:
        self.continued, self.seed, self.time_ms = continued, continued.tid, continued.time_ms

    def close(self) -> None:
        """End what still waits, so that no user's code runs later."""
        self._closed = self._stopping = True
        if self._waiting:
            for where in sorted(self._waiting):
                self._drop(self._waiting[where])
            self._waiting.clear()

    @property
    def outcome(self) -> bytes | Aborted:
        """How it ended, of a rerun: the encoded result of the root, or the first failure."""
        if self.failures:
            return self.failures[0][1]
        assert self.result is not None, f"transaction {self.tid} has neither result nor failure"
        return self.result

    # --- call chains ------------------------------------------------------------------------------------------------

    def _run_queue(self, queue: deque[Call]) -> None:
        again = self._site.here is None
        begin = self._begin if RUNNING.cpu is None else self._begin_measured
        while queue and not (self.over or self.missed or (again and self.failures)):
            call = queue.popleft()
            begin(call.call_chain, (), call.target, None)

    def _begin_measured(self, call_chain: CallChain, path: Path, target: Called, caller: int | None) -> None:
        cpu = RUNNING.cpu
        assert cpu is not None
        began_ns = cpu.clock_ns()
        self._begin(call_chain, path, target, caller)
        operator = self._site.operators.get(target.operator)
        if operator is not None:
            cpu.add_call(operator, target.key, cpu.clock_ns() - began_ns)

    def _begin(self, call_chain: CallChain, path: Path, target: Called, caller: int | None) -> None:
        """A call that has no waiting caller here. Most run to their end at once, and need no segment."""
        site = self._site
        RUNNING.execution, RUNNING.target = self, target
        try:
            operator = site.operators[target.operator]
            function = operator.functions[target.function]
            given = unpack(target.arguments)
            ctx = Context(self, operator, target.key, call_chain, path)
            frame: Any = function(ctx, *given) if type(given) is list else bind(function, ctx, target.arguments)
        except _CANNOT_BEGIN:
            segment = Segment(call_chain, path, caller)
            self._go(segment, None, self._push(segment, path, target))  # raises the reason
            return
        RUNNING.coroutine = frame
        try:
            yielded = frame.send(None)
        except StopIteration as stop:
            if not (self._stopping and self._is_over(call_chain)):
                self._finish(call_chain, path, caller, self._returned(ctx, stop.value))
        except TransactionEnds:
            pass
        except RAISED as raised:
            if not (self._stopping and self._is_over(call_chain)):
                self._finish(call_chain, path, caller, self._described(target, raised))
        else:
            segment = Segment(call_chain, path, caller)
            segment.frames.append((frame, target, ctx))
            error = self._handle_awaited(segment, yielded)
            if error is not PARKED:
                self._go(segment, None, error)

    def _push(self, segment: Segment, path: Path, target: Called) -> Exception | None:
        """Add a call to the segment; gives the exception that it begins with, as if its first line raised it."""
        program = self._site.program
        try:
            function = program.function(target.operator, target.function)
            ctx = Context(self, program.operators[target.operator], target.key, segment.call_chain, path)
            segment.frames.append((bind(function, ctx, target.arguments), target, ctx))
        except (LookupError, TypeError, BadValue) as error:
            return restore(describe(error), program.errors)
        return None

    def _resume(self, segment: Segment, item: WireResult) -> None:
        if item.result is not None:
            if self._is_too_much(len(item.result)):
                self._drop(segment)
                return
            self._go(segment, decode(item.result), None)
        else:
            assert item.failure is not None
            self._go(segment, None, restore(item.failure, self._site.program.errors))

    def _go(self, segment: Segment, value: Any, error: Exception | None) -> None:
        """Run the call chain's calls here until they wait for another partition or have ended."""
        frames = segment.frames
        while frames:
            frame, target, ctx = frames[-1]
            outcome: bytes | Aborted
            RUNNING.execution, RUNNING.target, RUNNING.coroutine = self, target, frame
            try:
                yielded = frame.send(value) if error is None else frame.throw(error)
            except StopIteration as stop:
                outcome = self._returned(ctx, stop.value)
            except TransactionEnds:
                self._drop(segment)
                return
            except RAISED as raised:
                outcome = self._described(target, raised)
            else:
                value, error = None, self._handle_awaited(segment, yielded)
                if error is PARKED:
                    return
                continue
            frames.pop()
            if frames and type(outcome) is bytes:
                self._is_too_much(len(outcome))
            if self._stopping and self._is_over(segment.call_chain):
                self._drop(segment)
                return
            if not frames:
                self._finish(segment.call_chain, segment.path, segment.caller, outcome)
                return
            if isinstance(outcome, Aborted):
                value, error = None, restore(outcome, self._site.program.errors)
            else:
                value, error = decode(outcome), None
        if error is not None:  # of a call that could not begin
            self._finish(segment.call_chain, segment.path, segment.caller, describe(error, self.program.errors))

    def _described(self, target: Called, raised: BaseException) -> Aborted:
        errors = self.program.errors
        if self._site.raised is not None and errors.get(type(raised).__name__) is not type(raised):
            self._site.raised.note(self.tid, self.time_ms, target, raised)
        return describe(raised, errors)

    def _handle_awaited(self, segment: Segment, yielded: Any) -> Exception | None:
        """A function awaits: begin the call here or send it; gives what to raise, ``PARKED`` if it has to wait."""
        if self._stopping and self._is_over(segment.call_chain):
            self._drop(segment)
            return PARKED
        if not isinstance(yielded, Call):
            return BadAwait("a transactional function may await calls of ctx and nothing else")
        to = self._elsewhere(yielded.target)
        if to is None:
            return self._push(segment, yielded.path, yielded.target)
        if self._waiting is None:
            self._waiting = {}
        self._waiting[yielded.call_chain, yielded.path] = segment
        self._send(to, yielded, self._site.here)
        return PARKED

    def _is_over(self, call_chain: CallChain) -> bool:
        """Whether the call chain was ended, by itself or with the transaction, even if it caught the exception."""
        return self.over or self.missed or (self._ended is not None and call_chain in self._ended)

    def _elsewhere(self, target: Target) -> int | None:
        """The partition that has to run this call; None: this one."""
        here = self._site.here
        if here is None:
            return None
        to = self._site.places[target.operator].partition_of(target.key)
        return None if to == here else to

    def _send(self, to: int, call: Call, caller: int | None) -> None:
        target = call.target
        item = WireCall(
            self.tid, self.time_ms, call.call_chain, call.path,
            target.operator, target.key, target.function, target.arguments, caller, self.continued,
        )  # fmt: skip
        self._site.sent.setdefault(to, []).append(item)

    def _returned(self, ctx: Context, value: Any) -> bytes | Aborted:
        """A result as it travels, or why it cannot: it is no value, or its function forgot a call."""
        if ctx.issued:
            return describe(ctx.not_awaited())
        try:
            data = pack(value)
            if len(data) <= self._site.max_value_bytes and is_plain(value):
                return data
        except PACK_ERRORS:
            pass
        try:
            return travelling(value, self._site.max_value_bytes)
        except BadValue as error:
            return describe(BadValue(f"a result {error}"))

    def _finish(self, call_chain: CallChain, path: Path, caller: int | None, outcome: bytes | Aborted) -> None:
        if caller is not None:
            result, failure = (None, outcome) if isinstance(outcome, Aborted) else (outcome, None)
            item = WireResult(self.tid, call_chain, path, result, failure)
            self._site.sent.setdefault(caller, []).append(item)
        elif isinstance(outcome, Aborted):
            self._failed(call_chain, outcome)
        elif not call_chain:
            self.result = outcome

    def _failed(self, call_chain: CallChain, aborted: Aborted) -> None:
        if self.failures is None:
            self.failures = []
        self.failures.append((call_chain, aborted))

    def _drop(self, segment: Segment) -> None:
        while segment.frames:
            frame, target, _ = segment.frames.pop()
            RUNNING.execution, RUNNING.target, RUNNING.coroutine = self, target, frame
            try:
                frame.close()
            except RAISED:  # from the user's own clean-up
                continue

    # --- behind ctx -------------------------------------------------------------------------------------------------

    def nested(self, call: Call) -> Handing:
        self._count(call)
        return Handing(call)

    def queue(self, call: Call) -> None:
        self._count(call)
        to = self._elsewhere(call.target)
        if to is not None:
            self._send(to, call, None)
        elif self._queue is None:
            self._queue = deque((call,))
        else:
            self._queue.append(call)

    def abort(self, call_chain: CallChain, reason: tuple[Any, ...]) -> NoReturn:
        self._end(call_chain, describe(Abort(*reason)))

    def exceed(self, call_chain: CallChain, reason: str) -> NoReturn:
        self._end(call_chain, Aborted("LimitExceeded", (reason,)))

    def external(self, call_chain: CallChain, path: Path, function: str, arguments: bytes, timeout_ms: int) -> bytes:
        if self._stopping:
            self._check(call_chain)
        step = 0 if self.continued is None else len(self.continued.answers)
        request = ExternalRequest(step, call_chain, path, function, arguments, timeout_ms, self.seed, self.time_ms)
        try:
            found = find_answer(request, self.continued, self.program.limits.max_externals)
        except Answered as answered:
            raise restore(answered.aborted, self.program.errors) from None
        if isinstance(found, Aborted):
            self._end(call_chain, found)
        return found

    def time_out(self, target: Called) -> NoReturn:
        """A function of this transaction runs too long."""
        what = f"function {target.function} of operator {target.operator} ran longer than node.function_timeout_ms"
        self.end_with(Aborted("TimedOut", (what,)))
        raise TimedOut

    def end_with(self, failure: Aborted) -> None:
        """How far a function of this transaction comes is chance, so nothing of it counts here."""
        self.timed_out = failure
        self.over = self._stopping = True
        self.forget()
        self.calls = self.bytes = 0
        self._site.unsend(self.tid)

    def _end(self, call_chain: CallChain, aborted: Aborted) -> NoReturn:
        self._check(call_chain)
        self._ended = {call_chain} if self._ended is None else self._ended | {call_chain}
        self._stopping = True
        self._failed(call_chain, aborted)
        raise Abort

    def _count(self, call: Call) -> None:
        if self._stopping:
            self._check(call.call_chain if call.path else call.call_chain[:-1])
        self.calls += 1
        if self.calls > self._site.max_calls:
            self.over = self._stopping = True
            self._failed(ROOT, too_many_calls(self._site.program))
            raise Abort
        self._add_bytes(len(call.target.arguments))

    def _is_too_much(self, size: int) -> bool:
        """More bytes. Here that is only a doubt; a rerun, which sees all in sequence, decides."""
        self.bytes += size
        if self.bytes > self._site.max_bytes and not self.over:
            self.over = self._stopping = True
            self._failed(ROOT, too_many_bytes(self._site.program))
        return self.over

    def _too_many_bytes(self) -> NoReturn:
        self._is_too_much(0)
        raise Abort

    def _check(self, call_chain: CallChain) -> None:
        if self._closed or self.over or self.missed or (self._ended is not None and call_chain in self._ended):
            raise Abort


def too_many_calls(program: Program) -> Aborted:
    """The reply of a transaction that floods calls."""
    return Aborted("LimitExceeded", (f"more than {program.limits.max_calls} calls",))


def too_many_bytes(program: Program) -> Aborted:
    """The reply of a transaction that floods bytes."""
    return Aborted("LimitExceeded", (f"more than {program.limits.max_bytes} bytes in calls, results and writes",))
