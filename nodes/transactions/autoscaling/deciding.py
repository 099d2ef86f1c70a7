"""More or fewer nodes and partitions? A pure function of samples, of limits, and of the last decision.

Rules for this file. There is no clock: times are those of samples. Each threshold up has one down that is further away
than the effect of one action (hysteresis). An action that undoes the last one waits for the cool-down; one in the same
direction waits for new samples only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

Kind = Literal["none", "nodes", "split", "repartition"]
BUSY_WISHED = 0.6
"""More nodes are meant to be so busy afterwards."""
BUSY_ENOUGH = 0.5
"""Where nodes are less busy than this, others would not help: requests wait for something else."""
RELIEF = 0.5
"""Lag and p99 are below this part of their limits before anything is taken away."""
PARTITIONS_A_NODE, MANY_A_NODE = 2, 4
"""Merging leaves so many of a node, and begins where there are more than so many: each costs barriers."""
CARRIED_OUT_S = 60.0
"""So long a decision may take to show in samples: a node that starts, or leaves, on a busy machine."""
DIVISIBLE = 0.75
"""Of a partition of which one key has more heat than this part, a split leaves nearly all in one partition."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """``samples``: so many in a row have to agree. ``busy``: shares of time, above and below. Raises ``ValueError``."""

    min_nodes: int
    max_nodes: int
    min_partitions: int
    max_partitions: int
    p99_ms: float
    lag_s: float
    samples: int = 3
    cooldown_s: float = 120.0
    busy_above: float = 0.8
    busy_below: float = 0.5
    skew: float = 2.0

    def __post_init__(self) -> None:
        for what, low, high in (
            ("nodes", self.min_nodes, self.max_nodes),
            ("partitions", self.min_partitions, self.max_partitions),
        ):
            if not 1 <= low <= high:
                raise ValueError(f"{low}:{high} {what}: MIN:MAX with 1 <= MIN <= MAX is expected")
        if self.samples < 1 or min(self.p99_ms, self.lag_s) <= 0 or self.cooldown_s < 0 or self.skew <= 1:
            raise ValueError("at least one sample, limits of time above 0 and a skew above 1 are expected")
        if not 0 < self.busy_below < self.busy_above <= 1:
            raise ValueError(f"busy below {self.busy_below:g} and above {self.busy_above:g}: 0 < below < above <= 1")


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a job at one time. ``settled``: no layout is under way.

    ``busy``: mean of the nodes, None: none has reported. ``p99_ms``: of replies since the sample before, None: there
    were too few. ``lag_s``: age of the oldest request that is in no epoch.
    ``hottest``: the partition with the most work, None: there is none. ``skew``: its work in those of an even share.
    ``hottest_key``: the part of its work that one key has; 0.0 where the skew is too little for it to matter.
    ``coldest``: the partition with the least. ``coldest_part``: its work in those of the hottest. ``skew_by``: work is
    CPU, or heat where that is not known.
    """

    at_ms: int
    nodes: int
    partitions: int
    settled: bool = True
    busy: float | None = None
    p99_ms: float | None = None
    lag_s: float = 0.0
    hottest: int | None = None
    skew: float = 1.0
    hottest_key: float = 0.0
    coldest: int | None = None
    coldest_part: float = 1.0
    skew_by: Literal["cpu", "heat"] = "heat"


class Action(msgspec.Struct, frozen=True):
    """``nodes``, ``partitions``: what is to be there. ``partition`` is split, half of it goes to ``target``.

    ``target`` None: to a new one, or the coldest. ``kind`` "none": ``reason`` says why nothing is done.
    """

    kind: Kind
    nodes: int
    partitions: int
    reason: str
    partition: int | None = None
    target: int | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """An action on the control topic. ``by``: the autoscaler that acts on it. ``sample``: the figures behind it."""

    number: int
    by: str
    at_ms: int
    action: Action
    sample: Sample


def decide(samples: Sequence[Sample], limits: Limits, last: Decision | None = None) -> Action:
    """``samples`` in the order of time; ``last``: the last decision of any autoscaler of the job."""
    fresh = [each for each in samples if last is None or each.at_ms > last.at_ms][-limits.samples :]
    newest = fresh[-1] if fresh else samples[-1] if samples else Sample(at_ms=0, nodes=0, partitions=0)
    if len(fresh) < limits.samples:
        return _none(newest, f"{len(fresh)} samples since the last decision, and {limits.samples} have to agree")
    if not all(each.settled for each in fresh):
        return _none(newest, "a layout is under way")
    if any((each.nodes, each.partitions) != (newest.nodes, newest.partitions) for each in fresh):
        return _none(newest, "nodes or partitions change")
    if last is not None and is_awaited(last, newest):
        return _none(newest, f"decision {last.number} is being carried out")
    action = _outside(newest, limits) or _wanted(fresh, limits)
    if action.kind == "none" or last is None or direction(action, newest) == direction(last.action, last.sample):
        return action
    passed_s = (newest.at_ms - last.at_ms) / 1000
    if passed_s >= limits.cooldown_s:
        return action
    text = f"decision {last.number} was the opposite, and cools down for {limits.cooldown_s - passed_s:.0f} s"
    return _none(newest, f"{action.reason}; {text}")


def direction(action: Action, sample: Sample) -> int:
    """1: it adds to what there is, -1: it takes away."""
    if action.kind == "split":
        return 1
    return 1 if (action.nodes, action.partitions) > (sample.nodes, sample.partitions) else -1


def is_awaited(last: Decision, sample: Sample) -> bool:
    """Whether not all that was decided is there yet, and nothing is lost that was there.

    Else each sample would find the same overload, and ask for the same once more while a node starts.
    """
    action, before = last.action, last.sample
    if sample.at_ms - last.at_ms > 1000 * CARRIED_OUT_S:
        return False
    return _is_between(before.nodes, sample.nodes, action.nodes) or _is_between(
        before.partitions, sample.partitions, action.partitions
    )


def _is_between(before: int, now: int, wanted: int) -> bool:
    """On the way from one to the other, and not there."""
    return before <= now < wanted or wanted < now <= before


def _none(sample: Sample, reason: str) -> Action:
    return Action("none", sample.nodes, sample.partitions, reason)


def _outside(sample: Sample, limits: Limits) -> Action | None:
    """Back within the limits, nodes first."""
    nodes = min(max(sample.nodes, limits.min_nodes), limits.max_nodes)
    if nodes != sample.nodes:
        text = f"{sample.nodes} nodes, and {limits.min_nodes} to {limits.max_nodes} are allowed"
        return Action("nodes", nodes, sample.partitions, text)
    partitions = min(max(sample.partitions, limits.min_partitions), limits.max_partitions)
    if partitions != sample.partitions:
        text = f"{sample.partitions} partitions, and {limits.min_partitions} to {limits.max_partitions} are allowed"
        return Action("repartition", sample.nodes, partitions, text)
    return None


def _wanted(fresh: Sequence[Sample], limits: Limits) -> Action:
    newest = fresh[-1]
    reasons = [_overload(each, limits) for each in fresh]
    if all(reasons):
        return _more(fresh, reasons[-1], limits)
    if any(reasons) or not all(_is_relieved(each, limits) for each in fresh):
        return _none(newest, "neither too much work in all samples nor little in all of them")
    return _less(fresh, limits)


def _overload(sample: Sample, limits: Limits) -> str:
    """Which limit is exceeded; "": none is."""
    if sample.lag_s > limits.lag_s:
        return f"lag of {sample.lag_s:.1f} s, and {limits.lag_s:g} are allowed"
    if sample.p99_ms is not None and sample.p99_ms > limits.p99_ms:
        return f"p99 of {sample.p99_ms:.0f} ms, and {limits.p99_ms:g} are allowed"
    if sample.busy is not None and sample.busy > limits.busy_above:
        return f"nodes busy for {sample.busy:.0%} of the time, and {limits.busy_above:.0%} are allowed"
    return ""


def _is_relieved(sample: Sample, limits: Limits) -> bool:
    quick = sample.p99_ms is None or sample.p99_ms <= RELIEF * limits.p99_ms
    return quick and sample.lag_s <= RELIEF * limits.lag_s and sample.busy is not None


def _more(fresh: Sequence[Sample], reason: str, limits: Limits) -> Action:
    newest = fresh[-1]
    if (split := _split(fresh, reason, limits)) is not None:
        return split
    busy = min((each.busy for each in fresh if each.busy is not None), default=1.0)
    if busy < BUSY_ENOUGH:
        return _none(newest, f"{reason}; nodes are busy for {busy:.0%} of the time, so more would not help")
    if newest.nodes == limits.max_nodes:
        return _none(newest, f"{reason}; there are {limits.max_nodes} nodes, which is the limit")
    if newest.nodes >= newest.partitions:
        partitions = min(limits.max_partitions, PARTITIONS_A_NODE * (newest.nodes + 1))
        if partitions <= newest.partitions:
            return _none(newest, f"{reason}; one more node would have no partition, and their number is at its limit")
        return Action("repartition", newest.nodes, partitions, f"{reason}; one more node would have no partition")
    wished = math.ceil(newest.nodes * busy / BUSY_WISHED)
    nodes = min(max(newest.nodes + 1, wished), 2 * newest.nodes, newest.partitions, limits.max_nodes)
    return Action("nodes", nodes, newest.partitions, reason)


def _split(fresh: Sequence[Sample], reason: str, limits: Limits) -> Action | None:
    """Where the same partition is too hot in all samples, and another one can take half of it."""
    newest = fresh[-1]
    hot = all(each.hottest is not None and each.skew >= limits.skew for each in fresh)
    if not hot or any(each.hottest != newest.hottest or each.hottest_key > DIVISIBLE for each in fresh):
        return None
    text = f"{reason}; partition {newest.hottest} has {newest.skew:.1f} times its share of the work"
    if all(each.coldest_part <= 0.5 and each.coldest == newest.coldest is not None for each in fresh):
        return Action("split", newest.nodes, newest.partitions, text, newest.hottest, newest.coldest)
    if newest.partitions < limits.max_partitions:
        partitions = newest.partitions + 1
        return Action("split", newest.nodes, partitions, text, newest.hottest, newest.partitions)
    return None


def _less(fresh: Sequence[Sample], limits: Limits) -> Action:
    newest = fresh[-1]
    busy = max(each.busy for each in fresh if each.busy is not None)
    if newest.nodes > limits.min_nodes:
        expected = busy * newest.nodes / (newest.nodes - 1)
        if expected <= limits.busy_below:
            text = f"nodes are busy for {busy:.0%} of the time, and would be for {expected:.0%} with one less"
            return Action("nodes", newest.nodes - 1, newest.partitions, text)
    partitions = min(max(limits.min_partitions, PARTITIONS_A_NODE * newest.nodes), limits.max_partitions)
    if newest.partitions > max(MANY_A_NODE * newest.nodes, partitions) and busy <= limits.busy_below:
        text = f"{newest.partitions} partitions on {newest.nodes} nodes that are busy for {busy:.0%} of the time"
        return Action("repartition", newest.nodes, partitions, text)
    return _none(newest, f"nothing is too much; nodes are busy for {busy:.0%} of the time")
