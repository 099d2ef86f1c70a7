"""A program: a processing function taken apart into states and handlers, the same for all its partitions."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from holon.errors import JobError
from holon.fingerprint.reach import CodePrint, code_print
from holon.fingerprint.version import JobVersion
from holon.program.function import HandlerScope, ProcessingFunction, WindowMark, window_marks
from holon.program.states import Local, StateDeclaration, Windowed
from wcrdt.replica.replica import StateShape

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class WindowHandler:
    """The handler that runs when a window of ``state`` is complete.

    ``method`` is a name on the function at ``path``.
    """

    state: str
    path: str
    method: str
    scope: HandlerScope
    function: Handler | None = None  # function form of a job


@dataclass(frozen=True, slots=True)
class Bound:
    """A state under its full name (``outer.inner.name`` where functions are nested)."""

    name: str
    path: str
    decl: StateDeclaration


class JobProgram:
    """Everything that the runtime needs to know of a processing function before it runs.

    ``helpers`` are what the job has besides (format, watermarks, filter, encodings), by name: part of its code.
    """

    def __init__(
        self,
        process: Any,
        process_batch: Handler | None,
        states: Sequence[StateDeclaration],
        on_window: Mapping[Any, Handler] | Sequence[Handler],
        helpers: Mapping[str, Any] | None = None,
    ) -> None:
        self.helpers = helpers or {}
        self.root = _prototype(process)
        self.bound: dict[str, Bound] = {}
        self.handlers: list[WindowHandler] = []
        self.record_function: Handler | None = None
        self.batch_function: Handler | None = process_batch
        if self.root is not None:
            if states or on_window or process_batch is not None:
                raise JobError(
                    f"{type(self.root).__name__} declares its states, handlers and process_batch itself; states=, "
                    f"on_window= and process_batch= are for the function form of a job"
                )
            self._collect(self.root, "")
            self._find_methods(self.root)
            instantiate(self.root)  # what no partition could get a copy of is an error of the declaration
        else:
            self.record_function = process
            self._collect_functions(states, on_window)
        if (self.record_function is None) == (self.batch_function is None):
            raise JobError(
                f"{getattr(process, '__name__', type(process).__name__)} needs exactly one of process (per record) "
                f"and process_batch"
            )
        if self.batch_function is not None and _is_async(self.batch_function):
            raise JobError("process_batch cannot be async: where a batch is cut is an accident, so it must not wait")
        for function in [self.record_function, self.batch_function, *(self._function_of(h) for h in self.handlers)]:
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise JobError(
                    f"{function.__name__} yields; results leave through ctx.emit, so that they are identified"
                )
        self.is_async = self.record_function is not None and _is_async(self.record_function)
        self.last_stage = max((decl.stage for decl in self.windowed().values()), default=0)
        self._check_stages()

    # --- questions ------------------------------------------------------------------------------------------------

    def shapes(self) -> dict[str, StateShape]:
        """The states that are shared between partitions."""
        return {
            name: StateShape(name, decl.bottom, decl.stage, decl.panes)
            for name, decl in self.windowed().items()
            if decl.shared
        }

    def windowed(self) -> dict[str, Windowed[Any, Any]]:
        """Windowed states by full name, in declaration order."""
        return {name: b.decl for name, b in self.bound.items() if isinstance(b.decl, Windowed)}

    def locals(self) -> dict[str, Local[Any]]:
        """Local values by full name, in declaration order."""
        return {name: b.decl for name, b in self.bound.items() if isinstance(b.decl, Local)}

    def stage_of(self, state: str) -> int:
        return self.windowed()[state].stage

    def handlers_at(self, stage: int) -> list[WindowHandler]:
        return [handler for handler in self.handlers if self.stage_of(handler.state) == stage]

    def describe(self) -> str:
        """Canonical text of states and handlers; with the code's hash it makes the fingerprint."""
        lines = [f"{name}: {bound.decl.describe()}" for name, bound in sorted(self.bound.items())]
        lines += sorted(f"on {h.state}: {h.path}{h.method} scope={h.scope}" for h in self.handlers)
        return "\n".join(lines)

    @cached_property
    def code(self) -> CodePrint:
        """All of the user's code that results follow from, as it is when this is first read."""
        roots = dict(self.helpers) | {f"state {name}": bound.decl for name, bound in sorted(self.bound.items())}
        found = [self.root] if self.root is not None else [self.record_function, self.batch_function]
        functions = [each for each in found if each is not None]
        functions += [handler.function for handler in self.handlers if handler.function is not None]
        roots |= {f"function {number}": function for number, function in enumerate(functions, 1)}
        return code_print(roots, functions)

    @cached_property
    def version(self) -> JobVersion:
        """The code, and the types of the local states, as a job's log records them."""
        shapes = {name: decl.shape for name, decl in self.locals().items()}
        typed = {name: self.locals()[name].initial for name, shape in shapes.items() if shape.fields}
        return JobVersion.of(self.code, shapes, {name: _builtins(initial) for name, initial in typed.items()})

    def code_hash(self) -> str:
        """Digest of the code that results follow from: another code, another hash."""
        return self.code.digest

    # --- taking apart ---------------------------------------------------------------------------------------------

    def _collect(self, function: ProcessingFunction[Any], path: str) -> None:
        members = _members(type(function))
        for _, member in members:
            if isinstance(member, StateDeclaration):
                self._bind(member, path)
        for name, member in members:
            for mark in _inherited_marks(type(function), name, member):
                self._add_handler(path, name, mark.state, mark.scope, None)
        for name, inner in nested(function):
            self._collect(inner, f"{path}{name}.")

    def _collect_functions(
        self, states: Sequence[StateDeclaration], on_window: Mapping[Any, Handler] | Sequence[Handler]
    ) -> None:
        for state in states:
            if not state.name:
                raise JobError(f"a {type(state).__name__} outside of a class needs name=...")
            self._bind(state, "")
        if isinstance(on_window, Mapping):
            for state, function in on_window.items():
                self._add_handler("", _name_of(function), state, "partition", function)
            return
        for function in on_window:
            marks = window_marks(function)
            if not marks:
                raise JobError(f"{_name_of(function)} in Job(on_window=[...]) needs the decorator @on_window(state)")
            for mark in marks:
                self._add_handler("", _name_of(function), mark.state, mark.scope, function)

    def _bind(self, state: StateDeclaration, path: str) -> None:
        full = path + state.name
        if full in self.bound:
            raise JobError(f"two states are called {full!r}")
        if isinstance(state, Local):
            state.check()
        self.bound[full] = Bound(full, path, state)

    def _add_handler(
        self, path: str, method: str, state: StateDeclaration, scope: HandlerScope, function: Handler | None
    ) -> None:
        if not isinstance(state, Windowed):
            raise JobError(f"on_window of {method!r} needs a WCRDT or a WLocal, got {state!r}")
        full = path + state.name
        if full not in self.bound or self.bound[full].decl is not state:
            raise JobError(f"on_window of {method!r}: {state.name or state!r} is no state of {path or 'the job'}")
        if scope == "global" and not state.shared:
            raise JobError(f"{method!r} has the global scope, but the WLocal {full!r} has one value a partition")
        if scope == "global" and state.sharded:
            raise JobError(f"{method!r} has the global scope, but of {full!r} each partition reads its own keys alone")
        self.handlers.append(WindowHandler(full, path, method, scope, function))

    def _function_of(self, handler: WindowHandler) -> Handler | None:
        if handler.function is not None or self.root is None:
            return handler.function
        owners = dict(paths(self.root))
        return getattr(type(owners[handler.path]), handler.method)

    def _find_methods(self, root: ProcessingFunction[Any]) -> None:
        base = ProcessingFunction
        if type(root).process is not base.process:
            self.record_function = root.process
        if type(root).process_batch is not base.process_batch:
            self.batch_function = root.process_batch

    @cached_property
    def late_states(self) -> list[str]:
        """The states that records are inserted into, for which rows may be late."""
        return sorted(name for name, decl in self.windowed().items() if decl.stage == 0)

    @cached_property
    def sharded(self) -> frozenset[str]:
        """The states of which each partition reads the keys alone that it answers for."""
        return frozenset(name for name, decl in self.windowed().items() if decl.sharded)

    @cached_property
    def answers_private(self) -> bool:
        """True if a handler waits for windows of one partition alone."""
        return any(not self.windowed()[handler.state].shared for handler in self.handlers)

    @cached_property
    def in_lockstep(self) -> bool:
        """True if a Local may be used by handlers of several stages: then they run in one order, end by end."""
        stages = {self.stage_of(handler.state) for handler in self.handlers}
        return len(stages) > 1 and any(d.track == "window" and d.stage is None for d in self.locals().values())

    def _check_stages(self) -> None:
        last_answered = max((self.stage_of(h.state) for h in self.handlers), default=0)
        for name, decl in self.windowed().items():
            if decl.stage > last_answered + 1:
                raise JobError(
                    f"{name!r} has stage {decl.stage}, but no on_window handler runs at stage {decl.stage - 1}"
                )
        for name, local in self.locals().items():
            if local.stage is not None and not self.handlers_at(local.stage):
                raise JobError(f"Local {name!r} has stage {local.stage}, but no on_window handler runs at that stage")


def _builtins(packed: bytes) -> Any:
    """An initial value as JSON gives it back."""
    return msgspec.json.decode(msgspec.json.encode(msgspec.msgpack.decode(packed)))


def own_states(function: ProcessingFunction[Any]) -> list[tuple[str, StateDeclaration]]:
    """The states that are attributes of this one, by name."""
    return [(name, member) for name, member in _members(type(function)) if isinstance(member, StateDeclaration)]


def nested(function: ProcessingFunction[Any]) -> list[tuple[str, ProcessingFunction[Any]]]:
    """Processing functions that are attributes of this one, by name, sorted."""
    found = {name: m for name, m in _members(type(function)) if isinstance(m, ProcessingFunction)}
    found |= {name: m for name, m in vars(function).items() if isinstance(m, ProcessingFunction)}
    return sorted(found.items())


def paths(function: ProcessingFunction[Any], path: str = "") -> Iterator[tuple[str, ProcessingFunction[Any]]]:
    """The function and all that are nested in it, each with the path that its states' names start with."""
    yield path, function
    for name, inner in nested(function):
        yield from paths(inner, f"{path}{name}.")


def instantiate(function: ProcessingFunction[Any]) -> ProcessingFunction[Any]:
    """A copy for one partition, nested functions and constants copied too, so that partitions share nothing."""
    try:
        fresh = copy.deepcopy(function)
    except TypeError as error:
        raise JobError(
            f"{type(function).__name__} cannot be copied for each partition ({error}): attributes are constants; make "
            f"what cannot be copied a module-level name"
        ) from error
    for name, inner in nested(fresh):
        if name not in fresh.__dict__:  # an attribute of the class
            fresh.__dict__[name] = instantiate(inner)
    return fresh


def _prototype(process: Any) -> ProcessingFunction[Any] | None:
    if isinstance(process, ProcessingFunction):
        return process
    if isinstance(process, type) and issubclass(process, ProcessingFunction):
        return process()
    if process is not None and not callable(process):
        raise JobError(f"process must be a function or a ProcessingFunction, got {process!r}")
    return None


def _is_async(function: Handler) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _name_of(function: Handler) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _inherited_marks(owner: type, name: str, member: Any) -> list[WindowMark]:
    """Marks of a method; one that overrides a handler is that handler, decorated again or not."""
    if not inspect.isfunction(member):
        return []
    overridden = (window_marks(vars(cls)[name]) for cls in owner.__mro__ if name in vars(cls))
    return next((marks for marks in overridden if marks), [])


def _members(owner: type) -> list[tuple[str, Any]]:
    """Class attributes by name, those of base classes first, the overriding one only."""
    members: dict[str, Any] = {}
    for cls in reversed(owner.__mro__):
        if cls not in (object, ProcessingFunction):
            members.update(vars(cls))
    return list(members.items())
