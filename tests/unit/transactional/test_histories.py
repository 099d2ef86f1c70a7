"""The checker of list-append histories: what it must find, and agreement with all orders tried one by one."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from transactional.workloads.histories import Append, ListRead, Observed, Step, anomalies


def transaction(name: str, *steps: Step, at: tuple[float, float] = (0, 100), committed: bool | None = True) -> Observed:
    """All overlap unless they say when."""
    return Observed(name, steps, *at, committed)


def a(key: str, value: int) -> Append:
    return Append(key, value)


def r(key: str, *values: int) -> ListRead:
    return ListRead(key, values)


LAST = (200.0, 201.0)
BAD = {
    "G0": [
        transaction("t1", a("x", 1), a("y", 1)),
        transaction("t2", a("x", 2), a("y", 2)),
        transaction("last", r("x", 1, 2), r("y", 2, 1), at=LAST),
    ],
    "G1a": [transaction("t1", a("x", 1), committed=False), transaction("t2", r("x", 1))],
    "G1b": [transaction("t1", a("x", 1), a("x", 2)), transaction("t2", r("x", 1)), transaction("t3", r("x", 1, 2))],
    "G1c": [transaction("t1", a("x", 1), r("y", 2)), transaction("t2", a("y", 2), r("x", 1))],
    "G-single": [
        transaction("t1", a("x", 1), a("y", 1)),
        transaction("t2", r("x", 1), r("y")),
        transaction("last", r("x", 1), r("y", 1), at=LAST),
    ],
    "G2": [
        transaction("t1", r("x"), a("y", 1)),
        transaction("t2", r("y"), a("x", 2)),
        transaction("last", r("x", 2), r("y", 1), at=LAST),
    ],
    "G0-realtime": [
        transaction("t1", a("x", 1), at=(0, 1)),
        transaction("t2", a("x", 2), at=(2, 3)),
        transaction("last", r("x", 2, 1), at=(2.5, 201)),
    ],
    "G1c-realtime": [transaction("t1", r("x", 2), at=(0, 1)), transaction("t2", a("x", 2), at=(2, 3))],
    "G-single-realtime": [
        transaction("t1", a("x", 1), at=(0, 1)),
        transaction("t2", r("x"), at=(2, 3)),
        transaction("last", r("x", 1), at=LAST),
    ],
    "G2-realtime": [
        transaction("t1", r("x"), at=(4, 5)),
        transaction("t2", a("x", 1), r("y"), at=(0, 6)),
        transaction("t3", a("y", 1), at=(2, 3)),
        transaction("last", r("x", 1), r("y", 1), at=LAST),
    ],
    "internal": [transaction("t1", a("x", 1), r("x"))],
    "incompatible order": [transaction("t1", r("x", 1)), transaction("t2", r("x", 2, 1)), transaction("t3", a("x", 1))],
    "duplicate": [transaction("t1", a("x", 1)), transaction("t2", r("x", 1, 1))],
    "duplicate append": [transaction("t1", a("x", 1)), transaction("t2", a("x", 1))],
    "unknown value": [transaction("t1", r("x", 5))],
}


@pytest.mark.parametrize("kind", sorted(BAD))
def test_known_bad_histories_are_named(kind: str) -> None:
    found = {each.kind for each in anomalies(BAD[kind])}
    assert kind in found
    if kind.startswith("G"):
        assert found - {kind} == ({"G-single"} if kind == "G1b" else set())


def test_an_acknowledged_append_that_nobody_reads_later_is_lost() -> None:
    history = [transaction("t1", a("x", 1), at=(0, 1)), transaction("last", r("x"), at=LAST)]
    assert [each.kind for each in anomalies(history)] == ["G-single-realtime"]


def test_a_cycle_is_told_edge_by_edge() -> None:
    (found,) = anomalies(BAD["G1c"])
    assert found.what in ("t1 -wr-> t2 -wr-> t1", "t2 -wr-> t1 -wr-> t2")


def test_what_had_no_reply_counts_if_it_was_seen() -> None:
    lost = transaction("t1", a("x", 1), at=(0, float("inf")), committed=None)
    assert anomalies([lost, transaction("last", r("x"), at=LAST)]) == []
    assert anomalies([lost, transaction("last", r("x", 1), at=LAST)]) == []


def drawn(draw: Random, spoil: bool) -> list[Observed]:
    """A serial run with overlapping times, read at the end; spoilt: one read forgets or one time moves."""
    lists: dict[str, list[int]] = {"x": [], "y": []}
    history, now = [], 0.0
    for n in range(draw.randrange(2, 6)):
        steps: list[Step] = []
        for m in range(draw.randrange(1, 4)):
            key = draw.choice("xy")
            if draw.random() < 0.5:
                lists[key].append(10 * n + m)
                steps.append(Append(key, 10 * n + m))
            else:
                steps.append(ListRead(key, tuple(lists[key])))
        now += 1
        history.append(transaction(f"t{n}", *steps, at=(now - draw.random() * 3, now + draw.random() * 3)))
    last = transaction("last", *(ListRead(key, tuple(lists[key])) for key in "xy"), at=(100, 101))
    if spoil:
        n = draw.randrange(len(history))
        each = history[n]
        if draw.random() < 0.7:
            steps = [ListRead(s.key, s.values[:-1]) if isinstance(s, ListRead) else s for s in each.steps]
            history[n] = transaction(each.name, *steps, at=(each.start, each.end))
        else:
            moved = draw.choice([-4.0, 4.0])
            history[n] = transaction(each.name, *each.steps, at=(each.start + moved, each.end + moved))
    draw.shuffle(history)
    return [*history, last]


def is_serial(order: tuple[Observed, ...]) -> bool:
    lists: dict[str, tuple[int, ...]] = {}
    for n, each in enumerate(order):
        if any(later.end < each.start for later in order[n + 1 :]):
            return False
        for step in each.steps:
            if isinstance(step, Append):
                lists[step.key] = (*lists.get(step.key, ()), step.value)
            elif lists.get(step.key, ()) != step.values:
                return False
    return True


@pytest.mark.slow
def test_what_the_checker_says_is_what_all_orders_say() -> None:
    verdicts = []
    for seed in range(1500):
        draw = Random(seed)
        history = drawn(draw, spoil=bool(seed % 2))
        serializable = any(is_serial(order) for order in permutations(history))
        found = anomalies(history)
        assert (not found) == serializable, f"seed {seed}: {found}, {history}"
        verdicts.append(serializable)
    assert 200 < sum(verdicts) < 1400


@pytest.mark.slow
def test_long_histories_take_little_time() -> None:
    lists: dict[str, list[int]] = {}
    history = []
    for n in range(5_000):
        key = f"l{n % 50}"
        lists.setdefault(key, []).append(n)
        steps = [Append(key, n), ListRead(key, tuple(lists[key]))]
        history.append(transaction(f"t{n}", *steps, at=(n, n + 5)))
    assert anomalies(history) == []
