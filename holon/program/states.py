"""State declarations (Holon, Table 1): WCRDT, WLocal and Local.

A declaration is made once, as a class attribute of a processing function or as a module-level name. Inside a running
function the same name gives the handle of the partition that is being processed.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Generic, Literal, Self, TypeVar, get_args, overload

import msgspec

from holon.errors import JobError
from holon.fingerprint.schema import TypeShape, shape_of
from holon.program.handles import LocalHandle, WindowedHandle
from wcrdt.lattice import Lattice
from wcrdt.lattices.keyed.sharding import Sharding
from wcrdt.lattices.maps import KeyedMap
from wcrdt.windows.assigners import Assigner
from wcrdt.windows.data_driven import DataDriven
from wcrdt.windows.durations import duration_ms
from wcrdt.windows.held_longer import HeldLonger
from wcrdt.windows.panes import panes_of
from wcrdt.windows.sessions import Session

E = TypeVar("E")
V = TypeVar("V")
T = TypeVar("T")


class StateDeclaration:
    """Common part of the declarations: a name, and how a running instance finds its handle."""

    name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        if not self.name:
            self.name = name

    def _handle(self, instance: Any) -> Any:
        handles = instance.__dict__.get("_handles")
        if handles is None:
            raise JobError(
                f"state {self.name!r} was read outside of a running job; "
                f"run the job (holon.testing.JobTestDriver needs no log) instead of calling the function yourself"
            )
        return handles[self]

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        raise NotImplementedError


class Windowed(StateDeclaration, Generic[E, V]):
    """A lattice per window of event time."""

    shared: bool
    sharded = False
    """Whether each partition reads the keys alone that it answers for."""
    sharding: Callable[[int], Sharding] | None = None
    """Which of so many partitions answers for a key; None: the hash of the key decides."""

    def __init__(
        self, bottom: Lattice[E, V], windows: Assigner, stage: int, name: str, extra_lateness: int | str
    ) -> None:
        given: object = bottom
        if not isinstance(given, Lattice) or given.to_wire() != given.bottom().to_wire():
            raise JobError(
                f"{type(self).__name__} {name!r}: give the bottom of its lattice, as GCounter(), not {given!r}"
            )
        if isinstance(windows, Session | DataDriven):
            raise JobError(
                f"{type(self).__name__} {name!r}: windows of {windows!r} follow from their elements, so no state has "
                f"them; write a flow (holon.dataflow): stream.key_by(...).window({windows!r})"
            )
        if not hasattr(windows, "windows_for"):
            raise JobError(f'{type(self).__name__} {name!r}: give windows, as Tumbling("10s"), not {windows!r}')
        self.bottom = bottom
        self.windows = self._held_longer(windows, extra_lateness, name)
        self.panes = panes_of(self.windows, bottom.combines)
        """Those that its windows share; None: it has none."""
        self.stage = stage
        self.name = name

    def _held_longer(self, windows: Assigner, extra_lateness: int | str, name: str) -> Assigner:
        try:
            by_ms = duration_ms(extra_lateness)
        except (TypeError, ValueError) as error:
            raise JobError(f"{type(self).__name__} {name!r}: extra_lateness: {error}") from error
        if by_ms < 0:
            raise JobError(f"{type(self).__name__} {name!r}: extra_lateness is 0 or more, got {extra_lateness!r}")
        return HeldLonger(windows, by_ms) if by_ms else windows

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> WindowedHandle[E, V]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self._handle(instance)

    def describe(self) -> str:
        shape = f"{self.bottom.tag}{self.bottom.shape()!r}"
        panes = "" if self.panes is None else " in panes"
        return f"{type(self).__name__} {self.name} {shape} {self.windows.describe()}{panes} stage {self.stage}"


class WCRDT(Windowed[E, V]):
    """A windowed CRDT: one lattice value a window, shared by all partitions (Holon, section 4.2).

    Args:
        bottom: the lattice type, given as its bottom, e.g. ``GCounter()``.
        windows: how event times map to windows, e.g. ``Tumbling.of(seconds=10)``.
        stage: 0, written while processing records; n, written by ``on_window`` handlers of stage n - 1 states.
        sharded: of a map, each partition answers for a share of the keys: handlers run on all partitions, and each
            reads its own keys. The hash of a key decides, as that of a record's key does where outputs are routed.
        extra_lateness: how much longer than the job's ``allowed_lateness_ms`` its windows take records, in ms or as a
            text (``"1m"``). They are answered later by as much; handlers see their times as ever. States into which
            their handlers write need as much, or more.
        name: needed only outside of a class body.
    """

    shared = True

    def __init__(
        self,
        bottom: Lattice[E, V],
        windows: Assigner,
        *,
        stage: int = 0,
        sharded: bool = False,
        extra_lateness: int | str = 0,
        name: str = "",
    ) -> None:
        if stage < 0:
            raise JobError(f"WCRDT {name!r}: stage must be 0 or more, got {stage}")
        given: object = bottom
        if sharded and not isinstance(given, KeyedMap):
            raise JobError(f"WCRDT {name!r}: sharded=True is for maps (MapOf, ColumnsOf), whose keys it distributes")
        super().__init__(bottom, windows, stage, name, extra_lateness)
        self.sharded = sharded

    def describe(self) -> str:
        return super().describe() + (" sharded" if self.sharded else "")


class WLocal(Windowed[E, V]):
    """A windowed value of one partition alone: as ``WCRDT``, but never broadcast (Holon, Table 1)."""

    shared = False

    def __init__(
        self, bottom: Lattice[E, V], windows: Assigner, *, extra_lateness: int | str = 0, name: str = ""
    ) -> None:
        super().__init__(bottom, windows, 0, name, extra_lateness)


class Local(StateDeclaration, Generic[T]):
    """A value of one partition, checkpointed and restored with it (Holon, Table 1).

    ``Local[dict[str, Account]]({})`` names the type for the runtime too; without it, the type is that of ``initial``.

    Args:
        initial: the initial value; anything that msgspec can encode (plain types, Structs, dataclasses).
        type: its type, where it is not written as above.
        track: who uses it: ``"record"`` (``process``) or ``"window"`` (``on_window`` handlers).
        stage: of a job with stages, the one whose handlers alone use it (those of windows of that stage's states).
            Without it handlers of all stages may. Then windows are answered one end after the other, each at the cost
            of a round trip on the log for each stage.
        name: needed only outside of a class body.
    """

    def __init__(
        self,
        initial: T,
        *,
        type: Any = None,
        track: Literal["record", "window"] = "record",
        stage: int | None = None,
        name: str = "",
    ) -> None:
        if stage is not None and (track != "window" or stage < 0):
            raise JobError(f'Local {name!r}: stage={stage} is for track="window", and 0 or more')
        if track not in ("record", "window"):
            raise JobError(f'Local {name!r}: track must be "record" or "window", got {track!r}')
        try:
            self.initial = msgspec.msgpack.encode(initial)
        except TypeError as error:
            fix = f"; give a value, as {initial.__name__}()" if isinstance(initial, builtins.type) else ""
            raise JobError(f"Local {name!r}: cannot checkpoint {initial!r:.200}: {error}{fix}") from error
        self._given = type
        self._natural = initial.__class__
        self.track: Literal["record", "window"] = track
        self.stage = stage
        self.name = name

    @property
    def type(self) -> Any:
        """The type that a checkpointed value is decoded to."""
        if self._given is not None:
            return self._given
        written = get_args(getattr(self, "__orig_class__", None))  # set by typing after __init__
        return written[0] if written and not isinstance(written[0], TypeVar) else self._natural

    def check(self) -> None:
        """Raise ``JobError`` if a checkpoint could not give the initial value back."""
        try:
            msgspec.msgpack.decode(self.initial, type=self.type)
        except (msgspec.ValidationError, TypeError) as error:
            raise JobError(f"Local {self.name!r}: cannot checkpoint it as {self.type!r}: {error}") from error

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> LocalHandle[T]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self._handle(instance)

    @property
    def shape(self) -> TypeShape:
        """The shape of checkpointed values."""
        return shape_of(self.type)

    def describe(self) -> str:
        """The initial value of a record is compared field by field, with its type (``fingerprint/version.py``)."""
        if not self.shape.fields:
            return self.describe_with_initial()
        return f"Local {self.name} {self.type!r} - {self.track}{self._used_at}"

    def describe_with_initial(self) -> str:
        """As releases wrote it that did not know a state's fields."""
        return f"Local {self.name} {self.type!r} {self.initial!r} {self.track}{self._used_at}"

    @property
    def _used_at(self) -> str:
        return "" if self.stage is None else f" stage {self.stage}"
