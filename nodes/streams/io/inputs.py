"""Chunks of an input topic as the runs that tasks take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holon.formats.formats import headers_requested_by
from holon.formats.input_run import Input
from holon.job import Job
from nodes.log.contract import FetchedRecords, Log


def use_parts(log: Log, job: Job[Any], topic: str | None = None) -> None:
    """Request from the log the parts of records that the job's events hold; most jobs' events hold none.

    ``topic``: another one than the input of a job with one source.
    """
    for source in job.sources:
        headers = headers_requested_by(source.format)
        if headers is not None:
            log.use_record_parts(topic or source.topic, headers)


def input_of(chunk: FetchedRecords, refused: Mapping[int, str] | None = None) -> Input:
    """The same records, without the log; ``refused`` is as in ``Input``."""
    return Input(
        chunk.offsets,
        chunk.timestamps_ms,
        chunk.values,
        chunk.next_offset,
        chunk.found_headers,
        parts=chunk.parts,
        refused=refused,
    )
