"""The law checker: every lattice type, also a user's own, is run through ``check_laws``.

States are drawn as they can really come about: each actor has one history, written at its own replica, and a replica
has merged some prefix of each history. Two states that were not reached like this (an actor that counted to 3 here and
to 5 there, independently) need not be mergeable. Most counters would seem broken on them.

Needs hypothesis, which is imported only when a check runs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from wcrdt.codec import DecodeError, decode, encode
from wcrdt.elements import EXACT
from wcrdt.lattice import Lattice
from wcrdt.lattices.columns import height, rows_of

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

AnyLattice = Lattice[Any, Any]
Step = tuple[Any, ...]
REFUSALS = (TypeError, ValueError, LookupError)
"""Exceptions of ``insert`` for an element that it does not take; the state must then be as before."""

_JUNK: tuple[Any, ...] = (None, True, 0, 1, -1, 2**64 - 1, 0.5, "x", b"x", [], [0], [1, b"\x01"], [3, 2])
_POOL = 7  # states that are compared with each other in one example: pairs and triples of them


class LawBroken(AssertionError):
    """A law does not hold; the message names it and shows the states."""


def check_laws(
    bottom: AnyLattice,
    elements: SearchStrategy[Any],
    *,
    actors: Sequence[int] = (0, 1, 2),
    max_examples: int | None = None,
    max_steps: int = 12,
) -> None:
    """Check all laws of ``Lattice`` on random reachable states of the shape of ``bottom``.

    Merge is commutative, associative and idempotent, with ``bottom`` as unit. ``merge`` returns whether it changed
    anything, and neither changes nor aliases the other; ``leq`` is merge's order. Mutators inflate; deltas give the
    state after. ``insert_many`` equals inserts, in every form of column; a refused element changes nothing. Equal
    values have equal bytes and only they. States of different elements combine to that of them all. The codec gives the
    value back and takes nothing that it could not have written.

    Args: ``elements`` draws what is inserted (it may draw elements that are refused, but not only such);
    ``max_examples`` None leaves it to hypothesis's profile.

    Raises:
        LawBroken: with the smallest example that hypothesis finds.
    """
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    replica = st.integers(0, len(actors) - 1)
    step = st.one_of(
        st.tuples(st.just("insert"), replica, elements),
        st.tuples(st.just("insert_many"), replica, st.lists(elements, max_size=6)),
        st.tuples(st.just("merge"), replica, replica),
    )
    accepted: list[int] = []

    @settings(
        max_examples=settings().max_examples if max_examples is None else max_examples,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.lists(step, max_size=max_steps), st.integers(0, 10**6), st.integers(0, 10**6))
    def laws_hold(script: list[Step], where: int, what: int) -> None:
        run = _Run(bottom, actors)
        for one in script:
            run.step(one)
        accepted.append(run.accepted)
        states = run.pool()
        for state in states:
            check_one(bottom, state)
            check_wire(state, where, what)
        check_together(states)
        run.check_untouched()
        check_combined(bottom, _elements_of(script, actors), where)

    laws_hold()
    if not any(accepted):
        raise LawBroken(f"{bottom.tag}: every element was refused, so nothing was checked; draw others")


class _Run:
    """Replicas, one for each actor, and every state and delta that came about on the way."""

    def __init__(self, bottom: AnyLattice, actors: Sequence[int]) -> None:
        self.replicas = [bottom.bottom() for _ in actors]
        self.actors = actors
        self.seen: list[tuple[AnyLattice, bytes]] = []
        self.accepted = 0
        self._see(bottom.bottom())

    def _see(self, state: AnyLattice) -> None:
        self.seen.append((state, encode(state)))

    def step(self, step: Step) -> None:
        verb, at, what = step
        replica = self.replicas[at]
        if verb == "merge":
            self._merge(replica, self.replicas[what])
        elif verb == "insert":
            self._insert(replica, what, self.actors[at])
        else:
            self._insert_many(at, what)
        self._see(self.replicas[at].copy())

    def _merge(self, replica: AnyLattice, other: AnyLattice) -> None:
        if replica is not other:
            before, theirs = encode(replica), encode(other)
            changed = replica.merge(other)
            _demand(changed == (encode(replica) != before), "merge returns whether something changed", replica, other)
            _demand(encode(other) == theirs, "merge leaves the other as it was", replica, other)

    def _insert(self, replica: AnyLattice, element: Any, actor: int) -> bool:
        """Insert one element and check its laws; False if it is refused."""
        before = replica.copy()
        try:
            delta = replica.insert(element, actor=actor)
        except REFUSALS:
            _demand(encode(replica) == encode(before), "a refused element changes nothing", before, replica)
            return False
        self.accepted += 1
        self._see(delta)
        _check_mutation(before, delta, replica)
        return True

    def _insert_many(self, at: int, elements: list[Any]) -> None:
        """Insert one by one, and in each form of column into a copy: the results are equal."""
        replica, actor = self.replicas[at], self.actors[at]
        before = replica.copy()
        taken = [element for element in elements if self._insert(replica, element, actor)]
        for column in columns_of(taken):
            other = before.copy()
            delta = other.insert_many(column, actor=actor)
            _demand(encode(other) == encode(replica), f"insert_many of {column!r} equals inserts", other, replica)
            _check_mutation(before, delta, other)
            self._see(delta)

    def pool(self) -> list[AnyLattice]:
        """Some distinct states, spread over the run, the last among them."""
        distinct = list({data: state for state, data in self.seen}.values())
        stride = -(-len(distinct) // _POOL)
        return distinct[::-1][::stride]

    def check_untouched(self) -> None:
        """Copies and deltas are independent: what happened later did not reach them."""
        for state, data in self.seen:
            _demand(encode(state) == data, "copies, deltas and merged values are not aliased", state)


def check_one(bottom: AnyLattice, state: AnyLattice) -> None:
    """Laws of a single state: copy, unit, idempotence, codec."""
    data = encode(state)
    twin = state.copy()
    _demand(encode(twin) == data and twin == state, "a copy is equal", state, twin)
    _demand(not twin.merge(state) and encode(twin) == data, "merge is idempotent", state, twin)
    _demand(not twin.merge(bottom.bottom()) and encode(twin) == data, "bottom is the unit of merge", state, twin)
    risen = bottom.bottom()
    _demand(
        risen.merge(state) == (encode(bottom.bottom()) != data), "merge returns whether bottom changed", state, risen
    )
    _demand(encode(risen) == data, "merge into bottom gives the value", state, risen)
    _demand(bottom.bottom().leq(state), "bottom is below everything", state)
    try:
        back = decode(data, bottom)
    except DecodeError as error:
        raise LawBroken(f"{bottom.tag}: what was encoded is refused: {error}. State: {state!r}") from error
    _demand(encode(back) == data and back == state, "decode gives the value back", state, back)
    _demand(_same(back.value, state.value), "equal values read the same", state, back)


def check_together(states: Sequence[AnyLattice]) -> None:
    """Laws of two and three states."""
    data = [encode(state) for state in states]
    joins: dict[tuple[int, int], AnyLattice] = {}
    for i, a in enumerate(states):
        for j, b in enumerate(states):
            joins[i, j] = _checked_join(a, b, data[i] == data[j])
    for (i, j), ab in joins.items():
        _demand(encode(ab) == encode(joins[j, i]), "merge is commutative", states[i], states[j])
        _demand(_same(ab.value, joins[j, i].value), "values do not depend on the order of merge", states[i], states[j])
        for k in range(j, len(states)):
            left, right = _joined(ab, states[k]), _joined(states[i], joins[j, k])
            _demand(encode(left) == encode(right), "merge is associative", states[i], states[j], states[k])
    _check_independence(states, data)


def _checked_join(a: AnyLattice, b: AnyLattice, same: bool) -> AnyLattice:
    """``a`` with ``b`` merged in, after the laws of the pair."""
    joined = a.copy()
    changed = joined.merge(b)
    _demand(changed == (encode(joined) != encode(a)), "merge returns whether something changed", a, b)
    _demand(b.leq(a) == (not changed), "leq is the order of merge", b, a)
    _demand(a.leq(joined) and b.leq(joined), "a join is above both", a, b)
    _demand((a.leq(b) and b.leq(a)) == same, "values below each other have equal bytes, and only they", a, b)
    _demand((a == b) == same, "equality is that of the bytes", a, b)
    return joined


def _check_independence(states: Sequence[AnyLattice], data: list[bytes]) -> None:
    """A value, a wire and a merged value stay as they are when the state they came from goes on."""
    for state in states:
        read, wire = state.copy(), state.to_wire()
        value = read.value
        kept, kept_wire = copy.deepcopy(value), copy.deepcopy(wire)
        remade = state.from_wire(wire)
        for other in states:
            read.merge(other)
            remade.merge(other)
        _demand(_same(value, kept), "a value that was read does not change", state)
        _demand(wire == kept_wire, "a wire is not aliased", state)
    for state, before in zip(states, data, strict=True):
        _demand(encode(state) == before, "merge leaves the other as it was, also later", state)


def _check_mutation(before: AnyLattice, delta: AnyLattice, after: AnyLattice) -> None:
    joined = _joined(before, delta)
    _demand(before.leq(after), "mutators only inflate", before, after)
    _demand(encode(joined) == encode(after), "state before and delta give the state after", before, delta, after)
    _demand(delta.leq(after), "a delta is below the state after", delta, after)


def check_combined(bottom: AnyLattice, elements: Sequence[tuple[Any, int]], split: int) -> None:
    """The law of ``combine``: the elements, with their actors, are parted into three states by a number's digits."""
    parts, both, whole = [bottom.bottom() for _ in range(3)], bottom.bottom(), bottom.bottom()
    for number, (element, actor) in enumerate(elements):
        side = split // 3 ** (number % 12) % 3
        for state in (parts[side], whole, *[both] * (side < 2)):
            try:
                state.insert(element, actor=actor)
            except REFUSALS:
                break
    if not bottom.combines:
        try:
            whole.combine(whole.copy())
        except TypeError:
            return
        raise LawBroken(f"{bottom.tag}: what does not combine refuses to")
    a, b, c = parts
    data = [encode(part) for part in parts]
    ab, ba, every = _combined(a, b), _combined(b, a), _combined(_combined(a, b), c)
    _demand(_same(ab.value, both.value), "combined states read as one with the elements of both", a, b, both)
    _demand(encode(ab) == encode(_combined(bottom, both)), "combine gives the state of the elements of both", a, b)
    _demand(encode(ab) == encode(ba), "combine is commutative", a, b)
    _demand(encode(every) == encode(_combined(a, _combined(b, c))), "combine is associative", a, b, c)
    _demand(encode(every) == encode(_combined(whole, bottom)), "bottom is the unit of combine", whole, every)
    _demand(data == [encode(part) for part in parts], "combine leaves the other as it was, also later", a, b, c)
    back = decode(encode(every), bottom)
    _demand(back == every and _same(back.value, whole.value), "a combined state survives the wire", every, whole)


def _elements_of(script: Sequence[Step], actors: Sequence[int]) -> list[tuple[Any, int]]:
    """The elements of a script's inserts, each with its actor."""
    found = [(what if verb == "insert_many" else [what], at) for verb, at, what in script if verb != "merge"]
    return [(element, actors[at]) for elements, at in found for element in elements]


def _combined(a: AnyLattice, b: AnyLattice) -> AnyLattice:
    """A new state; bottom takes what is combined first, so that neither is changed."""
    made = a.bottom()
    made.combine(a)
    made.combine(b)
    return made


def check_wire(state: AnyLattice, where: int, what: int) -> None:
    """A damaged wire is refused with ``DecodeError``, or is one that some value writes, or wrote in other releases."""
    damaged = copy.deepcopy(state.to_wire())
    damaged = _damage(damaged, where, what)
    try:
        taken = state.from_wire(copy.deepcopy(damaged))
    except DecodeError:
        return
    except (*REFUSALS, AttributeError, ArithmeticError) as error:
        raise LawBroken(f"{state.tag}: from_wire raises only DecodeError, not {error!r}: {damaged!r}") from error
    written = [_exact(taken.to_wire()), _exact(taken.former_wire())]
    _demand(_exact(damaged) in written, f"no other wire is taken: {damaged!r}", taken)


def _damage(wire: Any, where: int, what: int) -> Any:
    """The wire with one place replaced, dropped, repeated or swapped."""
    places = list(_places(wire))
    if not places:
        return _JUNK[what % len(_JUNK)]
    parent, index = places[where % len(places)]
    match what % 4:
        case 0:
            del parent[index]
        case 1:
            parent.insert(index, copy.deepcopy(parent[index]))
        case 2:
            parent[index], parent[-1] = parent[-1], parent[index]
        case _:
            parent[index] = copy.deepcopy(_JUNK[what // 4 % len(_JUNK)])
    return wire


def _places(wire: Any) -> Iterator[tuple[list[Any], int]]:
    if type(wire) is list:
        for index, part in enumerate(wire):
            yield wire, index
            yield from _places(part)


def _exact(wire: Any) -> Any:
    """A form in which Python's equality is exact."""
    return [_exact(part) for part in wire] if type(wire) is list else (type(wire).__name__, wire)


def columns_of(elements: list[Any]) -> Iterator[Any]:
    """The forms in which these elements can be given to ``insert_many``."""
    yield list(elements)
    column = _column(elements)
    if column is not None:
        assert height(column) == len(elements) and len(rows_of(column)) == len(elements)
        yield column


def _column(elements: list[Any]) -> Any:
    """A numpy column, or a tuple of columns, or None where a list is the only form."""
    kinds = {type(element) for element in elements}
    if kinds == {int} and all(-(2**63) <= element < 2**63 for element in elements):
        return np.array(elements, np.int64)
    if kinds == {bool} or kinds == {float}:
        return np.array(elements)
    if kinds == {Decimal} and all(element.is_finite() for element in elements):
        scaled = _Scaled(elements)
        return scaled if all(-(2**63) <= mantissa < 2**63 for mantissa, _ in scaled.pairs()) else None
    if kinds == {tuple} and elements[0] and {len(element) for element in elements} == {len(elements[0])}:
        parts = [list(part) for part in zip(*elements, strict=True)]
        columns = [_column(part) for part in parts]
        return tuple(part if column is None else column for part, column in zip(parts, columns, strict=True))
    return None


class _Scaled(list[Decimal]):
    """Decimals that return their mantissas and exponents."""

    def pairs(self) -> list[tuple[int, int]]:
        """By row."""
        found: list[tuple[int, int]] = []
        for number in self:
            exponent = number.as_tuple().exponent
            assert isinstance(exponent, int), "it is finite"
            found.append((int(EXACT.scaleb(number, -exponent)), exponent))
        return found

    def scaled(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """As columns."""
        mantissas, exponents = zip(*self.pairs(), strict=True)
        return np.array(mantissas, np.int64), np.array(exponents, np.int64)


def _joined(a: AnyLattice, b: AnyLattice) -> AnyLattice:
    joined = a.copy()
    joined.merge(b)
    return joined


def _same(a: object, b: object) -> bool:
    """Whether two values that were read are equal. Two NaNs are here: infinities of both signs add up to one."""
    return a == b or repr(a) == repr(b)


def _demand(holds: bool, law: str, *states: AnyLattice) -> None:
    if not holds:
        shown = "; ".join(f"{state!r} = {state.to_wire()!r}" for state in states)
        raise LawBroken(f"{states[0].tag}: {law}. States: {shown}")
