"""The flows of the twelve ordinary jobs give what their jobs give, of damaged and late records too."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from holon import Job, JsonColumns
from holon.dataflow import Flow
from holon.testing import JobTestDriver
from nexmark.compare.cases import BY_FLOW, ComparedJob, cases_of

CASES = cases_of("deploy.bench.ordinary")
RECORDS, STEP_MS, LATE_MS = 3_000, 10, 120_000
WRONG = (1e300, "\ud83d", [], {}, True, "1e5", " ")
"""And ints beyond 64 bits, but where a field may be None: there they are good records, at which the job fails."""


def part(case: ComparedJob, name: str) -> Any:
    return getattr(importlib.import_module(case.reference.partition(":")[0]), name)


def dirty(job: Job[Any], draw: random.Random, drawn: Iterator[bytes]) -> Iterator[bytes]:
    """Its records over 30 s of event time, of which some are late, cut, without a field, null, or out of bounds."""
    [source] = job.sources
    field, read = source.timestamp, source.format
    assert isinstance(field, str) and isinstance(read, JsonColumns)
    fields = read.type.__struct_fields__
    for number, text in enumerate(islice(drawn, RECORDS)):
        try:
            row = json.loads(text)
        except ValueError:
            yield text
            continue
        at_ms = 1_753_000_000_000 + number * STEP_MS - (LATE_MS if draw.random() < 0.02 else 0)
        row[field] = at_ms if source.timestamp_unit is None else in_unit(source.timestamp_unit, at_ms)
        kind, name = draw.random(), draw.choice(fields)
        if kind < 0.01:
            del row[name]
        elif kind < 0.02:
            row[name] = None
        elif kind < 0.03:
            row[name] = draw.choice(WRONG if job.name == "drawn" else (*WRONG, 2**63, -(2**70)))
        text = json.dumps(row).encode()
        yield text[: draw.randrange(len(text))] if 0.03 < kind < 0.04 else text


def in_unit(unit: str, at_ms: int) -> int | str:
    if unit == "iso":
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    assert unit == "s"
    return at_ms // 1000


def outcome(job: Job[Any], lines: list[bytes]) -> dict[str, Any]:
    """Rows as bytes, late and dead records, and the account; batches are cut as they come."""
    driver = JobTestDriver(job, partitions=2)
    for partition in range(2):
        mine = lines[partition::2]
        for first in range(0, len(mine), 700):
            driver.feed(partition, *mine[first : first + 700])
    driver.finish()
    counts = driver.counts
    return {
        "rows": [value for _, _, value in driver.raw_outputs()],
        "late": [(row["partition"], row["offset"], row["payload"]) for row in driver.late()],
        "dead": driver.dead(),
        "counts": (counts.accepted, counts.filtered, counts.late, counts.dead),
    }


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_flow_gives_the_rows_and_late_and_dead_records_of_the_job(case: ComparedJob) -> None:
    job, flow, records = (part(case, name) for name in ("job", "flow", "records"))
    lines = list(dirty(job, random.Random(3), records(random.Random(4))))
    expected = outcome(job, lines)
    assert len(expected["late"]) > 20 and len(expected["dead"]) > 20
    assert len({json.loads(row)["window_start"] for row in expected["rows"]}) >= 3
    assert outcome(flow.job, lines) == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_step_of_a_flow_goes_row_by_row(case: ComparedJob) -> None:
    flow = part(case, "flow")
    assert isinstance(flow, Flow) and case.job(BY_FLOW) == f"{case.reference.partition(':')[0]}:flow"
    assert [step.verb for step in flow.explain() if step.how.startswith("row by row")] == []
