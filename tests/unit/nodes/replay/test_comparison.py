"""Which records of a prefix are replayed (replay/comparison.py)."""

from __future__ import annotations

import pytest

from holon.outputs.identity import OutputId, Track
from nodes.errors import RunFailed
from nodes.log import MemoryLog
from nodes.replay.comparison import counted_upstream, prefix, without_duplicates
from nodes.streams.jobs import input_layout, open_job
from tests.unit.node_dialogue import count_job


def header(position: int, incarnation: int = 0) -> bytes:
    return OutputId("up", incarnation, 0, Track.RECORD, position, 0).to_bytes()


def logged(*headers: bytes) -> MemoryLog:
    log = MemoryLog()
    log.create_topic("in", 2)
    for number, each in enumerate(headers):
        log.append("in", 0, [b"%d" % number], headers=[each])
    log.append("in", 1, [b"plain"])
    return log


def replayed(log: MemoryLog) -> list[bytes]:
    job = count_job()
    places = prefix(log, input_layout(log, job), 100)
    return sorted(place.value for place in without_duplicates(places, counted_upstream(log, job)))


def test_what_another_job_has_written_again_is_passed_over_as_by_a_node() -> None:
    log = logged(header(0), header(1), header(0), header(2), header(1), b"")
    assert replayed(log) == [b"0", b"1", b"3", b"5", b"plain"]
    run = open_job(log, count_job())
    assert run.upstream == {"up": 0}
    assert replayed(log) == [b"0", b"1", b"3", b"5", b"plain"], "as the job's start has recorded it"


def test_results_of_an_older_incarnation_are_passed_over_and_of_a_newer_one_are_an_error() -> None:
    log = logged(header(0), header(0, 1), header(1, 1))
    assert replayed(log) == [b"1", b"2", b"plain"]
    log = logged(header(0))
    open_job(log, count_job())
    log.append("in", 0, [b"newer"], headers=[header(0, 1)])
    with pytest.raises(RunFailed, match="partition 0 offset 1"):
        replayed(log)
