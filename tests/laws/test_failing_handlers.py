"""A handler that raises somewhere among what it does leaves what one leaves that writes the letter and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import WCRDT, Context, Local, Output, ProcessingFunction, Tumbling, Window, on_window
from holon.outputs.identity import OutputId
from holon.testing import JobTestDriver
from holon.tracks import window_track
from tests.unit.holon_jobs import Event, job
from wcrdt import GCounter, GSet, MapOf

ACTS = ("emit", "aside", "unstable", "letter", "count", "map", "set", "early", "append", "assign", "stage", "raise")
Script = list[tuple[str, int]]
WINDOWS = 8


def acting(scripts: list[Script], stage: int | None, *, forewarned: bool) -> type[ProcessingFunction[Event]]:
    """Handlers do what the script of their window says; those that are forewarned know whether it raises.

    ``stage`` of Locals: with None, windows of all stages are answered one by one.
    """

    class Acting(ProcessingFunction[Event]):
        windows = WCRDT(GCounter(), Tumbling(10))
        counts = WCRDT(GCounter(), Tumbling(20), stage=1)
        by_key = WCRDT(MapOf(GCounter()), Tumbling(30), stage=1)
        members = WCRDT(GSet(), Tumbling(40), stage=1)
        of_counts = WCRDT(GCounter(), Tumbling(40), stage=2)
        listed = Local[list[int]]([], track="window", stage=stage)
        last = Local(0, track="window", stage=stage)
        of_first = Local(0, track="window", stage=0)

        def process(self, event: Event, ctx: Context) -> None:
            self.windows.insert(1, event["ts"])

        @on_window(windows)
        def first(self, window: Window, ctx: Context) -> None:
            self.act("first", scripts[window.start_ms // 10 % len(scripts)], window, ctx)

        @on_window(counts)
        def second(self, window: Window, ctx: Context) -> None:
            self.act("second", scripts[(window.start_ms // 10 + 1) % len(scripts)], window, ctx)

        @on_window(of_counts)
        async def third(self, window: Window, ctx: Context) -> None:
            ctx.emit([window.end_ms, await self.of_counts.window_value(window)])

        @on_window(by_key, scope="global")
        async def keys(self, window: Window, ctx: Context) -> None:
            ctx.emit([window.end_ms, sorted((await self.by_key.window_value(window)).items())])

        @on_window(members, scope="global")
        async def all_members(self, window: Window, ctx: Context) -> None:
            ctx.emit([window.end_ms, sorted(await self.members.window_value(window))])

        def act(self, name: str, script: Script, window: Window, ctx: Context) -> None:
            if forewarned and any(act == "raise" for act, _ in script):
                ctx.emit_dead(None, reason="the handler raised ArithmeticError: as written", step=name)
                return
            further = self.counts if name == "first" else self.of_counts
            acts: dict[str, Callable[[int], object]] = {
                "aside": lambda n: ctx.emit(n, output="aside", key=str(n).encode()),
                "unstable": ctx.emit_nondeterministic,
                "letter": lambda n: ctx.emit_dead(n, reason="unfit"),
                "count": lambda n: further.insert(n, window.start_ms + 20),
                "early": lambda n: further.insert(n, window.start_ms - 100),
                "emit": lambda n: ctx.emit([name, window.end_ms, n]),
                "raise": fail,
            }
            if name == "first" or stage is None:
                acts["emit"] = lambda n: ctx.emit([name, window.end_ms, n, self.last.value, list(self.listed.value)])
                acts["append"] = lambda n: self.listed.value.append(n)
                acts["assign"] = lambda n: setattr(self.last, "value", n)
            if name == "first":
                acts["map"] = lambda n: self.by_key.insert((n % 3, n), window.start_ms)
                acts["set"] = lambda n: self.members.insert(n, window.start_ms)
                acts["stage"] = lambda n: setattr(self.of_first, "value", self.of_first.value + n)
            for act, number in script:
                acts.get(act, str)(number)

    return Acting


def fail(number: int) -> None:
    raise ArithmeticError("as written")


def driver(function: type[ProcessingFunction[Event]]) -> JobTestDriver:
    outputs = {"aside": Output("aside", route_by_key=True)}
    return JobTestDriver(job(function, side_outputs=outputs, on_error="dead-letter"), 2)


@pytest.fixture(autouse=True)
def without_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their letters are compared too, and those of the forewarned have none."""
    monkeypatch.setattr(window_track, "own_frames", lambda error: "")


scripts_of_windows = st.lists(
    st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 9)), max_size=6), min_size=1, max_size=WINDOWS
)


@pytest.mark.parametrize("stage", [None, 0])
@given(scripts_of_windows, st.lists(st.tuples(st.integers(0, 1), st.integers(0, 10 * WINDOWS)), max_size=12), st.data())
def test_nothing_else_stays_of_it(
    stage: int | None, scripts: list[Script], records: list[tuple[int, int]], data: Any
) -> None:
    records = sorted(records, key=lambda record: record[1])
    fails_at = data.draw(st.integers(0, len(records)))
    tests = [driver(acting(scripts, stage, forewarned=forewarned)) for forewarned in (False, True)]
    for number, (partition, ts) in enumerate(records):
        for test in tests:
            if number == fails_at:
                test.checkpoint(partition)
            test.feed(partition, {"ts": ts})
            if number == fails_at:
                test.fail(partition)
        assert snapshots(tests[0]) == snapshots(tests[1])
    for test in tests:
        test.finish()
    assert snapshots(tests[0]) == snapshots(tests[1])
    assert emitted(tests[0]) == emitted(tests[1])
    assert tests[0].counts == tests[1].counts


def emitted(test: JobTestDriver) -> list[tuple[str, int, OutputId | None, bytes]]:
    """By output partition, each in its order."""
    return sorted(test.take_emitted(), key=lambda each: each[:2])


def snapshots(test: JobTestDriver) -> list[bytes]:
    return [task.snapshot().to_bytes() for task in test.tasks]
