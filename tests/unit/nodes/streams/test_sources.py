"""Jobs of several topics on a log: how they start, what is refused, and letters that go back to their own topic."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import Job, Json, Source
from holon.outputs.identity import OutputId, Track
from holon.outputs.letters import Diverted
from nodes.errors import RunFailed, UnknownName
from nodes.fleet.end_of_input import Bounds, unread_text
from nodes.fleet.monitor import Monitor
from nodes.log import MemoryLog
from nodes.log.contract import UnknownTopic
from nodes.machine.code_check import JobMismatch
from nodes.replay.comparison import prefix
from nodes.results.dead_letters import dead_letters, found, place_of, replay
from nodes.streams.jobs import changed_topic, declare_end, input_layout, open_job, topics_of


def job(*topics: str, **starts: Any) -> Job[Any]:
    sources = [Source(topic, Json(dict[str, Any]), start=starts.get(topic, "earliest")) for topic in topics]
    return Job("two", sources, lambda event, ctx: ctx.emit(event), output="out")


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    log.create_topic("eu", 2)
    log.create_topic("us", 1)
    log.append("us", 0, [b"{}"] * 5)
    log.append("eu", 1, [b"{}"] * 3)
    return log


def test_partitions_of_all_topics_are_those_of_the_job(log: MemoryLog) -> None:
    made = job("eu", "us")
    run = open_job(log, made)
    assert (run.partitions, run.topic_partitions) == (3, (2, 1))
    assert run.layout.places() == [("eu", 0), ("eu", 1), ("us", 0)]
    assert run.output_partitions["main"] == log.topics()["out"] == 3
    assert open_job(log, made) == run, "as it was recorded"
    assert declare_end(log, run) == [0, 3, 5]


def test_a_job_of_one_topic_starts_as_it_always_did(log: MemoryLog) -> None:
    run = open_job(log, job("eu"))
    assert (run.partitions, run.topic_partitions) == (2, ())
    assert b"topic_partitions" not in log.read(run.job.control_topic, 0, 0).values[0]


def test_each_source_has_a_start_of_its_own(log: MemoryLog) -> None:
    assert open_job(log, job("eu", "us", us="latest")).start_offsets == (0, 0, 5)


def test_a_missing_topic_is_named(log: MemoryLog) -> None:
    with pytest.raises(UnknownTopic, match="no topic 'uk' in this log"):
        open_job(log, job("eu", "uk"))


@pytest.mark.parametrize("other", [("us", "eu"), ("eu",), ("eu", "uk"), ("eu", "us", "uk")])
def test_another_list_of_topics_is_another_declaration(log: MemoryLog, other: tuple[str, ...]) -> None:
    log.create_topic("uk", 1)
    open_job(log, job("eu", "us"))
    with pytest.raises(JobMismatch, match=r"state of another declaration.* \| is .*(source|without)"):
        open_job(log, job(*other))


def test_a_topic_that_has_grown_is_named(log: MemoryLog) -> None:
    run = open_job(log, job("eu", "us"))
    there = log.topics() | {"us": 2}
    problem = changed_topic(run, topics_of(run), there)
    assert problem is not None and "on 1 partitions of 'us', which now has 2" in problem
    grown = MemoryLog()
    for topic, partitions in (log.topics() | {"us": 2}).items():
        grown.create_topic(topic, partitions)
    grown.append(run.job.control_topic, 0, log.read(run.job.control_topic, 0, 0).values)
    with pytest.raises(JobMismatch, match="on 1 partitions of 'us', which now has 2"):
        open_job(grown, job("eu", "us"))


def test_records_behind_the_declared_end_are_counted_by_place(log: MemoryLog) -> None:
    run = open_job(log, job("eu", "us"))
    declare_end(log, run)
    log.append("us", 0, [b"{}"] * 2)
    monitor = Monitor(log, run)
    monitor.poll()
    unread = Bounds(log, run, monitor).unread
    assert unread == {2: 2} and "has read eu, us up to" in (text := unread_text(run, unread))
    assert "2 in partition 2 (us[0])" in text


def test_a_replay_reads_the_beginning_of_every_topic(log: MemoryLog) -> None:
    places = prefix(log, input_layout(log, job("eu", "us")), 4)
    assert sorted((place.partition, place.offset) for place in places) == [
        (1, 0),
        (1, 1),
        (1, 2),
        *((2, n) for n in range(4)),
    ]


def put_letters(log: MemoryLog, *places: tuple[str, int, int]) -> None:
    letters = [msgspec.json.encode(Diverted(*place, 0, "bad", b"{}")) for place in places]
    identities = [OutputId("two", 0, 1, Track.RECORD, number, 0).to_bytes() for number in range(len(places))]
    log.append("two.dead", 1, letters, headers=identities)


def test_letters_go_back_to_their_own_topic_and_partition(log: MemoryLog) -> None:
    made = job("eu", "us")
    open_job(log, made)
    put_letters(log, ("eu", 1, 2), ("us", 0, 2), ("us", 0, 3))
    known = list(dead_letters(log, made))
    assert found(log, made, [place_of("us:0:2"), place_of("eu:1:2")]) == [known[1], known[0]]
    assert replay(log, made, known) == {("eu", 1): 1, ("us", 0): 2}
    assert [log.end_offset(*place) for place in (("eu", 0), ("eu", 1), ("us", 0))] == [0, 4, 7]


def test_a_place_without_its_topic_or_of_another_one_is_refused(log: MemoryLog) -> None:
    made = job("eu", "us")
    open_job(log, made)
    put_letters(log, ("uk", 0, 2))
    with pytest.raises(UnknownName, match=r"TOPIC:PARTITION:OFFSET; eu, us.*'0:2'"):
        found(log, made, [place_of("0:2")])
    with pytest.raises(RunFailed, match="uk:0:2 is of topic uk, and job 'two' reads eu, us"):
        replay(log, made, list(dead_letters(log, made)))
    assert found(log, job("uk"), [place_of("uk:0:2")]) == found(log, job("uk"), [place_of("0:2")])
