"""Functions of a row, followed with a placeholder in place of the row: what they compute, as expressions.

Where a placeholder is used as a condition, the function is followed both ways.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import NoneType
from typing import Any, NoReturn

import msgspec

from holon.dataflow.arithmetic import is_there
from holon.dataflow.code_scan import Untraceable, global_of, scan
from holon.dataflow.errors import FlowError, LacksAttribute, NoSuchField
from holon.dataflow.expressions import Apply, Branch, Constant, Decision, Expression, Field, Leaf
from holon.dataflow.following.declared import (
    Kinds,
    Member,
    field_types,
    kinds_of,
    kinds_of_field,
    may_be_none,
    without_none,
)
from holon.dataflow.following.formats import is_marked
from holon.dataflow.following.path import NEEDS_VALUE, Path
from holon.dataflow.following.stand_ins import STAND_INS, StandInType, with_stand_ins
from holon.dataflow.following.whole_texts import keeps_texts_whole
from holon.errors import USER_ERRORS

_NEEDS_STRUCTS = "it asks for a type (isinstance, match, type): that of Structs is known, where a format has read them"
MAX_PATHS = 64
"""A function with more ways through it runs row by row."""
_TO_TEXT = (
    "casefold",
    "lower",
    "lstrip",
    "removeprefix",
    "removesuffix",
    "replace",
    "rstrip",
    "strip",
    "title",
    "upper",
)
_OF_TEXT = ("count", "endswith", "find", "isalnum", "isalpha", "isdigit", "islower", "isupper", "rfind", "startswith")
"""Methods of texts that give texts, and those that give ints or bools."""


class Placeholder:
    """A value that is not known yet."""

    __slots__ = ("_expression", "_kinds", "_path", "_type")

    def __init__(self, expression: Expression, path: Path, type: Any = None, kinds: Kinds = ()) -> None:
        self._expression = expression
        self._path = path
        self._type = type
        self._kinds = kinds
        """The types that it is one of, where these are known."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        """The type of the value, which ``isinstance`` and ``match`` read. The way parts where it may be several."""
        if not (self._kinds and isinstance(self._expression, Field)):
            raise Untraceable(_NEEDS_STRUCTS)
        return self._path.kind_of(self._expression, self._kinds)

    def __getattr__(self, name: str) -> Any:
        if len(self._kinds) > 1:
            return self._of_kind(self.__class__, name)
        fields = field_types(self._type)
        if name in fields and isinstance(self._expression, Field):
            return self._field(self._expression.path, self._type, name)
        if self._type is str and name in (*_TO_TEXT, *_OF_TEXT):
            return _TextMethod(self, name)
        if fields and not hasattr(self._type, name):
            raise NoSuchField(f"{self._type.__name__} has no field {name!r}; it has {', '.join(fields)}")
        of = "" if self._type is None else f" of a {getattr(self._type, '__name__', self._type)}"
        raise Untraceable(f"it uses the attribute {name!r}{of}")

    def _of_kind(self, kind: type, name: str) -> Any:
        """A field of the one type that the value has on this way."""
        assert isinstance(self._expression, Field)
        if name in field_types(kind):
            several = len(self._kinds) > 1 + (NoneType in self._kinds)
            path = (*self._expression.path, Member.of(kind)) if several else self._expression.path
            return self._field(path, kind, name)
        if not hasattr(kind, name):  # as of a row with that value
            raise LacksAttribute(f"{kind.__name__!r} object has no attribute {name!r}")
        raise Untraceable(f"it uses the attribute {name!r} of a {kind.__name__}")

    def _field(self, path: tuple[str, ...], struct: Any, name: str) -> Any:
        found, declared = Field((*path, name)), field_types(struct)[name]
        kinds = kinds_of_field(struct, name) if self._path.is_checked else ()
        if not self._path.asks_none or not may_be_none(struct, name):
            return Placeholder(found, self._path, declared, kinds)
        if self._path.is_none(found):
            return None
        some = tuple(kind for kind in kinds if kind is not NoneType)
        return Placeholder(found, self._path, without_none(declared), some)

    def __bool__(self) -> bool:
        return self._path.decide(self._expression)

    def __contains__(self, item: Any) -> bool:
        return bool(self._apply("contains", operator.contains, item))

    def _apply(self, name: str, function: Callable[..., Any], *others: Any, type: Any = None) -> Placeholder:
        made = self._path.apply(name, function, self._expression, *map(_expression_of, others))
        return Placeholder(made, self._path, type)

    def _swapped(self, name: str, function: Callable[..., Any], left: Any) -> Placeholder:
        return Placeholder(self._path.apply(name, function, _expression_of(left), self._expression), self._path)

    def __neg__(self) -> Placeholder:
        return self._apply("-", operator.neg)

    def __abs__(self) -> Placeholder:
        return self._apply("abs", operator.abs)

    def __divmod__(self, other: Any) -> tuple[Placeholder, Placeholder]:
        return self._divmod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[Placeholder, Placeholder]:
        return self._divmod(other, self)

    def _divmod(self, left: Any, right: Any) -> tuple[Placeholder, Placeholder]:
        quotient, rest = self._path.apply_divmod(_expression_of(left), _expression_of(right))
        return Placeholder(quotient, self._path), Placeholder(rest, self._path)

    def __format__(self, spec: str) -> str:
        return self._path.format(self._expression, spec)

    def _refused(self, *_: Any) -> NoReturn:
        raise Untraceable(NEEDS_VALUE)

    __hash__ = _refused  # type: ignore[assignment]
    __str__ = __repr__ = __int__ = __float__ = __index__ = __len__ = __iter__ = _refused  # type: ignore[assignment]
    __getitem__ = __call__ = __round__ = __reversed__ = __enter__ = __complex__ = __bytes__ = _refused


class FreePlaceholder(Placeholder):
    """A value of which only the conditions matter that follow from it: its attributes, items and calls are such too."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return self._maybe(f".{name}")

    def __getitem__(self, item: Any) -> Any:
        return self._maybe(f"[{item!r:.60}]")

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._maybe("()")

    def _maybe(self, name: str) -> Any:
        """One that may be None; where the function asks for that, on a way of its own."""
        asked = self._path.asks_none and self._path.is_none(Field((repr(self._expression), name)))
        return None if asked else self._further(name)

    def __round__(self, digits: int = 0) -> Any:
        return self._further("round")

    def _further(self, name: str) -> FreePlaceholder:
        return FreePlaceholder(Apply(name, operator.pos, (self._expression,)), self._path)

    def _apply(self, name: str, function: Callable[..., Any], *others: Any, type: Any = None) -> FreePlaceholder:
        return self._further(name)

    def _swapped(self, name: str, function: Callable[..., Any], left: Any) -> FreePlaceholder:
        return self._further(name)

    def _divmod(self, left: Any, right: Any) -> tuple[Placeholder, Placeholder]:
        return self._further("divmod"), self._further("divmod")


def _binary(name: str, function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def forwards(self: Placeholder, other: Any) -> Placeholder:
        return self._apply(name, function, other)

    def backwards(self: Placeholder, other: Any) -> Placeholder:
        return self._swapped(name, function, other)

    return forwards, backwards


_TWO_SIDED = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod"}
for _name, _word in (_TWO_SIDED | {"&": "and", "|": "or", "^": "xor"}).items():
    _forwards, _backwards = _binary(_name, getattr(operator, f"__{_word}__"))
    setattr(Placeholder, f"__{_word}__", _forwards)
    setattr(Placeholder, f"__r{_word}__", _backwards)
for _name, _word in (("==", "eq"), ("!=", "ne"), ("<", "lt"), ("<=", "le"), (">", "gt"), (">=", "ge")):
    setattr(Placeholder, f"__{_word}__", _binary(_name, getattr(operator, _word))[0])


class _TextMethod:
    def __init__(self, owner: Placeholder, name: str) -> None:
        self._owner = owner
        self._name = name

    def __call__(self, *given: Any) -> Placeholder:
        kind = str if self._name in _TO_TEXT else None
        return self._owner._apply(f".{self._name}", getattr(str, self._name), *given, type=kind)


def _stand_in(name: str) -> Any:
    function = getattr(builtins, name)
    if function is type:
        return _type_of

    def called(*given: Any, **named: Any) -> Any:
        if given and not named and isinstance(given[0], Placeholder):
            return given[0]._apply(name, function, *given[1:], type=str if function is str else None)
        return function(*given, **named)

    return StandInType.of(function, called) if isinstance(function, type) else called


def _type_of(value: Any) -> Any:
    """``type`` of a field; of other values it could be a type that has a stand-in."""
    if value is not None and not isinstance(value, Placeholder):
        raise Untraceable("it uses `type` of what is no field")
    return NoneType if value is None else value.__class__


_STAND_INS = {name: _stand_in(name) for name in STAND_INS}


def trace(function: Callable[[Any], Any], row_type: Any, *, checked: bool = False) -> Decision:
    """The result of a function for a row of this type (None: not known).

    ``checked``: fields have their declared types, since a format has read them. A Struct that a function makes may hold
    None anywhere. Raises ``Untraceable``, and ``FlowError`` for a field that the type does not have.
    """
    asks_none = scan(function)
    if asks_none and not checked:
        raise Untraceable("it uses `is None` on rows that a function has made")
    kinds = kinds_of(row_type) if checked else ()
    row: Callable[[Path], Any] = lambda path: (Placeholder(Field(()), path, row_type, kinds),)  # noqa: E731
    return _follow(function, row, used_leaf, asks_none, called=_called(function), is_checked=checked)


def trace_with(function: Callable[[Any], Any], argument: Callable[[Path], Any]) -> Decision:
    """As ``trace``, with an argument that is made for each way through the function."""
    return _follow(function, lambda path: (argument(path),), used_leaf, scan(function))


def follow_all_ways(function: Callable[[Any], Any], argument: Callable[[Path], Any]) -> None:
    """Call a function once for each way through it, with an argument that is made for each; its results are nothing.

    Raises as ``trace``.
    """
    leaf = Leaf(Constant(None))
    _follow(function, lambda path: (argument(path),), lambda *_: leaf, scan(function), called=leaf)


def trace_effects(
    function: Callable[..., Any],
    arguments: Callable[[Path], tuple[Any, ...]],
    effects_of: Callable[[Any, Path], Leaf],
    failing: Leaf,
    known: Sequence[Any] = (),
    *,
    asks_none: bool = False,
) -> Decision:
    """The effects of a function of records, as a format has read them, by the way that each goes.

    ``effects_of`` makes a way's leaf of what the function has given; ``failing`` is that of a way on which it raises.
    ``known``: objects that the function may name, since ``arguments`` know what becomes of them. ``asks_none``: one
    that it calls by them asks whether something is None. Raises as ``trace``.
    """
    asks_none |= scan(function, known)
    return _follow(function, arguments, effects_of, asks_none, called=failing, is_checked=True)


def prepared(function: Callable[..., Any], known: Sequence[Any]) -> tuple[Callable[..., Any], bool]:
    """A function that a followed one calls by an attribute, as it is called; and whether it asks for None.

    Raises ``Untraceable``.
    """
    asks_none = scan(function, known)
    return with_stand_ins(function, _STAND_INS), asks_none


def row_of(path: Path, row_type: Any) -> Placeholder:
    """The placeholder of a row as a format has read it."""
    return Placeholder(Field(()), path, row_type, kinds_of(row_type))


def _called(function: Callable[[Any], Any]) -> Leaf:
    """Calls of the function with the rows of a way on which it raises."""
    return Leaf(Apply("called", function, (Field(()),)))


def _follow(
    function: Callable[..., Any],
    arguments: Callable[[Path], tuple[Any, ...]],
    end_of: Callable[[Any, Path], Leaf],
    asks_none: bool,
    *,
    called: Leaf | None = None,
    is_checked: bool = False,
) -> Decision:
    """``called``: of a way that fails since a value is None, or a Struct that lacks a field; None: there is none."""
    paths: list[tuple[Path, Leaf]] = []
    waiting: list[tuple[bool, ...]] = [()]
    with_others = with_stand_ins(function, _STAND_INS)
    may_format = cache(partial(keeps_texts_whole, function, global_of))
    while waiting:
        answers = waiting.pop()
        path = Path(answers, asks_none, may_format, is_checked)
        try:
            leaf = end_of(with_others(*arguments(path)), path)
        except (Untraceable, FlowError):
            raise
        except USER_ERRORS as error:
            if called is None or not (path.has_none or isinstance(error, LacksAttribute)):
                raise Untraceable(f"with a placeholder it raises {type(error).__name__}: {error}") from error
            leaf = called  # rows of this way, if there are any, raise it
        paths.append((path, leaf))
        taken = [answer for _, answer in path.taken]
        waiting += [(*taken[:number], False) for number in range(len(answers), len(taken))]
        if len(paths) + len(waiting) > MAX_PATHS:
            raise Untraceable(f"it has more than {MAX_PATHS} ways through it")
    return _tree([(path.taken, leaf) for path, leaf in paths])


def _tree(paths: list[tuple[list[tuple[Expression, bool]], Leaf]]) -> Decision:
    taken, leaf = paths[0]
    if not taken:
        return leaf
    sides: dict[bool, list[tuple[list[tuple[Expression, bool]], Leaf]]] = {True: [], False: []}
    for way, end in paths:
        sides[way[0][1]].append((way[1:], end))
    then, otherwise = _tree(sides[True]), _tree(sides[False])
    return then if _never_differ(taken[0][0], then, otherwise) else Branch(taken[0][0], then, otherwise)


def _never_differ(condition: Expression, then: Decision, otherwise: Decision) -> bool:
    """Whether both ways give one constant, and the condition cannot fail."""
    if not (isinstance(condition, Apply) and condition.function is is_there):
        return False
    if not (isinstance(then, Leaf) and isinstance(otherwise, Leaf)):
        return False
    one, other = then.result, otherwise.result
    return isinstance(one, Constant) and isinstance(other, Constant) and one.value is other.value


def used_leaf(result: Any, path: Path) -> Leaf:
    """A result as a leaf. Raises ``Untraceable`` where the function has computed what nothing follows from."""
    leaf = leaf_of(result, path)
    path.check_used(leaf)
    return leaf


def leaf_of(result: Any, path: Path) -> Leaf:
    """The same, of a part of a result."""
    if isinstance(result, Placeholder):
        return Leaf(result._expression)
    if type(result) is str and is_marked(result):
        return Leaf(path.formatted(result))
    if isinstance(result, msgspec.Struct) and type(result).__struct_fields__:  # without fields it is a constant
        fields = {name: leaf_of(getattr(result, name), path) for name in type(result).__struct_fields__}
        return Leaf(fields, type(result))
    if type(result) is tuple:
        return Leaf(tuple(leaf_of(one, path) for one in result))
    if _holds(result):
        raise Untraceable(f"it gives a {type(result).__name__} of expressions")
    return Leaf(Constant(result))


def _holds(value: Any) -> bool:
    """Whether a placeholder is in there."""
    if isinstance(value, Placeholder | _TextMethod) or (isinstance(value, str) and is_marked(value)):
        return True
    if isinstance(value, msgspec.Struct):
        return any(_holds(getattr(value, name)) for name in type(value).__struct_fields__)
    if isinstance(value, Mapping):
        return any(map(_holds, value.values())) or any(map(_holds, value))
    return isinstance(value, list | tuple | set | frozenset) and any(map(_holds, value))


def _expression_of(value: Any) -> Expression:
    if isinstance(value, Placeholder):
        return value._expression
    if _holds(value):
        raise Untraceable(f"it uses a {type(value).__name__} of expressions in an operator")
    return Constant(value)
