"""The requests of a simulated fleet's clients, and what their replies have to be.

``Counters`` are all that older seeds have. ``Books`` have groups of keys of which one is hot, scans of a group, calls
between keys, deletions, calls outside, and values of some hundred bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from random import Random
from typing import Any
from zlib import crc32

from nodes.sim.case import EIGHTEENTH_SEED, SEVENTEENTH_SEED
from tests.sim.outside_world import TIMEOUT_S, OutsideWorld
from tests.unit.txn_stage import counters, counters_v2
from transactional import Context, Operator, Program
from transactional.requests.requests import WireRequest

RequestNow = Callable[[WireRequest], Any]
"""Gives the outcome of a request, which the fleet answers at once."""
JOB = "fleet"
SHARE = 0.75
"""Of the new seeds."""
MOST_PAD = 300
ENDED = "ExternalTimeout", "KeyError"
"""Kinds of what a transaction may be aborted with that calls outside."""
RETRIED = 6
HOP_ODDS = 0.0, 0.2, 0.7
"""Of a request that increments, that its count decides which other key it calls: so a rerun may be postponed."""


class Counters:
    """Increments of keys, each acknowledged with what the count is then. ``met``: requests by their functions."""

    def __init__(self, draw: Random, operators: Sequence[str], keys: Sequence[str]) -> None:
        self.draw = draw
        self.keys = keys
        self.operator_of = dict(zip(keys, cycle(operators), strict=False))
        self.counts: dict[str, list[int]] = {}  # key -> what its acknowledgements said
        self.met: Counter[str] = Counter()

    def next(self, name: str) -> WireRequest:
        """A request with this id."""
        key = self.draw.choice(self.keys)
        return WireRequest(name, self.operator_of[key], key, "add", [1])

    def sent(self, request: WireRequest) -> None:
        """So it was sent for the first time."""

    def answered(self, request: WireRequest, outcome: Any) -> None:
        """Its reply; fails where it has to be another one."""
        assert isinstance(outcome, int), f"request {request.id} is answered with {outcome!r}"
        self.acknowledge(request.key, outcome)

    def acknowledge(self, key: str, count: int) -> None:
        """A key was told to be that many."""
        self.counts.setdefault(key, []).append(count)

    def check(self, now: RequestNow) -> None:
        """Of a fleet without faults: acknowledged requests have taken effect, once."""
        for key in self.keys:
            self.check_key(key, now(WireRequest("", self.operator_of[key], key, "add", [0])))

    def check_key(self, key: str, found: int) -> None:
        """It is as often as acknowledgements say."""
        said = sorted(self.counts.get(key, []))
        assert said == list(range(1, len(said) + 1)), f"counter {key} was acknowledged as {said}"
        assert found == len(said), f"counter {key} was acknowledged at {len(said)}, and is {found}"


class Books(Counters):
    """Of one seed, with a stream of their own."""

    def __init__(self, seed: int, operators: Sequence[str], count: int, outside: OutsideWorld) -> None:
        draw = Random(seed ^ 0xB00C5)
        groups = draw.choice([1, 2, 3, 16])
        super().__init__(draw, operators, [f"g{number % groups}/k{number // groups}" for number in range(count)])
        self._hot_odds = draw.choice([0.0, 0.5, 0.9])
        self._take_odds = draw.choice([0.0, 0.0, 0.05])
        self._via_odds = draw.choice([0.0, 0.1, 0.4])
        self._total_odds = draw.choice([0.0, 0.03, 0.1])
        self._hop_odds = Random(seed ^ 0x40B5).choice(HOP_ODDS) if seed >= EIGHTEENTH_SEED else 0.0
        self._outside = outside
        self._hot = [key for key in self.keys if key.startswith("g0/")]
        self._taken: dict[str, list[int]] = {}
        self._added: Counter[tuple[str, str]] = Counter()  # so often increments of a group were requested
        self._least: dict[str, int] = {}  # of a total that was requested
        self._done: list[tuple[WireRequest, str]] = []

    def next(self, name: str) -> WireRequest:
        """As ``Counters.next``."""
        draw = self.draw
        key = draw.choice(self._hot if draw.random() < self._hot_odds else self.keys)
        operator, asks = self.operator_of[key], draw.random() < self._outside.odds
        add = "ask" if asks else "add"
        if draw.random() < self._total_odds:
            self._least[name] = self._acknowledged(operator, key)
            return WireRequest(name, operator, key, "total", [])
        if draw.random() < self._take_odds:
            return WireRequest(name, operator, key, "take", [])
        self._added[operator, _group(key)] += 1
        if self._hop_odds and draw.random() < self._hop_odds:
            return WireRequest(name, operator, key, "hop", [self._targets(key)])
        if draw.random() < self._via_odds and (other := draw.choice(self.keys)) != key:
            self._added[self.operator_of[other], _group(other)] += 1
            return WireRequest(name, operator, key, "via", [self.operator_of[other], other, add])
        return WireRequest(name, operator, key, add, [1])

    def _targets(self, key: str) -> list[list[str]]:
        """Some others, of which the count decides; increments of all are requested, as far as a total may tell."""
        others = [each for each in self.draw.sample(self.keys, min(8, len(self.keys))) if each != key]
        for each in others:
            self._added[self.operator_of[each], _group(each)] += 1
        return [[self.operator_of[each], each] for each in others]

    def answered(self, request: WireRequest, outcome: Any) -> None:
        """As ``Counters.answered``."""
        self.met[request.function] += 1
        self._done.append((request, _shown(outcome)))
        calls = request.function == "ask" or "ask" in (request.args or ())
        if calls and getattr(outcome, "kind", None) in ENDED:
            self.met["ended"] += 1
            return
        key = request.key
        match request.function:
            case "take":
                self._taken.setdefault(key, []).append(outcome)
            case "total":
                least, most = self._least.pop(request.id), self._added[request.operator, _group(key)]
                least = 0 if self._take_odds else least
                assert least <= outcome <= most, f"total of {key} is {outcome}, not of {least} to {most}"
            case "via":
                super().answered(request, outcome[0])
                self._told(request, request.args[1], outcome[1])
            case "hop":
                super().answered(request, outcome[0])
                if outcome[1]:
                    assert outcome[1] in [target for _, target in request.args[0]], f"{request.id}: {outcome}"
                    super().acknowledge(*outcome[1:])
            case _:
                self._told(request, key, outcome)

    def _told(self, request: WireRequest, key: str, outcome: Any) -> None:
        if isinstance(outcome, list):
            outcome, (called, number) = outcome
            assert called.startswith(f"{JOB}:{request.id}:"), f"{request.id} is answered for {called}"
            assert number in self._outside.answers[called], f"{called} was never answered with {number}"
        assert isinstance(outcome, int), f"request {request.id} is answered with {outcome!r}"
        self.acknowledge(key, outcome)

    def check(self, now: RequestNow) -> None:
        """As ``Counters.check``; a group is the sum of its keys, and requests that come again get the same replies."""
        found: Counter[tuple[str, str]] = Counter()
        for key in self.keys:
            operator = self.operator_of[key]
            count = now(WireRequest("", operator, key, "add", [0]))
            self.check_key(key, count)
            found[operator, _group(key)] += count
        for (operator, group), count in sorted(found.items()):
            total = now(WireRequest("", operator, f"{group}/", "total", []))
            assert total == count, f"the total of {operator} {group} is {total}, and its keys are {count}"
        for request, outcome in self.draw.sample(self._done, min(RETRIED, len(self._done))):
            again = _shown(now(request))
            assert again == outcome, f"request {request.id} was answered with {outcome}, and then with {again}"

    def check_key(self, key: str, found: int) -> None:
        """Between two deletions counts go up by one."""
        said, parts = sorted(self.counts.get(key, [])), [*self._taken.get(key, []), found]
        meant = sorted(number for part in parts for number in range(1, part + 1))
        assert said == meant, f"counter {key} was acknowledged as {said}, was taken as {parts[:-1]}, and is {found}"

    def _acknowledged(self, operator: str, key: str) -> int:
        group = _group(key)
        keys = (each for each in self.keys if _group(each) == group and self.operator_of[each] == operator)
        return sum(len(self.counts.get(each, ())) for each in keys)


def is_booked(seed: int) -> bool:
    """Whether the fleet of this seed has ``Books``."""
    return seed >= SEVENTEENTH_SEED and Random(seed ^ 0xB00C).random() < SHARE


def versions(seed: int, partitions: int, operators: Sequence[str], outside: OutsideWorld) -> dict[str, Program]:
    """Of the program, by code."""
    if not is_booked(seed):
        return {"1": counters(JOB, partitions, operators), "2": counters_v2(JOB, partitions, operators)}
    hops = seed >= EIGHTEENTH_SEED
    return {f"{number}": _program(partitions, operators, outside, number, hops=hops) for number in (1, 2)}


def check_replies(outcomes: Iterable[tuple[str, object]]) -> None:
    """All replies of one id are alike, from whatever node they came."""
    known = dict[str, object]()
    for name, outcome in outcomes:
        assert known.setdefault(name, outcome) == outcome, f"{name} has the replies {known[name]!r} and {outcome!r}"


def _program(partitions: int, operators: Sequence[str], outside: OutsideWorld, version: int, *, hops: bool) -> Program:
    made = [_operator(name, partitions, version, hops=hops) for name in operators]
    return Program(JOB, made, externals=[outside.charge], version=version)


def _operator(name: str, partitions: int, version: int, *, hops: bool) -> Operator:
    """Its state is a count, the last answer from outside, and a text: a list in version 1, and in 2 by names."""

    def shaped(count: int, told: int, pad: str) -> Any:
        return [count, told, pad] if version == 1 else {"count": count, "told": told, "pad": pad}

    def parts(value: Any) -> list[Any]:
        return list(value.values()) if isinstance(value, dict) else value

    def added(ctx: Context, amount: int, told: int | None = None) -> int:
        count, before, _ = parts(ctx.get(shaped(0, 0, "")))
        pad = ctx.key * 40
        ctx.put(shaped(count + amount, before if told is None else told, pad[: crc32(ctx.key.encode()) % MOST_PAD]))
        return count + amount

    async def add(ctx: Context, amount: int) -> int:
        return added(ctx, amount)

    async def ask(ctx: Context, amount: int) -> list[Any]:
        key, number = await ctx.external("charge", [amount], timeout_s=TIMEOUT_S)
        return [added(ctx, amount, number), [key, number]]

    async def via(ctx: Context, operator: str, key: str, function: str) -> list[Any]:
        return [added(ctx, 1), await ctx.call(operator, key, function, [1])]

    async def hop(ctx: Context, targets: list[list[str]]) -> list[Any]:
        count = added(ctx, 1)
        if not targets:
            return [count, "", 0]
        operator, key = targets[count % len(targets)]
        return [count, key, await ctx.call(operator, key, "add", [1])]

    async def take(ctx: Context) -> int:
        count = parts(ctx.get(shaped(0, 0, "")))[0]
        ctx.delete()
        return count

    async def total(ctx: Context) -> int:
        return sum(parts(value)[0] for _, value in ctx.scan(f"{_group(ctx.key)}/"))

    operator = Operator(name, partitions=partitions, colocate="/", upgrade=lambda value, before: shaped(*parts(value)))
    for function in (add, ask, via, take, total, *((hop,) if hops else ())):
        operator.register(function)
    return operator


def _group(key: str) -> str:
    return key.split("/", 1)[0]


def _shown(outcome: Any) -> str:
    kind = getattr(outcome, "kind", None)
    return repr(outcome) if kind is None else f"{kind} {outcome.arguments!r}"
