"""One plain pass of a job over its records, without a fault: what a simulated run has to give as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holon.errors import HolonError
from holon.formats.formats import headers_requested_by
from holon.input_layout import InputLayout
from holon.job import DEAD, LATE, UNSTABLE, Job
from holon.testing import JobTestDriver
from nodes.compiled.loading import loops_if
from nodes.errors import RunFailed
from nodes.sim.checks import Checked, check_counts, check_log, dead_rows, demand_equal, diverted, input_of, outputs
from nodes.sim.expected import dead_rows_of
from nodes.sim.node_process import InvariantBroken
from wcrdt.windows.assigners import BEFORE_TIME_MS

LOG_BEGINS_MS = 4_102_444_800_000
"""2100-01-01: no skew guard of a job takes the records of a file for those of a future."""
STEPS = 10
NOT_DETERMINISTIC = (
    "two plain passes over these records differ, too: results may depend on records and declared states alone: no "
    "clock, no random numbers, no order of a set, no variable that is not a declared state"
)

Records = Sequence[tuple[int, bytes | None]]
"""(log time, payload) of a partition; no payload where the record is a duplicate."""


class DataFacts(NamedTuple):
    """How many records became what, and how far they go in event time (0: not known)."""

    records: int
    accepted: int
    filtered: int
    late: int
    dead: int
    results: int
    span_ms: int


def data_facts(job: Job, lines: Mapping[str, Sequence[bytes]]) -> DataFacts:
    """Of one plain pass over all lines, each topic's in one partition, the topics side by side.

    Raises ``RunFailed`` where the job fails without any fault, or takes no record, so that a run would show nothing.
    """
    test = JobTestDriver(job, clock_ms=LOG_BEGINS_MS)
    marks, count = list[int](), sum(map(len, lines.values()))
    size = {topic: max(1, len(given) // STEPS) for topic, given in lines.items()}
    try:
        for step in range(max(-(-len(given) // size[topic]) for topic, given in lines.items())):
            for topic, given in lines.items():
                test.feed(topic, *given[step * size[topic] : (step + 1) * size[topic]])
            marks.append(test.frontier_ms)
        test.finish()
    except HolonError as error:
        raise RunFailed(
            f"job {job.name!r} fails on these records in one plain pass, without any fault: {error}"
        ) from error
    counts, known = test.counts, [mark for mark in marks if mark > BEFORE_TIME_MS]
    if not counts.accepted:
        why = f"; the first dead letter: {test.dead()[0]['reason']}" if counts.dead else ""
        raise RunFailed(f"job {job.name!r} accepts none of the {count:,} records, so a simulation shows nothing{why}")
    results = sum(len(test.raw_outputs(name)) for name in _compared(job))
    span_ms = known[-1] - known[0] if known else 0
    return DataFacts(count, counts.accepted, counts.filtered, counts.late, counts.dead, results, span_ms)


def plain_pass(job: Job, layout: InputLayout, partitions: Sequence[Records]) -> JobTestDriver:
    """The job after all of its input, each partition of ``layout`` at once."""
    test = JobTestDriver(job, partitions=layout.topics)
    for partition, records in enumerate(partitions):
        source, place = layout[partition].source, layout[partition].place
        timed = source.timestamp is None or headers_requested_by(source.format) is not None
        if timed:
            for stamp_ms, payload in records:
                test.clock_ms = stamp_ms
                test.feed(place, payload)
        elif records:
            test.clock_ms = records[0][0]
            test.feed(place, *(payload for _, payload in records))
    test.finish()
    return test


def check_plain_pass(world: Checked) -> None:
    """Results, late and dead records, and their counts, equal those of one plain pass. Raises ``InvariantBroken``.

    There each record is alone and is read in Python, where nodes of the fleet may have taken many by compiled loops.
    """
    with loops_if(wanted=False):
        _check_plain_pass(world)


def _check_plain_pass(world: Checked) -> None:
    job, layout, given = world.run.job.by_columns({}), world.run.layout, input_of(world)
    wanted = plain_pass(job, layout, given)
    try:
        check_log(world)
        _compare(world, wanted)
    except InvariantBroken as error:
        again = plain_pass(job, layout, given)
        if any(again.raw_outputs(name) != wanted.raw_outputs(name) for name in job.outputs):
            raise InvariantBroken(f"{error}\n{NOT_DETERMINISTIC}") from None
        raise


def _compare(world: Checked, wanted: JobTestDriver) -> None:
    job, counts, number = world.run.job, wanted.counts, world.run.layout.number_of
    for name in _compared(job):
        got = Counter(map(_text, outputs(world, name)))
        right = Counter(_text(value) for _, _, value in wanted.raw_outputs(name))
        demand_equal(f"results on {job.outputs[name].topic!r}, and of one plain pass", got, right)
    for name in (LATE, DEAD):
        given = [letter for letter in wanted.outputs(name) if "window" not in letter]
        letters = [(number(letter["topic"], letter["partition"]) or 0, letter["offset"]) for letter in given]
        demand_equal(f"{name} records", Counter(diverted(world, name)), Counter(letters))
    demand_equal("dead rows", dead_rows(world), dead_rows_of(wanted.outputs(DEAD)))
    rows = sum(counts.late_by_state.values())
    check_counts(world, counts.accepted, counts.late, counts.dead, counts.late_inserts, counts.filtered, rows)


def _compared(job: Job) -> list[str]:
    """The outputs of the job itself; what it emits as not deterministic is not compared."""
    return [name for name in job.outputs if name not in (LATE, DEAD, UNSTABLE)]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
