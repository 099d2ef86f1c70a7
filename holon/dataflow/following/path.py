"""One way through a function: the conditions that it met, and what it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import currentframe
from types import NoneType
from typing import Any, NamedTuple

from holon.dataflow.arithmetic import is_none, is_there, quotient_of, rest_of
from holon.dataflow.code_scan import Untraceable
from holon.dataflow.expressions import Apply, Constant, Expression, Field, Leaf
from holon.dataflow.following.attempts import Attempt, Failed, Value, classes_of, may_be_caught, raises_none
from holon.dataflow.following.column_functions import ColumnFunction, Same
from holon.dataflow.following.declared import Kinds, Member
from holon.dataflow.following.formats import Formatted, is_marked, mark, parts_of
from holon.dataflow.following.loops.loop import Computed, Effects, Loop, Note, effects_of
from holon.dataflow.following.loops.ways import MAX_WAYS, Taken


class Left(NamedTuple):
    """A way of a turn that leaves its loop: its number, its conditions, and a leaf with what it computes."""

    number: int
    taken: list[Taken]
    leaf: Effects


class Turned:
    """Turns of loops that are known from ways that were followed before, by their identity."""

    def __init__(self, *, may_raise: bool) -> None:
        self.raising: dict[Any, list[Taken]] | None = {} if may_raise else None
        """The conditions of those that raise."""
        self.left: dict[Any, Left] = {}
        """Those that leave their loop."""
        self.loops: dict[Any, Loop] = {}
        """Loops that a turn may leave, by the way to them."""


NEEDS_VALUE = "it needs the value itself (a format, a number, an item, a hash)"


class _Around(NamedTuple):
    """The state of a way while a turn within it is followed."""

    answers: tuple[bool, ...]
    taken: list[Taken]
    made: list[tuple[Apply, ...]]
    nones: dict[tuple[str, ...], bool]
    has_none: bool
    has_raised: bool
    kinds: dict[tuple[str, ...], type]
    own_formats: list[int]
    notes: list[Note]
    scope: object
    begun: int
    depth: int


class Path:
    """One way through a function: its conditions with the answers that it got, and all expressions that it made.

    A turn of a loop is a way of its own meanwhile, within the one around it.
    """

    def __init__(
        self,
        answers: tuple[bool, ...],
        asks_none: bool,
        may_format: Callable[[], bool],
        is_checked: bool,
        interned: dict[Any, Apply],
        turned: Turned,
    ) -> None:
        """``interned``: the expressions of all ways of a function, so that what stands twice is evaluated once."""
        self._answers = answers
        self._interned = interned
        self.asks_none = asks_none
        self.is_checked = is_checked
        """Whether fields have their declared types."""
        self.is_inferred = False
        """Whether types of fields are those of expressions that they came from."""
        self._taken: list[Taken] = []
        self._made: list[tuple[Apply, ...]] = []
        self._may_format = may_format
        self._formats: list[tuple[Expression, str]] = []
        self._shown: set[int] = set()
        self._nones: dict[tuple[str, ...], bool] = {}
        self._has_none = False
        self.has_raised = False
        """Whether it goes on with an error that a clause may catch, or none."""
        self._kinds: dict[tuple[str, ...], type] = {}
        self._own_formats: list[int] = []
        self._notes: list[Note] = []
        self.loops: list[Any] = []
        """Those that are being followed, the innermost last."""
        self._scope = object()
        self._around: list[_Around] = []
        self.begun = 0
        """The loops that were begun on this way."""
        self.depth = 0
        """The loops of which there is an item: those that are being followed, and those that were left."""
        self.turned = turned

    @property
    def taken(self) -> list[Taken]:
        """The conditions of the way so far."""
        self.leave_loops()
        return self._taken

    @property
    def made(self) -> list[tuple[Apply, ...]]:
        """All that it has computed. Of those that stand together one has to be used: they fail for the same rows."""
        self.leave_loops()
        return self._made

    @property
    def notes(self) -> list[Note]:
        """The effects of the way, in order."""
        self.leave_loops()
        return self._notes

    @property
    def scope(self) -> Any:
        """Another one for each turn of a loop."""
        self.leave_loops()
        return self._scope

    def enter(self, answers: tuple[bool, ...]) -> None:
        """Begin the way of a turn."""
        self._around.append(_Around(
            self._answers, self._taken, self._made, self._nones, self._has_none, self.has_raised, self._kinds,
            self._own_formats, self._notes, self._scope, self.begun, self.depth,
        ))  # fmt: skip
        self._answers, self._taken, self._made, self._notes, self._scope, self.begun = answers, [], [], [], object(), 0
        self._nones, self._kinds, self._own_formats = dict(self._nones), dict(self._kinds), []

    def leave(self) -> list[Taken]:
        """Go back to the way around; gives the conditions of the turn."""
        taken = self._taken
        (self._answers, self._taken, self._made, self._nones, self._has_none, self.has_raised, self._kinds,
         self._own_formats, self._notes, self._scope, self.begun, self.depth) = self._around.pop()  # fmt: skip
        return taken

    def leave_loops(self) -> None:
        """Where a turn has left its loop (``break``, ``return``), go on with the way around, with all that it knows."""
        while self.loops and self.loops[-1].is_left():
            self.loops.pop().leave()

    def go_on_behind(self, condition: Apply, loop: Loop, number: int) -> Left:
        """The turn has left its loop by one of the ways of that: this is a condition of the way around."""
        known = self._nones, self._has_none, self.has_raised, self._kinds, self.depth
        formats, notes, made = self._own_formats, self._notes, self._made
        taken = self.leave()
        if not self.answers_next():
            raise Untraceable("it goes other ways each time that it is followed")
        self._keep(condition, True)
        self._nones, self._has_none, self.has_raised, self._kinds, self.depth = known
        self._own_formats = [*self._own_formats, *formats]
        self._notes = [*self._notes, loop, *notes]
        used = set(map(id, with_arguments([one.condition for one in taken])))
        computed = [each[0] for each in made if used.isdisjoint(map(id, each))]
        return Left(number, taken, effects_of([Computed(computed)] if computed else [], exit=number))

    def stays(self, condition: Apply) -> bool:
        """Whether no turn goes a way that leaves its loop; then that is a condition of this way."""
        if self.answers_next():
            return False
        self._keep(condition, False)
        return True

    def answers_next(self) -> bool:
        """The answer of the next condition."""
        number = len(self._taken)
        return self._answers[number] if number < len(self._answers) else True

    def _keep(self, condition: Expression, answer: bool) -> None:
        self._taken.append(Taken(condition, answer, tuple(one for made in self._made for one in made)))

    def is_within(self, scope: Any) -> bool:
        """Whether it is the scope of this way, or of one around it."""
        return scope is self.scope or any(scope is each.scope for each in self._around)

    def keep_raising(self) -> None:
        """When this way is followed again, the turn that goes on raises, and is not taken."""
        assert self.turned.raising is not None
        self.turned.raising[self.loops[-1].turn] = self.leave()

    def computed_before(self) -> tuple[Apply, ...]:
        """The values that Python has computed so far on this way, and those that it has formatted."""
        made = [each[0] for each in self.made]
        for expression, spec in (self._formats[number] for number in self._own_formats):
            made.append(self.interned("format", Formatted(["", ""], [spec]), expression))
        return tuple(made)

    def decide(self, condition: Expression) -> bool:
        number = len(self.taken)
        if number > MAX_WAYS:  # each parts the way, so there are more of them: a loop by ``while`` is without end here
            raise Untraceable(f"it has more than {MAX_WAYS} ways through it")
        answer = self.answers_next()
        self._keep(condition, answer)
        return answer

    def is_none(self, field: Field) -> bool:
        """Whether the field is None on this way: one answer for each field."""
        if field.path not in self._nones:
            self._nones[field.path] = self.decide(self.interned("is None", is_none, field))
        return self._nones[field.path]

    def kind_of(self, field: Field, kinds: Kinds) -> type:
        """Which of these types the field has on this way: one answer for each field."""
        kind = self._kinds.get(field.path)
        if kind is None:
            asked = (one for one in kinds[:-1] if self._has_kind(field, one))
            kind = self._kinds[field.path] = next(asked, kinds[-1])
        return kind

    def _has_kind(self, field: Field, kind: type) -> bool:
        if kind is NoneType:
            return self.is_none(field)
        return self.decide(self.interned(f"is {kind.__name__}", is_there, Field((*field.path, Member.of(kind)))))

    @property
    def has_none(self) -> bool:
        """Whether something is None on this way."""
        return self._has_none or any(self._nones.values())

    def has_no_value(self, condition: Expression) -> bool:
        """Whether what a dict holds is None on this way."""
        found = self.decide(condition)
        self._has_none |= found
        return found

    @staticmethod
    def current() -> Path:
        """The one that is being followed."""
        return _CURRENT.get()

    @contextmanager
    def being_followed(self) -> Iterator[None]:
        """Meanwhile it is the current one."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def interned(self, name: str, function: Callable[..., Any], *arguments: Expression) -> Apply:
        """The expression, which is the same one wherever it stands; it may be unused."""
        made = Apply(name, function, arguments)
        return self._interned.setdefault((key_of(function), *map(key_of, arguments)), made)

    def apply(self, name: str, function: Callable[..., Any], *arguments: Expression) -> Apply:
        if not raises_none(function) and may_be_caught(currentframe()):
            return self._attempted(name, function, arguments)
        made = self.interned(name, function, *arguments)
        self.made.append((made,))
        return made

    def attempted(self, name: str, function: Callable[..., Any], *arguments: Expression) -> Apply:
        """As ``apply``, of what may be unused."""
        if may_be_caught(currentframe()):
            return self._attempted(name, function, arguments)
        return self.interned(name, function, *arguments)

    def _attempted(self, name: str, function: Callable[..., Any], arguments: Sequence[Expression]) -> Apply:
        """Its value; on ways on which it has an error, raises that."""
        attempt = self.interned(f"try {name}", Attempt(function, (key_of(function),)), *arguments)
        if self.decide(self.interned("fails", Failed(None), attempt)):
            self.has_raised = True
            *first, last = classes_of(function)
            for one in first:
                if self.decide(self.interned(f"fails with {one.__name__}", Failed(one), attempt)):
                    raise one
            raise last
        return self.interned(name, Value(), attempt)

    @staticmethod
    def refuse_within_try(what: str) -> None:
        """Raise ``Untraceable`` where an error that comes of it may be caught."""
        if may_be_caught(currentframe()):
            raise Untraceable(f"it {what} within try, where its errors may be caught: do it behind, or in else")

    def apply_divmod(self, *arguments: Expression) -> tuple[Apply, Apply]:
        self.refuse_within_try("uses divmod")
        quotient = self.interned("divmod", quotient_of, *arguments)
        found = quotient, self.interned("divmod", rest_of, *arguments, quotient)
        self.made.append(found)
        return found

    def refuse_formats(self) -> None:
        """From here on: a mark could get into code that was not read for that."""
        self._may_format = lambda: False

    def format(self, expression: Expression, spec: str) -> str:
        """A mark in place of a formatted value."""
        self.refuse_within_try("formats a text")
        self.leave_loops()
        if is_marked(spec) or "{" in spec or "}" in spec or not self._may_format():
            raise Untraceable(NEEDS_VALUE)
        self._own_formats.append(len(self._formats))
        self._formats.append((expression, spec))
        return mark(self._own_formats[-1])

    def formatted(self, text: str) -> Apply:
        """The expression of a text with marks."""
        texts, numbers = parts_of(text)
        self._shown.update(numbers)
        expressions, specs = zip(*(self._formats[number] for number in numbers), strict=True)
        return self.apply("format", Formatted(texts, specs), *expressions)

    def check_used(self, leaf: Leaf) -> None:
        """Raise ``Untraceable`` for an expression that nothing follows from: Python might raise there."""
        if self.unused(leaf):
            raise Untraceable("a value that it computes is not used")

    def effects(self) -> Effects:
        """The leaf of all that is noted, and of values that were computed and not used: Python might raise there."""
        made = effects_of(self.notes)
        unused = self.unused(made)
        return effects_of([*self.notes, Computed(unused)]) if unused else made

    def unused(self, leaf: Leaf) -> Sequence[Apply]:
        """Expressions of this way that nothing follows from. Raises ``Untraceable`` for such a formatted text."""
        known = set(map(id, with_arguments([*expressions_of(leaf), *(one.condition for one in self.taken)])))
        is_shown = self._shown.issuperset(self._own_formats)
        if not is_shown:
            raise Untraceable("a text that it formats is not used")
        return [made[0] for made in self.made if known.isdisjoint(map(id, made))]


def with_arguments(found: list[Expression]) -> list[Expression]:
    """These expressions, and all that they are computed of."""
    for each in found:  # grows
        found += each.arguments if isinstance(each, Apply) else ()
    return found


def key_of(one: Any) -> Any:
    """Equal for what gives equal values, and is kept alive by an expression."""
    if isinstance(one, Field):
        return ("field", *((part, getattr(part, "kind", None)) for part in one.path))
    if isinstance(one, Constant):
        return ("constant", Same(one.value))
    key = one.key if isinstance(one, ColumnFunction) else None
    return Same(one) if key is None else (type(one), *key)


_CURRENT: ContextVar[Path] = ContextVar("path")


def expressions_of(leaf: Leaf) -> list[Expression]:
    """All expressions of a result."""
    if isinstance(leaf.result, Field | Constant | Apply):
        return [leaf.result]
    below = leaf.result.values() if isinstance(leaf.result, Mapping) else leaf.result
    return [expression for one in below for expression in expressions_of(one)]
