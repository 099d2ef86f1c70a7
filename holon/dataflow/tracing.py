"""Functions of a row, followed with a placeholder in place of the row: what they compute, as expressions.

Where a placeholder is used as a condition, the function is followed both ways.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin

import msgspec

from holon.dataflow.arithmetic import is_none, quotient_of, rest_of
from holon.dataflow.code_scan import Untraceable, global_of, scan
from holon.dataflow.errors import FlowError
from holon.dataflow.expressions import Apply, Branch, Constant, Decision, Expression, Field, Leaf
from holon.dataflow.following.formats import Formatted, is_marked, mark, parts_of
from holon.dataflow.following.stand_ins import STAND_INS, with_stand_ins
from holon.dataflow.following.whole_texts import keeps_texts_whole
from holon.errors import USER_ERRORS

_NEEDS_VALUE = "it needs the value itself (a format, a number, an item, a hash)"
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


class Path:
    """One way through a function: its conditions with the answers that it got, and all expressions that it made."""

    def __init__(self, answers: tuple[bool, ...], asks_none: bool, may_format: Callable[[], bool]) -> None:
        self._answers = answers
        self.asks_none = asks_none
        self.taken: list[tuple[Expression, bool]] = []
        self.made: list[tuple[Apply, ...]] = []
        """Of those that stand together one has to be used: they fail for the same rows."""
        self._may_format = may_format
        self._formats: list[tuple[Expression, str]] = []
        self._nones: dict[tuple[str, ...], bool] = {}

    def decide(self, condition: Expression) -> bool:
        number = len(self.taken)
        answer = self._answers[number] if number < len(self._answers) else True
        self.taken.append((condition, answer))
        return answer

    def is_none(self, field: Field) -> bool:
        """Whether the field is None on this way: one answer for each field."""
        if field.path not in self._nones:
            self._nones[field.path] = self.decide(Apply("is None", is_none, (field,)))
        return self._nones[field.path]

    @property
    def has_none(self) -> bool:
        """Whether a field is None on this way."""
        return any(self._nones.values())

    def apply(self, name: str, function: Callable[..., Any], *arguments: Expression) -> Apply:
        made = Apply(name, function, arguments)
        self.made.append((made,))
        return made

    def apply_divmod(self, *arguments: Expression) -> tuple[Apply, Apply]:
        quotient = Apply("divmod", quotient_of, arguments)
        found = quotient, Apply("divmod", rest_of, (*arguments, quotient))
        self.made.append(found)
        return found

    def format(self, expression: Expression, spec: str) -> str:
        """A mark in place of a formatted value."""
        if is_marked(spec) or "{" in spec or "}" in spec or not self._may_format():
            raise Untraceable(_NEEDS_VALUE)
        self._formats.append((expression, spec))
        return mark(len(self._formats) - 1)

    def formatted(self, text: str) -> Apply:
        """The expression of a text with marks."""
        texts, numbers = parts_of(text)
        expressions, specs = zip(*(self._formats[number] for number in numbers), strict=True)
        return self.apply("format", Formatted(texts, specs), *expressions)

    def check_used(self, leaf: Leaf) -> None:
        """Raise ``Untraceable`` for an expression that nothing follows from: Python might raise there."""
        used = [*_expressions_of(leaf), *(condition for condition, _ in self.taken)]
        for each in used:  # grows
            used += each.arguments if isinstance(each, Apply) else ()
        known = set(map(id, used))
        if any(known.isdisjoint(map(id, made)) for made in self.made):
            raise Untraceable("a value that it computes is not used")


class Placeholder:
    """A value that is not known yet."""

    __slots__ = ("_expression", "_path", "_type")

    def __init__(self, expression: Expression, path: Path, type: Any = None) -> None:
        self._expression = expression
        self._path = path
        self._type = type

    def __getattr__(self, name: str) -> Any:
        fields = _field_types(self._type)
        if name in fields and isinstance(self._expression, Field):
            found = Field((*self._expression.path, name))
            if not self._path.asks_none or not may_be_none(self._type, name):
                return Placeholder(found, self._path, fields[name])
            return None if self._path.is_none(found) else Placeholder(found, self._path, without_none(fields[name]))
        if self._type is str and name in (*_TO_TEXT, *_OF_TEXT):
            return _TextMethod(self, name)
        if fields and not hasattr(self._type, name):
            raise FlowError(f"{self._type.__name__} has no field {name!r}; it has {', '.join(fields)}")
        of = "" if self._type is None else f" of a {getattr(self._type, '__name__', self._type)}"
        raise Untraceable(f"it uses the attribute {name!r}{of}")

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
        raise Untraceable(_NEEDS_VALUE)

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


def _stand_in(name: str) -> Callable[..., Any]:
    function = getattr(builtins, name)

    def called(*given: Any, **named: Any) -> Any:
        if given and not named and isinstance(given[0], Placeholder):
            return given[0]._apply(name, function, *given[1:], type=str if function is str else None)
        return function(*given, **named)

    return called


_STAND_INS = {name: _stand_in(name) for name in STAND_INS}


def trace(function: Callable[[Any], Any], row_type: Any, *, checked: bool = False) -> Decision:
    """The result of a function for a row of this type (None: not known).

    ``checked``: fields have their declared types, since a format has read them. A Struct that a function makes may hold
    None anywhere. Raises ``Untraceable``, and ``FlowError`` for a field that the type does not have.
    """
    asks_none = scan(function)
    if asks_none and not checked:
        raise Untraceable("it uses `is None` on rows that a function has made")
    return _follow(function, lambda path: Placeholder(Field(()), path, row_type), _used_leaf, asks_none)


def trace_with(function: Callable[[Any], Any], argument: Callable[[Path], Any]) -> Decision:
    """As ``trace``, with an argument that is made for each way through the function."""
    return _follow(function, argument, _used_leaf, scan(function), calls=False)


def follow_all_ways(function: Callable[[Any], Any], argument: Callable[[Path], Any]) -> None:
    """Call a function once for each way through it, with an argument that is made for each; its results are nothing.

    Raises as ``trace``.
    """
    _follow(function, argument, lambda *_: Leaf(Constant(None)), scan(function))


def _follow(
    function: Callable[[Any], Any],
    argument: Callable[[Path], Any],
    leaf_of: Callable[[Any, Path], Leaf],
    asks_none: bool,
    *,
    calls: bool = True,
) -> Decision:
    """``calls``: where a way fails since a value is None, the function may be called with the rows of that way."""
    paths: list[tuple[Path, Leaf]] = []
    waiting: list[tuple[bool, ...]] = [()]
    called = with_stand_ins(function, _STAND_INS)
    may_format = cache(partial(keeps_texts_whole, function, global_of))
    while waiting:
        answers = waiting.pop()
        path = Path(answers, asks_none, may_format)
        try:
            leaf = leaf_of(called(argument(path)), path)
        except (Untraceable, FlowError):
            raise
        except USER_ERRORS as error:
            if not (calls and path.has_none):
                raise Untraceable(f"with a placeholder it raises {type(error).__name__}: {error}") from error
            leaf = Leaf(Apply("called", function, (Field(()),)))  # rows of this way, if there are any, raise it
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
    return Branch(taken[0][0], _tree(sides[True]), _tree(sides[False]))


def _used_leaf(result: Any, path: Path) -> Leaf:
    leaf = _leaf(result, path)
    path.check_used(leaf)
    return leaf


def _expressions_of(leaf: Leaf) -> list[Expression]:
    if isinstance(leaf.result, Field | Constant | Apply):
        return [leaf.result]
    below = leaf.result.values() if isinstance(leaf.result, Mapping) else leaf.result
    return [expression for one in below for expression in _expressions_of(one)]


def _leaf(result: Any, path: Path) -> Leaf:
    if isinstance(result, Placeholder):
        return Leaf(result._expression)
    if type(result) is str and is_marked(result):
        return Leaf(path.formatted(result))
    if isinstance(result, msgspec.Struct) and _holds(result):
        fields = {name: _leaf(getattr(result, name), path) for name in type(result).__struct_fields__}
        return Leaf(fields, type(result))
    if type(result) is tuple:
        return Leaf(tuple(_leaf(one, path) for one in result))
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


def _field_types(type: Any) -> dict[str, Any]:
    if isinstance(type, type_) and issubclass(type, msgspec.Struct):
        return {field.name: field.type for field in msgspec.structs.fields(type)}
    return {}


def may_be_none(struct: Any, name: str) -> bool:
    """Whether a field of a Struct may be None though a format has checked it: its default is checked by no format."""
    (field,) = (field for field in msgspec.structs.fields(struct) if field.name == name)
    plain = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    known = type(field.default) in (int, float, str, bytes, bool) or plain
    return not known or hasattr(struct, "__post_init__") or _holds_none(field.type)


def _holds_none(type: Any) -> bool:
    if isinstance(type, type_):
        return type in (NoneType, object, Any)
    origin = get_origin(type)
    if origin is Annotated:
        return _holds_none(get_args(type)[0])
    if origin in (Union, UnionType):
        return any(map(_holds_none, get_args(type)))
    return not (isinstance(origin, type_) and issubclass(origin, list | dict | tuple | set | frozenset))


def without_none(type: Any) -> Any:
    """The type of a value that is not None."""
    if get_origin(type) not in (Union, UnionType):
        return type
    kinds = [kind for kind in get_args(type) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 else None


type_ = type
