"""One transaction at one place: its functions as far as they run here, its buffered writes, and what it has touched.

Two rules for this file: it knows neither epochs nor messages, and what a function does depends on its arguments and on
what it reads, never on the place. In a state partition a place runs the functions of its own keys and hands out the
other calls; in a rerun (``here`` None) everything is here, and strands run strictly one after the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, NoReturn, Protocol, TypeAlias

from transactional.context import Call, Context, Path, Strand
from transactional.errors import (
    USER_ERRORS,
    Abort,
    Aborted,
    BadAwait,
    NotShipped,
    TransactionEnds,
    describe,
    restore,
)
from transactional.operators import Program, StateKey, bind
from transactional.values import BadValue, decode, encode

ROOT: Final[Strand] = ()
_SEVERAL: Final[Strand] = ((-1,),)


class Base(Protocol):
    """The state that a transaction runs against."""

    def read(self, key: StateKey) -> bytes | None:
        """Raises ``NotShipped`` where it cannot know."""
        ...

    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """In order of the keys; raises ``NotShipped`` where it cannot know."""
        ...


class RemoteCall(NamedTuple):
    """``caller``: the partition that waits for the result; None: nobody does."""

    call: Call
    caller: int | None


class RemoteResult(NamedTuple):
    """To partition ``to``: the encoded result, or how the callee failed."""

    to: int
    strand: Strand
    path: Path
    outcome: bytes | Aborted


Sent: TypeAlias = RemoteCall | RemoteResult


@dataclass(slots=True)
class _Segment:
    """Calls of a strand that wait for each other here; ``caller`` is the partition that waits for the bottom one."""

    strand: Strand
    path: Path
    caller: int | None
    frames: list[Any] = field(default_factory=list)


class _Handing:
    """Gives a call to the execution and its result to the function."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def __await__(self) -> Generator[Call, Any, Any]:
        return (yield self._call)


class Execution:
    """``begin`` it, or ``take`` what others sent; then read ``sent``, and at the end the outcome.

    ``reads``, ``writes`` and ``scans`` are what conflicts are found by; ``race``: two strands met at a key here.
    """

    def __init__(self, program: Program, tid: int, time_ms: int, base: Base, here: int | None) -> None:
        self.program = program
        self.tid = tid
        self.time_ms = time_ms
        self.reads: dict[StateKey, Strand] = {}
        self.writes: dict[StateKey, bytes | None] = {}
        self.scans: dict[tuple[str, str], Strand] = {}
        self.sent: list[Sent] = []
        self.result: bytes | None = None
        self.failures: list[tuple[Strand, Aborted]] = []
        self.race = False
        self.over = False
        self.missed = False
        self.calls = 0
        self._base = base
        self._here = here
        self._writers: dict[StateKey, Strand] = {}
        self._queue: deque[Call] = deque()
        self._waiting: dict[tuple[Strand, Path], _Segment] = {}
        self._ended: set[Strand] = set()
        self._closed = False

    # --- what comes from outside ------------------------------------------------------------------------------------

    def take(self, item: RemoteCall | RemoteResult) -> None:
        """A call for an entity here, or the result of one from here; runs all that follows here."""
        if self.over:
            return
        if isinstance(item, RemoteResult):
            segment = self._waiting.pop((item.strand, item.path))
            self._resume(segment, item.outcome)
        else:
            self._begin(item.call, item.caller)
        while self._queue and not self._stopped():
            self._begin(self._queue.popleft(), None)

    def close(self) -> None:
        """End what still waits, so that no user's code runs later."""
        self._closed = True
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

    # --- strands ----------------------------------------------------------------------------------------------------

    def _stopped(self) -> bool:
        return self.over or self.missed or (self._here is None and bool(self.failures))

    def _begin(self, call: Call, caller: int | None) -> None:
        segment = _Segment(call.strand, call.path, caller)
        error = self._push(segment, call)
        self._go(segment, None, error)

    def _push(self, segment: _Segment, call: Call) -> Exception | None:
        """Add a call to the segment; gives the exception that it begins with, as if its first line raised it."""
        operator, key, name, arguments = call.target
        ctx = Context(self, self.program.operators[operator], key, call.strand, call.path)
        try:
            segment.frames.append(bind(self.program.function(operator, name), ctx, arguments))
        except (LookupError, TypeError, BadValue) as error:
            return restore(describe(error), self.program.errors)
        return None

    def _resume(self, segment: _Segment, outcome: bytes | Aborted) -> None:
        if isinstance(outcome, Aborted):
            self._go(segment, None, restore(outcome, self.program.errors))
        else:
            self._go(segment, decode(outcome), None)

    def _go(self, segment: _Segment, value: Any, error: Exception | None) -> None:
        """Run the strand's calls here until they wait for another partition or have ended."""
        while segment.frames:
            frame = segment.frames[-1]
            try:
                yielded = frame.send(value) if error is None else frame.throw(error)
            except StopIteration as stop:
                segment.frames.pop()
                if self._is_over(segment):
                    return
                value, error = self._returned(segment, stop.value)
            except TransactionEnds:
                self._drop(segment)
                return
            except USER_ERRORS as raised:
                segment.frames.pop()
                if self._is_over(segment):
                    return
                value, error = None, self._raised(segment, raised)
            else:
                if self._is_over(segment):
                    return
                value = None
                if not isinstance(yielded, Call):
                    error = BadAwait("a transactional function may await calls of ctx and nothing else")
                elif self._is_here(yielded):
                    error = self._push(segment, yielded)
                else:
                    self._waiting[yielded.strand, yielded.path] = segment
                    self.sent.append(RemoteCall(yielded, self._here))
                    return
        if error is not None:  # of a call that could not begin
            self._finish(segment, describe(error))

    def _is_over(self, segment: _Segment) -> bool:
        """Whether the strand was ended, by itself or with the transaction, even if it caught what told it so."""
        if not (self._ended or self.over or self.missed):
            return False
        if self.over or self.missed or segment.strand in self._ended:
            self._drop(segment)
            return True
        return False

    def _is_here(self, call: Call) -> bool:
        return self._here is None or self.program.place(call.target.operator, call.target.key) == self._here

    def _returned(self, segment: _Segment, value: Any) -> tuple[Any, Exception | None]:
        """What the caller gets, decoded from what would travel; ends the segment if the caller is elsewhere."""
        try:
            data = encode(value, self.program.limits.max_value_bytes)
        except BadValue as error:
            return None, self._raised(segment, BadValue(f"a result {error}"))
        if segment.frames:
            return decode(data), None
        self._finish(segment, data)
        return None, None

    def _raised(self, segment: _Segment, raised: BaseException) -> Exception | None:
        aborted = describe(raised)
        if segment.frames:
            return restore(aborted, self.program.errors)
        self._finish(segment, aborted)
        return None

    def _finish(self, segment: _Segment, outcome: bytes | Aborted) -> None:
        if segment.caller is not None:
            self.sent.append(RemoteResult(segment.caller, segment.strand, segment.path, outcome))
        elif isinstance(outcome, Aborted):
            self.failures.append((segment.strand, outcome))
        elif segment.strand == ROOT:
            self.result = outcome

    def _drop(self, segment: _Segment) -> None:
        while segment.frames:
            try:
                segment.frames.pop().close()
            except (TransactionEnds, RuntimeError, *USER_ERRORS):  # from the user's own clean-up
                continue

    # --- behind ctx -------------------------------------------------------------------------------------------------

    def read(self, strand: Strand, key: StateKey) -> bytes | None:
        self._check(strand)
        if self.reads.setdefault(key, strand) != strand:
            self.reads[key] = _SEVERAL
        if key in self.writes:
            self.race |= self._writers[key] != strand
            return self.writes[key]
        try:
            return self._base.read(key)
        except NotShipped:
            self.missed = True
            raise

    def write(self, strand: Strand, key: StateKey, value: bytes | None) -> None:
        self._check(strand)
        writer = self._writers.setdefault(key, strand)
        reader = self.reads.get(key, strand)
        self.race |= writer != strand or reader != strand
        for (operator, prefix), scanner in self.scans.items():
            self.race |= scanner != strand and operator == key[0] and key[1].startswith(prefix)
        if writer != strand:
            self._writers[key] = _SEVERAL
        self.writes[key] = value

    def scan(self, strand: Strand, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        self._check(strand)
        if self.scans.setdefault((operator, prefix), strand) != strand:
            self.scans[operator, prefix] = _SEVERAL
        try:
            found = dict(self._base.scan(operator, prefix))
        except NotShipped:
            self.missed = True
            raise
        for (other, key), value in self.writes.items():
            if other == operator and key.startswith(prefix):
                self.race |= self._writers[other, key] != strand
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = value
        return [(key, found[key]) for key in sorted(found)]

    def nested(self, call: Call) -> _Handing:
        self._count(call)
        return _Handing(call)

    def queue(self, call: Call) -> None:
        self._count(call)
        if self._is_here(call):
            self._queue.append(call)
        else:
            self.sent.append(RemoteCall(call, None))

    def abort(self, strand: Strand, reason: tuple[Any, ...]) -> NoReturn:
        self._end(strand, describe(Abort(*reason)))

    def exceed(self, strand: Strand, reason: str) -> NoReturn:
        self._end(strand, Aborted("LimitExceeded", (reason,)))

    def _end(self, strand: Strand, aborted: Aborted) -> NoReturn:
        self._check(strand)
        self._ended.add(strand)
        self.failures.append((strand, aborted))
        raise Abort

    def _count(self, call: Call) -> None:
        strand = call.strand if call.path else call.strand[:-1]
        self._check(strand)
        self.calls += 1
        if self.calls > self.program.limits.max_calls:
            self.over = True
            self.failures.append((ROOT, too_many_calls(self.program)))
            raise Abort

    def _check(self, strand: Strand) -> None:
        if self._closed or self.over or self.missed or strand in self._ended:
            raise Abort


def too_many_calls(program: Program) -> Aborted:
    """The reply of a transaction that floods calls."""
    return Aborted("LimitExceeded", (f"more than {program.limits.max_calls} calls",))
