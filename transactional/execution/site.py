"""Where transactions run, and what a call chain of calls leaves there while it waits."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Protocol, TypeAlias

from transactional.conflicts.accesses import Accesses
from transactional.conflicts.versions import Versions
from transactional.context import Call, CallChain, Context, Path
from transactional.epochs.messages import Request, WireCall, WireResult
from transactional.layout import PlaceOfKeys
from transactional.operators import Program, StateKey, Target

Called: TypeAlias = Request | Target | WireCall


class Base(Protocol):
    """The state that a transaction runs against."""

    @property
    def read(self) -> Any:
        """Called with a key gives its value or None; raises ``NotShipped`` where it cannot know."""
        ...

    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """In order of the keys; raises ``NotShipped`` where it cannot know."""
        ...


class RaisedNotes(Protocol):
    """Is notified of what functions raise (``raised_exceptions.py``)."""

    def note(self, tid: int, time_ms: int, target: Called, error: BaseException) -> None: ...


class Site:
    """Where the transactions of an epoch run: partition ``here`` (None: all are run again here), on ``base``.

    ``sent``: calls and results for other partitions, by partition, in the order in which they were made.
    ``written``: who has written a key, of those that run here. ``versions``: in their place, what all lower TIDs have
    written, for one that runs once more after all of them. ``raised``: is notified of what functions raise.
    ``places``: the homes of keys in this epoch; in the first layout operators know them.
    """

    __slots__ = (
        "base", "here", "max_bytes", "max_calls", "max_value_bytes", "operators", "places", "program", "raised", "sent",
        "versions", "written",
    )  # fmt: skip

    def __init__(
        self,
        program: Program,
        base: Base,
        here: int | None,
        versions: Versions | None = None,
        raised: RaisedNotes | None = None,
    ) -> None:
        self.raised = raised
        self.versions = versions
        self.written: dict[StateKey, Accesses] = {} if versions is None else versions.writers
        self.base = base
        self.here = here
        self.sent: dict[int, list[WireCall | WireResult]] = {}
        self.use(program, program.operators)

    def use(self, program: Program, places: Mapping[str, PlaceOfKeys]) -> None:
        """The program and the homes of keys of the epoch that begins here."""
        self.program = program
        self.operators = program.operators
        self.places = places
        self.max_calls = program.limits.max_calls
        self.max_bytes = program.limits.max_bytes
        self.max_value_bytes = program.limits.max_value_bytes

    def unsend(self, tid: int) -> None:
        """Drop what this transaction has sent since ``sent`` was taken."""
        kept = {to: [item for item in items if item.tid != tid] for to, items in self.sent.items()}
        self.sent = {to: items for to, items in kept.items() if items}


class Segment:
    """Calls of a call chain that wait for each other here, each with what was called.

    ``caller`` is the partition that waits for the bottom one.
    """

    __slots__ = ("call_chain", "caller", "frames", "path")

    def __init__(self, call_chain: CallChain, path: Path, caller: int | None) -> None:
        self.call_chain = call_chain
        self.path = path
        self.caller = caller
        self.frames: list[tuple[Any, Called, Context]] = []


class Parked(Exception):
    """Means: the segment waits, or is over."""


PARKED = Parked()


class Handing:
    """Gives a call to the execution and its result to the function."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def __await__(self) -> Generator[Call, Any, Any]:
        return (yield self._call)
