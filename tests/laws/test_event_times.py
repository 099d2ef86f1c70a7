"""Law: the times of many events are those of each, whatever a run has besides, with the loops and without them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holon.columnar.loops import install
from holon.time.event_time import times_of_events
from holon.time.units import MAX_TS_MS, NoTime, to_ms
from nodes.compiled import loading as compiled

INTS = st.one_of(st.integers(0, 2**41), st.integers(-(2**70), 2**70))
FLOATS = st.one_of(st.floats(0, 2e9), st.integers(0, 2**32).map(lambda n: n / 2000), st.floats())
ZONES = st.sampled_from([UTC, UTC, UTC, None, timezone(timedelta(hours=2))])
TIMES = st.builds(
    lambda at, zone: at.replace(tzinfo=zone), st.datetimes(datetime(1600, 1, 1), datetime(2300, 1, 1)), ZONES
)
TEXTS = st.one_of(TIMES.map(datetime.isoformat), TIMES.map(str), st.sampled_from(["", "then", "2025-13-01", "\ud800"]))
ODD = st.one_of(st.none(), st.booleans(), st.binary(max_size=2))
BY_UNIT = {"s": (INTS, FLOATS), "us": (INTS, FLOATS), "ns": (INTS, FLOATS), "ms": (INTS, FLOATS), None: (INTS, FLOATS)}
VALUES: dict[str | None, tuple[st.SearchStrategy[Any], ...]] = {**BY_UNIT, "iso": (TEXTS,), "datetime": (TIMES,)}


@pytest.fixture(scope="module", params=["loops", "no loops"], autouse=True)
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "loops":
        assert compiled.ensure()
        install(compiled.loops())
    yield
    install(None)


@st.composite
def runs(draw: st.DrawFn) -> tuple[str | None, list[Any]]:
    unit = draw(st.sampled_from(list(VALUES)))
    values = draw(st.lists(draw(st.sampled_from(VALUES[unit])), min_size=1, max_size=40))
    if draw(st.booleans()):
        values.insert(draw(st.integers(0, len(values))), draw(st.one_of(ODD, INTS, FLOATS, TEXTS, TIMES)))
    return unit, values


def each_alone(values: list[Any], unit: str | None) -> tuple[list[int], list[int]]:
    """Times, and the places of those that have none."""
    times, bad = [], []
    for place, value in enumerate(values):
        try:
            ts = to_ms(value, unit)
        except NoTime:
            ts = MAX_TS_MS
        times.append(ts if -MAX_TS_MS < ts < MAX_TS_MS else 0)
        bad += [] if -MAX_TS_MS < ts < MAX_TS_MS else [place]
    return times, bad


@given(run=runs())
@example(run=("datetime", [datetime(2026, 1, 1, tzinfo=zone) for zone in (None, timezone(timedelta(hours=2)))] * 9))
@example(run=("datetime", [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)]))
@example(run=("s", [1.5, float("nan"), 2.5]))
@example(run=("s", [1, 2**53, 2]))
@example(run=("iso", ["2026-01-01", "then"] * 9))
def test_times_of_a_run_are_those_of_each_value(run: tuple[str | None, list[Any]]) -> None:
    unit, values = run
    times, bad = times_of_events(lambda value: value, values, unit)
    assert (times.tolist(), [place for place, _ in bad]) == each_alone(values, unit)
