"""Where a function fails by columns for a row, and not where it is called, its own result is taken, with a warning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holon import Json, Tumbling
from holon.dataflow import Flow, steps
from holon.dataflow.errors import FollowedWrongly
from holon.dataflow.expressions import Constant, Leaf

pytestmark = pytest.mark.filterwarnings("default::holon.dataflow.errors.FollowedWrongly")


class Event(msgspec.Struct):
    at: int
    n: int
    tags: list[str] = []


class Half(msgspec.Struct):
    n: int
    half: float


RECORDS = [{"at": 1, "n": n, "tags": ["a"] * n} for n in (0, 2, 3)]


def _is_constant(decision: Any) -> bool:
    parts = decision.result.values() if isinstance(getattr(decision, "result", None), dict) else [decision]
    return all(isinstance(one, Leaf) and isinstance(one.result, Constant) for one in parts)


def _failing(work: Callable[..., Any]) -> Callable[..., Any]:
    """It fails by columns, as a function would that is followed wrongly; not of what was computed before."""

    def fails(decision: Any, *given: Any) -> Any:
        if not _is_constant(decision) and not getattr(decision, "notes", None):
            raise AttributeError("no row has it")
        return work(decision, *given)

    return fails


def collected(flow: Flow, records: list[dict[str, Any]] = RECORDS) -> list[Any]:
    return flow.collect({"events": records})


def source(name: str) -> tuple[Flow, Any]:
    flow = Flow(name, on_error="dead-letter")
    return flow, flow.source("events", Json(Event), time=lambda e: e.at)


def test_of_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "mapped", _failing(steps.mapped))
    flow, events = source("map")
    events.map(lambda e: Half(e.n, 6 / e.n)).map(lambda half: half.n).sink("out")
    with pytest.warns(FollowedWrongly, match="raised AttributeError.* by columns, and gives a result"):
        found = flow.collect({"events": RECORDS[1:]})
    assert found == [2, 3]


def test_what_fails_itself_is_a_dead_letter_with_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "mapped", _failing(steps.mapped))
    flow, events = source("dead")
    events.map(lambda e: Half(e.n, 6 / e.n)).sink("out")
    letter = "1 dead record, which the results lack.*ZeroDivisionError"
    with pytest.warns(FollowedWrongly), pytest.warns(UserWarning, match=letter):
        found = collected(flow)
    assert [one["half"] for one in found] == [3.0, 2.0]


def test_of_filter_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "column_of", _failing(steps.column_of))
    flow, events = source("key")
    kept = events.filter(lambda e: e.n > 0).key_by(lambda e: e.n % 2).window(Tumbling(10))
    kept.agg(lambda g: (g.key, g.count(), g.sum(lambda e: e.n + 1))).sink("out")
    with pytest.warns(FollowedWrongly):
        assert sorted(collected(flow)) == [[0, 1, 3], [1, 1, 4]]


def test_of_flat_map(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fails_once(decision: Any, *given: Any) -> Any:
        calls.append(1)
        if len(calls) % 2:
            raise AttributeError("no row has it")
        return flat_mapped(decision, *given)

    flat_mapped = steps.flat_mapped
    monkeypatch.setattr(steps, "flat_mapped", fails_once)
    flow, events = source("flat")
    events.flat_map(lambda e: [tag.upper() for tag in e.tags]).sink("out")
    with pytest.warns(FollowedWrongly):
        assert collected(flow, RECORDS[1:2]) == ["A", "A"]
