"""Which incarnation of an upstream job counts: fixed for all nodes by the record that starts a job's incarnation."""

from __future__ import annotations

import pytest

from holon import Job, Raw, Source
from holon.outputs.identity import OutputId, Track
from nodes.log import MemoryLog
from nodes.machine import messages as m
from nodes.results.reader import OutputReader
from nodes.streams.control_history import control_topic
from nodes.streams.jobs import open_job
from nodes.streams.upstream import TAIL_RECORDS, UpstreamWatch


def make(name: str, topic: str, output: str) -> Job[bytes]:
    return Job(name, Source(topic, Raw()), lambda event, ctx: ctx.emit(event), output=output)


UP, DOWN = make("up", "inputs", "between"), make("down", "between", "results")


@pytest.fixture
def log() -> MemoryLog:
    log = MemoryLog()
    for topic in ("inputs", "between"):
        log.create_topic(topic, 2)
    return log


def put(log: MemoryLog, incarnation: int, count: int = 1, partition: int = 0, job: str = "up") -> None:
    ids = [OutputId(job, incarnation, partition, Track.RECORD, position, 0) for position in range(count)]
    log.append("between", partition, [b"{}"] * count, headers=[identity.to_bytes() for identity in ids])


def test_the_newest_incarnation_counts_also_before_it_has_written_anything(log: MemoryLog) -> None:
    open_job(log, UP)
    put(log, 0, 10)
    open_job(log, UP, reset=True)
    assert open_job(log, DOWN).upstream == {"up": 1}


def test_it_stays_what_it_was_when_the_incarnation_started_until_the_next_one(log: MemoryLog) -> None:
    open_job(log, UP)
    assert open_job(log, DOWN).upstream == {"up": 0}
    open_job(log, UP, reset=True)
    assert open_job(log, DOWN).upstream == {"up": 0}
    assert open_job(log, DOWN, reset=True).upstream == {"up": 1}


def test_a_reset_that_never_came_to_its_record_does_not_make_what_is_there_stale(log: MemoryLog) -> None:
    """It had made its topics, as they have to be there first."""
    open_job(log, UP)
    put(log, 0, 3)
    log.create_topic(UP.broadcast_topic(1), 2)
    assert open_job(log, DOWN).upstream == {"up": 0}
    assert len(list(OutputReader(log, "between").read_available())) == 3


def test_jobs_of_another_log_are_known_by_what_they_wrote_last(log: MemoryLog) -> None:
    put(log, 3, 10, job="far")
    put(log, 4, TAIL_RECORDS - 1, partition=1, job="far")
    put(log, 3, 1, partition=1, job="far")
    log.append("between", 0, [b"{}"])
    assert open_job(log, DOWN).upstream == {"far": 4}


def test_an_upstream_job_whose_own_history_is_lost_keeps_nobody_from_starting(log: MemoryLog) -> None:
    open_job(log, UP)
    open_job(log, UP, reset=True)
    log.delete_before(UP.control_topic, 0, 1)
    log.delete_before(control_topic(UP).checkpoints, 0, 0)
    assert open_job(log, DOWN).upstream == {"up": 1}


def test_an_incarnation_of_an_older_release_goes_on_without_recognising_anything(log: MemoryLog) -> None:
    run = open_job(log, DOWN)
    started = m.decode_control(log.read(DOWN.control_topic, 0, 0).values[0])
    assert isinstance(started, m.JobStarted) and started.format == 2
    old = m.JobStarted(1, started.fingerprint, started.partitions, {"run": started.description["run"]})
    assert m.encode(old)[0] == 1, "older nodes go on with what they can read"
    log.create_topic(DOWN.broadcast_topic(1), run.partitions)
    log.append(DOWN.control_topic, 0, [m.encode(old)])
    assert open_job(log, DOWN, accept_code=True).upstream is None


def watched(log: MemoryLog, counted: set[str]) -> tuple[UpstreamWatch, list[str]]:
    said: list[str] = []
    return UpstreamWatch(log, open_job(log, DOWN), lambda: counted, said.append), said


def test_a_job_that_begins_again_is_warned_of_once_though_it_has_written_nothing(log: MemoryLog) -> None:
    open_job(log, UP)
    watch, said = watched(log, {"up"})
    watch.poll(log.topics())
    assert said == []
    open_job(log, UP, reset=True)
    for _ in range(3):
        watch.poll(log.topics())
    assert len(said) == 1 and "'up' has begun again (incarnation 1)" in said[0] and "--reset" in said[0]
    open_job(log, UP, reset=True)
    watch.poll(log.topics())
    assert len(said) == 2


def test_no_other_job_and_no_incarnation_that_has_not_begun_is_warned_of(log: MemoryLog) -> None:
    open_job(log, UP)
    counted: set[str] = set()
    watch, said = watched(log, counted)
    open_job(log, UP, reset=True)
    watch.poll(log.topics())
    assert said == [], "nothing of it is in the input"
    counted.add("up")
    watch.poll(log.topics())
    assert len(said) == 1
    log.create_topic(UP.broadcast_topic(2), 2)
    watch.poll(log.topics())
    assert len(said) == 1, "its topics are there, and it has not begun"
