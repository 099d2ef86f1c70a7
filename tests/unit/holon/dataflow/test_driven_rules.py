"""Windows driven by data: what is refused while a flow is built, and what ``explain`` and fingerprints say of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holon import WCRDT, JobError, Json
from holon.dataflow import Between, Change, Count, Flow, FlowError, Stream, Tumbling
from wcrdt import GCounter, ORSet, Sum


class Machine(msgspec.Struct):
    at: int
    name: str
    on: bool
    off: bool


def machines(flow: Flow, **settings: Any) -> Stream[Machine]:
    return flow.source("machines", Json(Machine), time=lambda m: m.at, **settings)


def runs(**settings: Any) -> Between[Machine]:
    return Between(start=lambda m: m.on, end=lambda m: m.off, **settings)


class Own:
    """Windows of one's own, which hold one row each."""

    slice_ms: Any = 1_000
    timeout_ms: Any = 1_000
    marks: Any = (lambda m: m.on,)

    def next(self, state: Any, *marks: Any) -> Change:
        return Change(None)

    def describe(self) -> str:
        return "own"


class NoSlices(Own):
    slice_ms = "1s"


class NoTimeout(Own):
    timeout_ms = 0


class NoFunctions(Own):
    marks = ("on",)


class Endless(Own):
    timeout_ms = None


REFUSED: dict[str, Callable[[Stream[Machine]], Any]] = {
    r"window \(test_driven_rules.py:\d+\): updates='upsert' is for early": lambda s: s.window(
        Count(3), updates="upsert"
    ),
    r"window \(test_driven_rules.py:\d+\): updates is .* got 'all'": lambda s: s.window(
        Count(3),
        early="1s",
        updates="all",  # type: ignore[arg-type]
    ),
    r"window \(test_driven_rules.py:\d+\): slice_ms of .* 1 or more \(ms\), got '1s'": lambda s: s.window(NoSlices()),
    r"slice_ms of Count.* got 0": lambda s: s.window(Count(3), early=0),
    r"timeout_ms of .* got 0": lambda s: s.window(NoTimeout()),
    r"marks of .* are functions of a row": lambda s: s.window(NoFunctions()),
    r"step 2 \(distinct, .*g.fold\(GSet": lambda s: s.window(Count(3)).distinct(lambda m: m.name),
    r"step 2 \(fold, .* g.final": lambda s: s.window(Count(3), early="1s").fold(Sum(), lambda m: m.at),
    r"step 2 \(agg, .*a orset cannot be kept by Count\(3": lambda s: s.window(Count(3)).agg(
        lambda g: g.fold(ORSet(), lambda m: ("add", m.name))
    ),
    r"step 2 \(agg, .* g.retracted": lambda s: s.window(Count(3), early="1s", updates="retract").agg(
        lambda g: g.count()
    ),
    r"step 3 \(top, .* sharded keys, sessions, windows driven by data and early": lambda s: (
        s.window(Count(3)).agg(lambda g: g.count()).top(1, by=lambda n: n)
    ),
    r"step 3 \(agg, .* count them several times": lambda s: (
        s.window(Count(3), early="1s").agg(lambda g: g.count()).window(Count(3)).agg(lambda g: g.count())
    ),
    r"step 2 \(agg, .*columnar=True, but it goes row by row": lambda s: s.window(
        Between(start=lambda m: m.name.encode() == b"a", end=lambda m: m.off, timeout="1h")
    ).agg(lambda g: g.count(), columnar=True),
    r"step 2 \(agg, .* a key is an int": lambda s: s.key_by(lambda m: m.on).window(Count(3)).agg(lambda g: g.count()),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_refused_with_its_line_and_a_way_out(words: str) -> None:
    with pytest.raises(FlowError, match=words):
        REFUSED[words](machines(Flow("driven")))


@pytest.mark.parametrize("windows", [runs(), Endless()])
def test_windows_that_may_never_close_need_a_timeout_or_input_that_ends(windows: Any) -> None:
    flow = Flow("open")
    machines(flow, bounded=True).window(windows).agg(lambda g: g.count()).sink("runs")
    assert flow.job.name == "open"
    flow = Flow("open")
    machines(flow).window(windows).agg(lambda g: g.count()).sink("runs")
    with pytest.raises(FlowError, match=r'step 2 \(agg, test_driven_rules.py:\d+\): .* give timeout="6h", or bounded='):
        flow.job  # noqa: B018


@pytest.mark.parametrize("windows", [Count(3), runs(timeout="6h"), Own()])
def test_others_need_neither(windows: Any) -> None:
    flow = Flow("closed")
    machines(flow).key_by(lambda m: m.name).window(windows).agg(lambda g: (g.key, g.count())).sink("runs")
    assert flow.job.name == "closed"


def test_explain_has_windows_and_slices_and_whether_marks_are_columns() -> None:
    flow = Flow("explained")
    events = machines(flow)
    events.window(runs(timeout="6h")).agg(lambda g: g.count(), columnar=True)
    events.window(Count(3), early="10s", updates="upsert").agg(lambda g: (g.count(), g.timed_out, g.final))
    events.window(Between(start=lambda m: m.name.encode() == b"a", end=lambda m: m.off, timeout=9)).agg(
        lambda g: g.count()
    )
    _, first, second, third = (step.how for step in flow.explain())
    assert first == "columns; windows of Between(timeout=21600000, slice=1000), in slices of 1000 ms"
    assert second.startswith("columns; windows of Count(3") and second.endswith(
        "in slices of 10000 ms with early results as upserts"
    )
    assert third.startswith("row by row: ")


def _version(end: Callable[[Machine], Any], timeout: str = "6h") -> Any:
    flow = Flow("version")
    machines(flow).window(Between[Machine](start=lambda m: m.on, end=end, timeout=timeout)).agg(
        lambda g: g.count()
    ).sink("runs")
    return flow.job.fingerprint()


def test_functions_of_marks_and_durations_are_part_of_the_jobs_version() -> None:
    def off(machine: Machine) -> bool:
        return machine.off

    def other(machine: Machine) -> bool:
        return not machine.off

    assert _version(off) == _version(off)
    assert _version(off) != _version(other)
    assert _version(off) != _version(off, timeout="5h")


@pytest.mark.parametrize("windows", [Count(3), runs(timeout="6h")])
def test_a_state_of_a_processing_function_has_no_such_windows(windows: Any) -> None:
    with pytest.raises(JobError, match=r"follow from their elements.* write a flow .*stream.key_by\(...\).window\("):
        WCRDT(GCounter(), windows, name="count")


def test_results_go_into_windows_of_time() -> None:
    flow = Flow("hours")
    by_name = machines(flow).key_by(lambda m: m.name).window(runs(timeout="6h"))
    found = by_name.agg(lambda g: g.window.end_ms - g.window.start_ms)
    found.window(Tumbling("1h")).agg(lambda g: (g.window.start_ms, g.max(lambda ms: ms))).sink("longest")
    ons = [Machine(1_000, "a", True, False), Machine(9_000, "a", False, True), Machine(9_500, "a", False, True)]
    assert flow.collect({"machines": ons}) == [[0, 8_001]]
