"""The partitions of a job over those of its topics (holon/input_layout.py)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import Job, Json, Source
from holon.errors import JobError
from holon.input_layout import InputLayout


def sources(*topics: str, **settings: Any) -> list[Source[Any]]:
    return [Source(topic, Json(dict[str, Any]), **settings) for topic in topics]


def made(source: Any, **settings: Any) -> Job[Any]:
    return Job("job", source, lambda event, ctx: ctx.emit(event), output="out", **settings)


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_partitions_are_numbered_densely_in_the_order_of_the_sources(counts: list[int]) -> None:
    topics = [f"t{number}" for number in range(len(counts))]
    layout = InputLayout(sources(*topics), counts)
    wanted = [(topic, number) for topic, count in zip(topics, counts, strict=True) for number in range(count)]
    assert layout.places() == wanted and layout.partitions == len(wanted)
    assert [layout.number_of(*place) for place in wanted] == list(range(len(wanted)))
    assert [each.source.topic for each in layout] == [topic for topic, _ in wanted]
    assert layout.topics == dict(zip(topics, counts, strict=True))


def test_a_place_that_is_no_partition_has_no_number() -> None:
    layout = InputLayout(sources("a", "b"), [2, 1])
    assert [layout.number_of(*place) for place in (("a", 2), ("b", 1), ("b", -1), ("c", 0))] == [None] * 4


def test_people_are_shown_the_place_where_a_number_alone_does_not_tell() -> None:
    assert InputLayout(sources("a"), [2]).name(1) == "1"
    assert InputLayout(sources("a", "b"), [1, 2]).name(2) == "2 (b[1])"


def test_a_window_waits_for_ever_if_one_of_the_partitions_may() -> None:
    layout = InputLayout([*sources("a", idle_timeout_ms=5), *sources("b", idle_timeout_ms=9), *sources("c")], [1, 1, 1])
    assert [layout.idle_timeout_ms(some) for some in ([0], [0, 1], [1, 2], [])] == [5, 9, None, None]


def test_one_source_is_described_as_it_always_was_and_several_are_numbered() -> None:
    (only,) = sources("a")
    assert made(only).fingerprint() == made([only]).fingerprint() and only.describe() in made(only).describe()
    lines = made(sources("a", "b")).describe().splitlines()
    assert [line.split(" json")[0] for line in lines[1:3]] == ["1. source a", "2. source b"]
    assert made(sources("a", "b")).fingerprint() != made(sources("b", "a")).fingerprint()


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ([], "a Source or a list of them"),
        ("events", "a Source or a list of them"),
        (sources("a", "b", "a"), "a is the topic of two sources"),
        (sources("a", "out"), "topics of their own, also"),
    ],
)
def test_a_contradictory_input_is_refused(source: Any, problem: str) -> None:
    with pytest.raises(JobError, match=problem):
        made(source)
